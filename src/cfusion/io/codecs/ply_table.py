"""PLY from tables: vertices with named columns, in chunks, and triangles (written binary, little endian)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPE_NAMES = {"<f4": "float", "|u1": "uchar", "<u2": "ushort", "<i4": "int"}
POSITION, NORMAL = ([(name, "<f4") for name in names] for names in (("x", "y", "z"), ("nx", "ny", "nz")))
COLOUR = [(name, "u1") for name in ("red", "green", "blue")]


def table_of(columns: np.dtype[np.void], *values: NDArray[Any]) -> NDArray[np.void]:
    """A table whose columns are, in order, those of arrays (N,) and (N, C)."""
    table = np.empty(len(values[0]), columns)
    for name, column in zip(
        columns.names or (), (each for array in values for each in np.atleast_2d(array.T)), strict=True
    ):
        table[name] = column
    return table


def write_table(
    path: Path,
    columns: np.dtype[np.void],
    count: int,
    pieces: Iterable[NDArray[np.void]],
    faces: NDArray[np.int32] | None = None,
) -> None:
    """Write `count` vertices from chunks with these columns, then triangles (F, 3)."""
    properties = [f"property {TYPE_NAMES[columns[name].str]} {name}" for name in columns.names or ()]
    triangles = [] if faces is None else [f"element face {len(faces)}", "property list uchar int vertex_indices"]
    vertices = ["ply", "format binary_little_endian 1.0", f"element vertex {count}", *properties]
    with path.open("wb") as file:
        file.write("\n".join([*vertices, *triangles, "end_header", ""]).encode())
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, columns).tobytes())
        if faces is not None:
            rows = np.empty(len(faces), np.dtype([("count", "u1"), ("corners", "<i4", 3)]))
            rows["count"], rows["corners"] = 3, faces
            file.write(rows.tobytes())
