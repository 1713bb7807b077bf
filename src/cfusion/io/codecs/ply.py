"""PLY: a coloured point cloud that every viewer opens (written binary, little endian)."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import ShapeError
from cfusion.io.codecs.ply_table import COLOUR, POSITION, fine_enough, table_of, write_table

VERTEX = np.dtype([*POSITION, *COLOUR, ("confidence", "<f4")])


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
