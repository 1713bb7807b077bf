"""PLY from tables: vertices with named columns, in chunks, and triangles; coloured points (binary, little endian)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import ShapeError

TYPE_NAMES = {"<f4": "float", "<f8": "double", "|u1": "uchar", "<u2": "ushort", "<i4": "int"}
POSITION, NORMAL = ([(name, "<f4") for name in names] for names in (("x", "y", "z"), ("nx", "ny", "nz")))
COLOUR = [(name, "u1") for name in ("red", "green", "blue")]
VERTEX = np.dtype([*POSITION, *COLOUR, ("confidence", "<f4")])
MOST_ROUNDING = 0.01  # of a pixel, by which single precision may move a point


def write_ply(
    path: Path, points: Points, colours: NDArray[np.uint8], confidence: NDArray[np.float32], pixel: float = np.inf
) -> None:
    """Points (N, 3) with colours (N, 3) and confidences (N,); `pixel` is the size of a pixel on the surface."""
    count = len(points)
    if points.shape != (count, 3) or colours.shape != (count, 3) or confidence.shape != (count,):
        raise ShapeError(
            f"points, colours, confidence are {points.shape}, {colours.shape}, {confidence.shape}; "
            "expected (N, 3), (N, 3), (N,)"
        )
    columns = fine_enough(VERTEX, points, pixel)
    write_table(path, columns, count, [table_of(columns, points, colours, confidence)])


def fine_enough(columns: np.dtype[np.void], points: NDArray[np.float64], pixel: float) -> np.dtype[np.void]:
    """The columns with positions in double precision if single precision is too coarse for points (N, 3).

    Coordinates of a map projection are millions of metres, where single precision has steps of half a metre. `pixel` is
    the size of a pixel on the surface, in the unit of the points.
    """
    if rounding(points) <= MOST_ROUNDING * pixel:
        return columns
    return np.dtype([(name, "<f8" if name in "xyz" else columns[name].str) for name in columns.names or ()])


def rounding(points: NDArray[np.float64]) -> float:
    """By how much single precision may move a coordinate of these points."""
    return float(np.spacing(np.float32(np.abs(points).max(initial=0.0)))) / 2


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
