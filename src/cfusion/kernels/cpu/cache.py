"""A folder for Numba's compiled kernels: beside the sources or in the user's cache; else a private temporary one.

Numba refuses to compile if it can write to neither, as in a container with a read-only package and home.
"""

import os
import stat
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

from cfusion.errors import BackendUnavailable, CFusionWarning

VARIABLE = "NUMBA_CACHE_DIR"


def require_cache() -> None:
    """Ensure, before Numba is imported, that it has a writable folder."""
    chosen = os.environ.get(VARIABLE)
    usual = [Path(chosen)] if chosen else [Path(__file__).parent / "__pycache__", _users()]
    if any(_is_writable(place) for place in usual):
        return
    for place in _private():
        if _is_writable(place):
            os.environ[VARIABLE] = str(place)
            warnings.warn(f"compiled kernels are kept in {place}: no usual place can be written", CFusionWarning, 2)
            return
    raise BackendUnavailable(
        f"backend 'cpu' finds no folder to compile into; set {VARIABLE} to one that can be written, or pass "
        "backend='numpy'"
    )


def _users() -> Path:
    """Numba's folder for kernels that cannot be stored beside their source."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "numba"


def _private() -> list[Path]:
    """Temporary folders private to this user, because their contents are executed."""
    found = []
    with suppress(OSError):
        shared = Path(tempfile.gettempdir()) / f"cfusion-numba-{os.getuid() if hasattr(os, 'getuid') else 0}"
        with suppress(FileExistsError):
            shared.mkdir(mode=0o700)
        state = shared.lstat()
        ours = stat.S_ISDIR(state.st_mode) and not state.st_mode & 0o077
        found.append(
            shared if ours and state.st_uid == os.getuid() else Path(tempfile.mkdtemp(prefix="cfusion-numba-"))
        )
    return found


def _is_writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False
