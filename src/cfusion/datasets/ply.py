"""PLY: a coloured point cloud that every viewer opens (binary, little endian)."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import ShapeError

VERTEX = np.dtype(
    [
        ("x", "<f4"),
        ("y", "<f4"),
        ("z", "<f4"),
        ("red", "u1"),
        ("green", "u1"),
        ("blue", "u1"),
        ("confidence", "<f4"),
    ]
)
TYPE_NAMES = {"<f4": "float", "|u1": "uchar"}


def write_ply(path: Path, points: Points, colours: NDArray[np.uint8], confidence: NDArray[np.float32]) -> None:
    """Points (N, 3) with colours (N, 3) and confidences (N,)."""
    count = len(points)
    if points.shape != (count, 3) or colours.shape != (count, 3) or confidence.shape != (count,):
        raise ShapeError(
            f"points, colours, confidence are {points.shape}, {colours.shape}, {confidence.shape}; "
            "expected (N, 3), (N, 3), (N,)"
        )
    vertices = np.empty(count, dtype=VERTEX)
    for axis, name in enumerate(("x", "y", "z")):
        vertices[name] = points[:, axis]
    for channel, name in enumerate(("red", "green", "blue")):
        vertices[name] = colours[:, channel]
    vertices["confidence"] = confidence
    properties = [f"property {TYPE_NAMES[VERTEX[name].str]} {name}" for name in VERTEX.names or ()]
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {count}",
        *properties,
        "end_header",
        "",
    ]
    path.write_bytes("\n".join(header).encode() + vertices.tobytes())
