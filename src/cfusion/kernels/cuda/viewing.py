"""What cameras see, on the device; arrays may lie on the host, and then the results do."""

from __future__ import annotations

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import as_given, blocks_of, by_value, kernel, on_device

SOURCES = ("camera.cuh", "viewing.cu")
BLOCK = (32, 8)


def reproject(depth: Floats, camera: Floats, onto: Floats, onto_from_view: Floats) -> tuple[Floats, Floats, Floats]:
    """As `Backend.reproject`; cameras and the motion are a few numbers on the host."""
    height, width = depth.shape
    places = cupy.empty((3, height * width))
    kernel(SOURCES, "reproject")(
        (blocks_of(width, BLOCK[0]), blocks_of(height, BLOCK[1])),
        BLOCK,
        (
            on_device(depth, np.float32),
            *(by_value(np.array(each, np.float64)) for each in (camera, onto, onto_from_view)),
            np.int32(height),
            np.int32(width),
            *places,
        ),
    )
    u, v, z = (as_given(each, depth) for each in places)
    return u, v, z


def cosines(depths: Floats, camera: Floats) -> Floats:
    """As `Backend.cosines`."""
    views, height, width = depths.shape
    out = cupy.empty(depths.shape, np.float32)
    kernel(SOURCES, "cosines")(
        (blocks_of(width, BLOCK[0]), blocks_of(height, BLOCK[1]), views),
        BLOCK,
        (on_device(depths, np.float32), by_value(np.array(camera, np.float64)), np.int32(height), np.int32(width), out),
    )
    return as_given(out, depths)
