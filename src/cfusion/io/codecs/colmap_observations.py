"""The sparse points that each image of a COLMAP model observes, from images.bin or images.txt."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError
from cfusion.io.codecs.colmap_model import Stream
from cfusion.io.text_tables import read_text

Observed = dict[str, NDArray[np.int64]]  # point ids by the name of an image
POINT = np.dtype([("x", "<f8"), ("y", "<f8"), ("id", "<i8")])


def read_observations(folder: Path) -> Observed:
    """Point ids per image; features without a point (-1) are omitted."""
    binary = folder / "images.bin"
    return _binary(binary) if binary.is_file() else _text(folder / "images.txt")


def _binary(file: Path) -> Observed:
    stream = Stream(file)
    found: Observed = {}
    for _ in range(stream.take("Q")[0]):
        stream.take("i7di")  # number, pose and camera
        name, count = stream.text(), stream.take("Q")[0]
        stream.skip(count * POINT.itemsize)
        ids = np.frombuffer(stream.data, POINT, count, stream.place - count * POINT.itemsize)["id"]
        found[name] = ids[ids >= 0]
    return found


def _text(file: Path) -> Observed:
    lines = [line for line in read_text(file).splitlines() if not line.startswith("#")]
    found: Observed = {}
    for head, body in zip(lines[::2], [*lines[1::2], ""], strict=False):
        words = head.split(maxsplit=9)
        if len(words) < 10:
            continue
        try:
            ids = np.array(body.split()[2::3], dtype=np.int64)
        except ValueError:
            raise FileError(f"{file}: the points of image {words[9][:40]!r} are not `X Y POINT3D_ID`") from None
        found[words[9].rstrip()] = ids[ids >= 0]
    return found
