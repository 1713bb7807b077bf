"""Files and folders that appear whole or not at all, whatever interrupts the run."""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from cfusion.errors import FileError

PREFIX = ".cfusion-"  # of what is being written, next to where it will stand


def require_writable(folder: Path) -> None:
    """Find out before computing whether results can be written to a folder (it need not exist yet).

    Tried, not asked: permission bits say nothing about read-only disks, and nothing at all to root.
    """
    standing = folder
    while not (standing.exists() or standing.is_symlink()) and standing != standing.parent:
        standing = standing.parent
    if not standing.is_dir():
        raise FileError(f"cannot write to {folder}: {standing} is not a folder; choose another output")
    try:
        os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=standing))
    except OSError as error:
        raise FileError(f"cannot write to {folder}: {error.strerror}; choose another output") from error


@contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """A temporary folder whose files move into `folder` in one go when the block ends well.

    Files of the same name are replaced, others in the folder are left alone.
    """
    require_writable(folder)
    created = [place for place in (folder.parent, *folder.parent.parents) if not place.exists()]
    draft: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = folder if folder.exists() else folder.parent  # on the same disk, so that moving is renaming
        draft = Path(tempfile.mkdtemp(prefix=PREFIX, dir=beside))
        yield draft
        draft.chmod(0o777 & ~_umask())
        with _uninterrupted(f"{folder} was written"):
            _move_in(draft, folder)
            created = []
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write to {folder}: {error.strerror or error}; nothing was changed") from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
        for place in created:
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()


def _move_in(draft: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(draft, folder)
        return
    inside = sorted(
        draft.rglob("*"), key=lambda path: (path.suffix == ".json", path)
    )  # the one that names the rest: last
    for path in inside:
        if path.suffix == ".json":  # a kill on the way leaves no list of files that are not those it was written with
            (folder / path.relative_to(draft)).unlink(missing_ok=True)
    for path in inside:
        target = folder / path.relative_to(draft)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        else:
            os.replace(path, target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _uninterrupted(done: str) -> Iterator[None]:
    """Hold Ctrl-C back until the block has ended, then let it say what was done (main thread only)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            raise KeyboardInterrupt(done)
