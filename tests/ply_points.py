"""Points of a PLY file as the format says, for tests: binary, little endian."""

from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"float": "<f4", "double": "<f8", "uchar": "u1", "ushort": "<u2", "int": "<i4"}


def read_points(path: Path) -> Any:
    """The vertices, by the names of their columns."""
    header, _, body = path.read_bytes().partition(b"end_header\n")
    words = [line.split() for line in header.decode().splitlines()]
    assert ["format", "binary_little_endian", "1.0"] in words
    first, *rest = (at for at, line in enumerate(words) if line[0] == "element")
    columns = [(line[2], KINDS[line[1]]) for line in words[first + 1 : rest[0] if rest else None]]
    return np.frombuffer(body, np.dtype(columns), int(words[first][2]))


def places(vertices: Any) -> Any:
    """(N, 3)."""
    return np.stack([vertices[axis] for axis in "xyz"], axis=-1).astype(np.float64)
