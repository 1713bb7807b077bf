"""Versions of the interpreter and of the libraries that determine the numbers."""

import platform
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
PACKAGES = ("cfusion", "numpy", "numba")


def versions() -> dict[str, str | None]:
    """The version of the interpreter and of each package."""
    return {"python": platform.python_version()} | {name: version_of(name) for name in PACKAGES}


def version_of(package: str) -> str | None:
    """The version of a package, None if it is not installed; nothing is imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@lru_cache(1)
def code_fingerprint(package: Path = PACKAGE) -> str:
    """Hash of every source file of this package: equal hashes mean equal code."""
    digest = sha256()
    for file in sorted(path for ending in ("py", "cu", "cuh") for path in package.rglob(f"*.{ending}")):
        digest.update(f"{file.relative_to(package).as_posix()}\0".encode())
        digest.update(sha256(file.read_bytes()).digest())
    return digest.hexdigest()
