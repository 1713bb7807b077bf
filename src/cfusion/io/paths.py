"""Names that a data set gives to its files, and the one rule for all of them: they stay inside its folder."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

from cfusion.errors import FileError

ROOTS: ContextVar[tuple[Path, ...]] = ContextVar("roots", default=())  # where files may be read; () = anywhere
LONGEST_NAME = 255  # bytes, on every usual disk


@contextmanager
def within(*roots: Path) -> Iterator[None]:
    """While it lasts, `require_inside` refuses files outside of these folders (and of what they link to as a whole)."""
    token = ROOTS.set(tuple(root.resolve() for root in roots))
    try:
        yield
    finally:
        ROOTS.reset(token)


@contextmanager
def also(*roots: Path) -> Iterator[None]:
    """Likewise for folders that the user named, or the format puts outside: beside those that are allowed already."""
    before = ROOTS.get()
    with within(*before, *roots) if before else nullcontext():
        yield


def inside(root: Path, name: str | Path) -> bool:
    """Whether a name leads to a place below the root, links included."""
    return not _too_long(name) and _below_one_of([os.path.realpath(root)], os.path.join(root, name))


def _below_one_of(roots: Sequence[str | Path], path: str | Path) -> bool:
    """Whether a place lies below another; roots have no links any more."""
    try:
        real = os.path.realpath(path)
        return any(real == str(root) or real.startswith(str(root).rstrip(os.sep) + os.sep) for root in roots)
    except (ValueError, OSError, RuntimeError):  # no name a disk can have, or links in a circle
        return False


def _too_long(name: str | Path) -> bool:
    """Whether a disk can have no such name."""
    return any(len(part.encode(errors="surrogatepass")) > LONGEST_NAME for part in str(name).split(os.sep))


def require_inside(path: Path) -> None:
    """Refuse to read a file outside of the folders that are being read."""
    roots = ROOTS.get()
    if roots and (_too_long(path) or not _below_one_of(roots, path)):
        raise FileError(f"{path} leads out of {roots[0]}; copy it inside instead of linking to it")


def path_inside(folder: Path, name: str, where: str) -> Path:
    """A file below the folder; a name that leads out of it is refused, links included."""
    if not inside(folder, name):
        short = name if len(name) <= 40 else name[:37] + "..."
        if _too_long(name):
            raise FileError(f"{where} names {short!r}, which cannot be read: no file has a name of {len(name)} letters")
        raise FileError(f"{where} names {short!r}, which leads out of {folder}; move it inside")
    return folder / name
