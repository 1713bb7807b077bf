"""Exchange two folders in one step, as seen by other processes and after any crash."""

import ctypes
import errno
import os
import sys
from pathlib import Path

AT_FDCWD = -100
EXCHANGE, SWAP = 2, 2  # renameat2's RENAME_EXCHANGE, renamex_np's RENAME_SWAP
UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}  # by this system, or by this disk


def exchange(ours: Path, theirs: Path, aside: Path) -> None:
    """Exchange two folders on one disk.

    Without a system call for it, `theirs` is moved `aside` and `ours` takes its place: a crash in between leaves
    `aside`, which `atomic` restores. The old folder is at `ours` or `aside` afterwards.
    """
    code = _exchange(os.fsencode(ours), os.fsencode(theirs))
    if code == 0:
        return
    if code not in UNSUPPORTED:
        raise OSError(code, os.strerror(code), str(theirs))
    os.rename(theirs, aside)
    try:
        os.rename(ours, theirs)
    except OSError:
        os.rename(aside, theirs)
        raise


def _exchange(ours: bytes, theirs: bytes) -> int:
    """0, or the system's error number."""
    if sys.platform == "win32":
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):
        failed = library.renameat2(AT_FDCWD, ours, AT_FDCWD, theirs, EXCHANGE)
    elif hasattr(library, "renamex_np"):
        failed = library.renamex_np(ours, theirs, SWAP)
    else:
        return errno.ENOSYS
    return ctypes.get_errno() if failed else 0
