"""The user's own files, byte for byte: images as hard links if possible, everything else as copies.

Images are never edited in place; a model or a list may be, and an edit must not change the user's original.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cfusion.datasets.write_back.layouts import Layout
from cfusion.errors import FileError
from cfusion.io.codecs.photo import SUFFIXES
from cfusion.io.drafts import PREFIX

MADE_FROM_MAPS = (".ply", ".obj", ".glb", ".stl", ".ply.vis")  # clouds and meshes of the old maps are not kept


def own_files(data: Path, layout: Layout, replaced: frozenset[Path]) -> Iterator[Path]:
    """The files of a data set that are kept, relative to it, in order."""
    found = {path for pattern in layout.kept for path in data.glob(pattern)}
    for path in sorted(found):
        inside = path.relative_to(data)
        earlier = inside.parts[0] == "cfusion"  # output of an earlier scene
        hidden = earlier or any(part.startswith(".") for part in inside.parts)
        if not hidden and inside not in replaced and path.is_file() and not path.name.endswith(MADE_FROM_MAPS):
            yield inside


def take_over(data: Path, output: Path, layout: Layout, replaced: frozenset[Path]) -> None:
    """Copy or link the kept files into the output; existing ones are not changed."""
    for inside in own_files(data, layout, replaced):
        source, target = (data / inside).resolve(), output / inside
        if _same(source, target):
            continue
        draft = target.with_name(f"{PREFIX}{target.name}"[:255])  # one name: the next run removes that of a killed one
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.suffix not in SUFFIXES or not _linked(source, draft):
                shutil.copy2(source, draft)
            os.replace(draft, target)
        except OSError as error:
            raise FileError(f"cannot copy {data / inside}: {error.strerror or error}; choose another output") from error
        finally:
            with suppress(OSError):
                draft.unlink()  # half a copy, or a link: renaming one onto itself leaves it in place


def _linked(source: Path, draft: Path) -> bool:
    """Whether a hard link could be created."""
    try:
        draft.unlink(missing_ok=True)
        os.link(source, draft)
    except OSError:
        return False
    return True


def _same(source: Path, target: Path) -> bool:
    """Whether the target is the source, or a complete copy."""
    try:
        here, there = source.stat(), target.stat()
    except OSError:
        return False
    return here.st_ino == there.st_ino or (here.st_size, here.st_mtime_ns) == (there.st_size, there.st_mtime_ns)
