"""What ran: versions of the interpreter and the libraries that decide the numbers."""

import platform
from importlib import metadata

PACKAGES = ("cfusion", "numpy", "numba")


def versions() -> dict[str, str | None]:
    """Version of each, None where it is not installed; nothing is imported to find out."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found
