"""Files and folders that appear complete or not at all, whatever interrupts the run.

Data are written into a draft beside their destination, synchronised to disk (fsync) and moved there by one rename. An
existing destination folder is exchanged with the draft, after its other files were linked into the draft.
"""

import errno
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType

from cfusion.errors import FileError
from cfusion.io.drafts import PREFIX, aside_of, draft_in, locked, sweep
from cfusion.io.exchange import exchange

MOST_LINKS = 20_000  # other files in the folder, up to which it is exchanged as a whole
MOUNTS = Path("/proc/self/mountinfo")  # of Linux
NEARLY_FULL = 1 << 20  # bytes free: some libraries do not report a full disk


@dataclass(frozen=True)
class Place:
    """The destination of an output folder: its deepest existing ancestor, and that folder's identity."""

    folder: Path
    standing: Path
    identity: tuple[int, int]  # device and inode

    def require_unmoved(self) -> None:
        """Refuse to write if that folder was moved or removed since: earlier results then lie elsewhere.

        The output folder itself may have changed: a second run may have exchanged it.
        """
        with locked(_parent(self.folder)):
            try:
                found = os.stat(self.standing)
            except OSError:
                found = None
        same = found is not None and (self.standing == self.folder or (found.st_dev, found.st_ino) == self.identity)
        if not same:
            raise FileError(
                f"{self.standing} was moved or removed while cfusion was running; later results were not written"
            )


def require_writable(folder: Path) -> Place:
    """Raise before any computation if results cannot be written to a folder (which need not exist yet).

    A file is created to test it: permission bits do not cover read-only disks, nor root.
    """
    standing = folder
    try:
        parent = _parent(folder)
        with locked(parent):  # so that no other writer exchanges the folder meanwhile
            while not (standing.exists() or standing.is_symlink()) and standing != standing.parent:
                standing = standing.parent
            if not standing.is_dir():
                raise FileError(f"cannot write to {folder}: {standing} is not a folder; choose another output")
            with nullcontext() if Path(os.path.realpath(standing)) == parent else locked(standing):
                os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=standing))
            found = os.stat(standing)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write to {folder}: {reason(error, standing)}; choose another output") from error
    return Place(folder, standing, (found.st_dev, found.st_ino))


def require_none_of(names: Sequence[str], folder: Path) -> None:
    """Refuse a folder that holds entries of these names, of other data."""
    found = [name for name in names if (folder / name).exists()]
    if found:
        raise FileError(f"{folder} holds {found[0]} of other data; choose another folder, or pass overwrite=True")


@contextmanager
def filling(folder: Path, obsolete: Sequence[str] = ()) -> Iterator[Path]:
    """A draft folder whose contents move into `folder` in one step if the block succeeds.

    Files and subfolders of the same name, or matching `obsolete`, are replaced; others are kept. A folder in the place
    of a file is refused.
    """
    require_writable(folder)
    target, created = folder, []
    try:
        target = folder.resolve()
        created = [place for place in (target.parent, *target.parent.parents) if not place.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.parent if _can_be_exchanged(target) else target  # on the same disk either way
        with draft_in(beside) as draft:
            yield draft
            draft.chmod(0o777 & ~_umask())
            _to_disk(draft)
            with _uninterrupted(f"{folder} was written"), locked(beside, target):
                sweep(beside)
                _commit(draft, target, obsolete)
                created = []
        with locked(target.parent, target):
            sweep(target.parent)
            sweep(target)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        why = reason(error, target)
        raise FileError(f"cannot write to {folder}: {why}; what was there before is unchanged") from error
    finally:
        for place in created:
            with suppress(OSError):  # not empty: others write there too
                place.rmdir()


def reason(error: OSError, place: Path) -> str:
    """Why a write failed; some libraries lose the error number of a full disk."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    if not full and error.errno is None:
        with suppress(OSError):
            full = shutil.disk_usage(next(each for each in (place, *place.parents) if each.exists())).free < NEARLY_FULL
    if full:
        return "the disk is full (No space left on device)"
    return error.strerror or str(error).split("\n")[0][:200]


def _parent(folder: Path) -> Path:
    """The folder's parent with all links resolved; circular links raise an error later."""
    return Path(os.path.realpath(folder)).parent


def _can_be_exchanged(target: Path) -> bool:
    """Whether a folder may be replaced by another one: it is no mount point, working directory or home."""
    if not target.exists():
        return True
    lived_in = []
    for where in (Path.cwd, Path.home):
        with suppress(OSError, RuntimeError):  # the folder was removed, or the user has no home
            lived_in.append(where())
    if os.path.ismount(target) or any(place.is_relative_to(target) for place in lived_in):
        return False
    below = list(islice(_files_below(target), MOST_LINKS + 1))
    return os.access(target.parent, os.W_OK) and len(below) <= MOST_LINKS and not _mounts_below(target, below)


def _mounts_below(folder: Path, below: Sequence[Path]) -> bool:
    """Whether a disk is mounted in a folder: an exchange would copy its files to this disk and remove them there."""
    if any(os.path.ismount(path) for path in below):
        return True
    with suppress(OSError):  # of folders that are mounted from the same disk only this file knows
        for line in MOUNTS.read_text(errors="surrogateescape").splitlines():
            place = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split(" ")[4])
            if Path(place).is_relative_to(folder):
                return True
    return False


