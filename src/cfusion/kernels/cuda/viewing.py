"""Depth maps as seen by cameras, on the device; results are in the memory of the input."""

from functools import lru_cache
from math import prod
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import as_given, blocks_of, by_value, kernel, on_device

SOURCES = ("camera.cuh", "viewing.cu")
BLOCK = (32, 8)


def placed(cameras: Floats, motions: Floats, agreements: Floats | float = 0.0) -> Any:
    """`Placed` of camera.cuh (K, 23), one per view, on the device."""
    cameras = np.asarray(cameras, np.float64).reshape(-1, 10)
    table = np.empty((len(cameras), 23))
    table[:, :10], table[:, 10:22] = cameras, np.asarray(motions, np.float64).reshape(-1, 12)
    table[:, 22] = agreements
    return uploaded(table.tobytes(), cupy.cuda.runtime.getDevice()).reshape(table.shape)


@lru_cache(maxsize=256)
def uploaded(numbers: bytes, device: int) -> Any:
    """Numbers on a device, cached by value: a scene uses few tables, often."""
    there = cupy.asarray(np.frombuffer(numbers))
    cupy.cuda.get_current_stream().synchronize()  # other streams will read it too
    return there


def reproject(depth: Floats, camera: Floats, onto: Floats, onto_from_view: Floats) -> tuple[Floats, Floats, Floats]:
    """As `Backend.reproject`; cameras and motions are a few numbers on the host, one each per map."""
    height, width = depth.shape[-2:]
    maps = depth.shape[:-2]
    places = cupy.empty((3, *maps, height * width))
    kernel(SOURCES, "reproject")(
        (blocks_of(width, BLOCK[0]), blocks_of(height, BLOCK[1]), prod(maps)),
        BLOCK,
        (
            on_device(depth, np.float32),
            placed(camera, onto_from_view),
            by_value(np.array(onto, np.float64)),
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
