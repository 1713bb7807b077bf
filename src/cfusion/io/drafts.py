"""Drafts: hidden folders of unfinished output, locked while their writer lives, removed when it is dead."""

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from cfusion.errors import FileError

fcntl: Any = None  # Windows: no locks, so nothing is removed either
with suppress(ImportError):
    fcntl = importlib.import_module("fcntl")

PREFIX = ".cfusion-"
ASIDE = f"{PREFIX}aside-"  # followed by the name of the folder that was moved aside


@contextmanager
def locked(*folders: Path) -> Iterator[None]:
    """Hold the lock of each folder, needed to create, move or remove drafts in it; it leaves no file.

    Parents are locked before their children, so that all writers lock in one order.
    """
    with ExitStack() as held:
        for folder in dict.fromkeys(folders):
            while (handle := _open(folder)) is not None:
                if fcntl is not None:
                    with suppress(OSError):  # a disk without locks: renames are still atomic
                        fcntl.flock(handle, fcntl.LOCK_EX)
                if _is_same_folder(folder, handle):
                    held.callback(os.close, handle)
                    break
                os.close(handle)
        yield


@contextmanager
def draft_in(folder: Path) -> Iterator[Path]:
    """A new draft, removed at the end; its lock shows others that the writer lives."""
    with locked(folder):
        draft = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
        handle = _open(draft)
        if handle is not None and fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if handle is not None:
            os.close(handle)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make a folder if there is none, and hold its lock; an error if another command holds it, or removes it now."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = _open(folder)
    try:
        if handle is not None and not (_is_free(handle) and _is_same_folder(folder, handle)):
            raise FileError(f"another command is working in {folder}; wait for it, or choose another output")
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _is_free(handle: int) -> bool:
    """Whether no other process held the lock, which is now ours; a disk without locks is free."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def aside_of(folder: Path) -> Path:
    """The temporary place of a folder that is being replaced, on systems that cannot exchange two folders."""
    return folder.with_name(f"{ASIDE}{folder.name}")


def sweep(folder: Path) -> None:
    """Remove the drafts of dead writers in a locked folder, and restore folders that one of them had moved aside."""
    if fcntl is None:
        return
    with suppress(OSError):
        for path in sorted(folder.glob(f"{PREFIX}*")):
            if path.name.startswith(ASIDE):
                _bring_back(path)
            elif path.is_dir() and not path.is_symlink() and _is_dead(path):
                shutil.rmtree(path, ignore_errors=True)


def _bring_back(aside: Path) -> None:
    home = aside.with_name(aside.name.removeprefix(ASIDE))
    if home.exists():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(aside, home)


def _is_dead(draft: Path) -> bool:
    handle = _open(draft)
    if handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def _open(folder: Path) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None


def _is_same_folder(folder: Path, handle: int) -> bool:
    """Whether `handle` still refers to the folder of that name, which may have been replaced."""
    try:
        return os.path.samestat(os.stat(folder), os.fstat(handle))
    except OSError:
        return False
