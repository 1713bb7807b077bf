"""One damaged file, read by what reads files of its kind: deeper into the codecs than whole data sets get."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cfusion.io.codecs import exr, geotiff, matlab, npy, npz, pfm, photo, png
from cfusion.io.codecs.colmap_map import read_colmap_map
from cfusion.io.codecs.trajectory import read_trajectory
from cfusion.io.json_object import JsonObject
from cfusion.io.text_tables import read_lines
from fuzz.data import Place
from fuzz.mutations import mutated

KIN = 0.3  # share of the cases that start from what the corpus has
MILLIMETRES = png.Encoding(0.001)


def odd_file(rng: np.random.Generator, place: Place) -> int:
    """A file of some data set, damaged, and read alone; the bytes that came out."""
    kinds = list(place.kinds)
    files = place.kinds[kinds[int(rng.integers(0, len(kinds)))]]
    data, name = files[int(rng.integers(0, len(files)))]
    one = place.data[data]
    content = one.sound[name]
    if one.kin and rng.random() < KIN:
        content = one.kin[int(rng.integers(0, len(one.kin)))].get(name) or content
    path = place.root / f"alone{os.path.splitext(name)[1]}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(mutated(content, rng))
    return READ.get(path.suffix, _text)(path)


def _png(path: Path) -> int:
    bits, _ = png.check(path, path.read_bytes())
    return png.read_png(path, MILLIMETRES).nbytes if bits == 16 else png.read_image(path).nbytes


def _photo(path: Path) -> int:
    found = photo.read_photo(path, photo.photo_size(path))
    return 0 if found is None else found.nbytes


def _exr(path: Path) -> int:
    depth, confidence = exr.read_exr(path)
    return depth.nbytes + (0 if confidence is None else confidence.nbytes)


def _npz(path: Path) -> int:
    return sum(member.values.nbytes for member in npz.members(path).values())


def _geotiff(path: Path) -> int:
    geotiff.grid_of(path)
    return geotiff.read_heights(path).nbytes


def _json(path: Path) -> int:
    found = JsonObject.of_file(path)
    for key in found.content:
        if isinstance(found.content[key], list):
            for each in found.objects(key):
                each.matrix("pose")
    return 0


def _text(path: Path) -> int:
    for line in read_lines(path):
        line.numbers()
    return 0


READ: dict[str, Callable[[Path], int]] = {
    ".png": _png,
    ".jpg": _photo,
    ".exr": _exr,
    ".npz": _npz,
    ".tif": _geotiff,
    ".json": _json,
    ".txt": _text,
    ".npy": lambda path: npy.read_npy(path).nbytes,
    ".pfm": lambda path: pfm.read_pfm(path).nbytes,
    ".mat": lambda path: len(matlab.read_matlab(path)),
    ".freiburg": lambda path: len(read_trajectory(path)),
    ".bin": lambda path: read_colmap_map(path).nbytes,
}
