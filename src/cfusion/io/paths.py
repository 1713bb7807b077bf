"""Paths given in a data set, with one rule: they stay inside its folder."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

from cfusion.errors import FileError

ROOTS: ContextVar[tuple[Path, ...]] = ContextVar("roots", default=())  # folders that may be read; () = all
LONGEST_NAME = 255  # bytes, on all common file systems


@contextmanager
def within(*roots: Path) -> Iterator[None]:
    """Within the block `require_inside` refuses files outside these folders (links to whole folders are followed)."""
    token = ROOTS.set(tuple(root.resolve() for root in roots))
    try:
        yield
    finally:
        ROOTS.reset(token)


@contextmanager
def also(*roots: Path) -> Iterator[None]:
    """Within the block further folders may be read: ones given by the user, or outside by the format's definition."""
    before = ROOTS.get()
    with within(*before, *roots) if before else nullcontext():
        yield


def inside(root: Path, name: str | Path) -> bool:
    """Whether a path is below the root after resolving links."""
    return not _too_long(name) and _below_one_of([os.path.realpath(root)], os.path.join(root, name))


def _below_one_of(roots: Sequence[str | Path], path: str | Path) -> bool:
    """Whether a path is below one of the roots, whose links are already resolved."""
    try:
        real = os.path.realpath(path)
        return any(real == str(root) or real.startswith(str(root).rstrip(os.sep) + os.sep) for root in roots)
    except (ValueError, OSError, RuntimeError):  # an invalid name, or circular links
        return False


def _too_long(name: str | Path) -> bool:
    """Whether the name exceeds the limit of file systems."""
    return any(len(part.encode(errors="surrogatepass")) > LONGEST_NAME for part in str(name).split(os.sep))


def require_inside(path: Path) -> None:
    """Refuse to read a file outside the folders being read."""
    roots = ROOTS.get()
    if roots and (_too_long(path) or not _below_one_of(roots, path)):
        raise FileError(f"{path} leads out of {roots[0]}; copy it inside instead of linking to it")


def path_inside(folder: Path, name: str, where: str) -> Path:
    """A file below the folder; a path that leads out of it, also by links, is refused."""
    if not inside(folder, name):
        short = name if len(name) <= 40 else name[:37] + "..."
        if _too_long(name):
            raise FileError(f"{where} names {short!r}, whose {len(name)} letters are too many for a file; shorten it")
        raise FileError(f"{where} names {short!r}, which leads out of {folder}, by itself or a link; copy it inside")
    return folder / name