def _files_below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files))


def _commit(draft: Path, target: Path, obsolete: Sequence[str]) -> None:
    """Exchange draft and target; other processes see either the old or the new contents."""
    if not target.exists():
        os.rename(draft, target)
        sync(target.parent)
        return
    entries = sorted(draft.iterdir(), key=lambda path: (path.suffix == ".json", path))
    for entry in entries:
        if (target / entry.name).is_dir() and not entry.is_dir():
            raise FileError(f"cannot write {target / entry.name}: it is a folder; give the name of a file")
    old = sorted({*obsolete_in(target, obsolete), *(target / entry.name for entry in entries)})
    standing = [path for path in old if path.exists() or path.is_symlink()]
    if len(entries) == 1 and (not standing or (standing == [target / entries[0].name] and standing[0].is_file())):
        os.replace(entries[0], target / entries[0].name)
        sync(target)
    elif draft.parent == target:
        _move_in(draft, entries, standing, target)
    else:
        _link_others(target, draft, {path.name for path in old})
        _take_over(target, draft)
        sync(draft)
        exchange(draft, target, aside_of(target))
        _move_drafts(draft if draft.exists() else aside_of(target), target)
        sync(target.parent)
        shutil.rmtree(aside_of(target), ignore_errors=True)


def obsolete_in(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Entries of a folder that match one of the patterns."""
    return [path for pattern in patterns for path in folder.glob(pattern)]


def _link_others(folder: Path, draft: Path, replaced: set[str]) -> None:
    """Link the files of a folder that are kept into the draft."""
    for path in folder.iterdir():
        if path.name not in replaced and not path.name.startswith(PREFIX):
            _link(path, draft / path.name)


def _move_drafts(old: Path, new: Path) -> None:
    """Move the drafts of other writers from the replaced folder into the new one, so that these can continue."""
    for path in old.glob(f"{PREFIX}*"):
        os.rename(path, new / path.name)


def _take_over(folder: Path, draft: Path) -> None:
    """Copy mode, times and owner of a folder to the one that replaces it."""
    shutil.copystat(folder, draft)
    with suppress(OSError):  # only root may change the owner
        found = folder.stat()
        os.chown(draft, found.st_uid, found.st_gid)


def _link(path: Path, target: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        target.mkdir()
        for inner in path.iterdir():
            _link(inner, target / inner.name)
        _take_over(path, target)
        return
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError:  # a disk without hard links
        shutil.copy2(path, target, follow_symlinks=False)


def _move_in(draft: Path, entries: Sequence[Path], standing: Sequence[Path], target: Path) -> None:
    """Move files if the folder cannot be exchanged: old ones out, new ones in; JSON files out first and in last.

    A crash in between leaves files of one run only, and no JSON that lists them.
    """
    aside = draft / f"{PREFIX}old"
    aside.mkdir()
    moved: list[tuple[Path, Path]] = []
    try:
        for path in sorted(standing, key=lambda path: (path.suffix != ".json", path)):
            os.rename(path, aside / path.name)
            moved.append((path, aside / path.name))
        for entry in entries:
            os.rename(entry, target / entry.name)
            moved.append((entry, target / entry.name))
        sync(target)
    except OSError:
        for before, after in reversed(moved):
            with suppress(OSError):
                os.rename(after, before)
        raise


def _to_disk(folder: Path) -> None:
    """Synchronise every file of a draft: a rename must not reach the disk before the data."""
    for path in _files_below(folder):
        if not path.is_symlink():
            sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Synchronise a file, or the entries of a folder, to disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows cannot open folders
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # a disk without fsync is not an error
            raise
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _uninterrupted(done: str) -> Iterator[None]:
    """Delay Ctrl-C to the end of the block, then raise it with the message `done` (main thread only)."""
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
