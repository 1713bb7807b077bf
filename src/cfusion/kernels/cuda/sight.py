"""A surface as seen by other cameras, on the device; definitions in `cfusion.kernels.numpy.sight`."""

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import all_ones, as_given, blocks_of, by_value, kernel, on_device
from cfusion.kernels.cuda.viewing import BLOCK, placed, uploaded
from cfusion.kernels.numpy.sight import RELATIVE, SLOPES

SOURCES = ("camera.cuh", "sight.cu")


def parallax(surface: Floats, camera: Floats, onto: Floats, onto_from_camera: Floats) -> Floats:
    """As `Backend.parallax`."""
    here = on_device(surface, np.float32)
    out = cupy.empty((len(onto), *here.shape), np.float32)
    arguments = (here, by_value(np.array(camera, np.float64)), placed(onto, onto_from_camera), *_sizes(here), out)
    kernel(SOURCES, "parallax")(_grid(out), BLOCK, arguments)
    return as_given(out, surface)


def hidden(
    surface: Floats,
    camera: Floats,
    onto: Floats,
    onto_from_camera: Floats,
    shapes: Sequence[tuple[int, int]],
    tolerance: Floats,
) -> Any:
    """As `Backend.hidden`, in two launches for all views."""
    here, limit = on_device(surface, np.float32), on_device(tolerance, np.float32)
    views, sizes = len(onto), _sizes(here)
    rows_and_columns = np.array(shapes, np.int32)
    largest = np.uint32(rows_and_columns.prod(axis=1).max())
    depth, landing = (cupy.empty((views, *here.shape), real) for real in (np.float32, np.int32))
    nearest, out = all_ones((views, int(largest)), np.uint32), cupy.empty((views, *here.shape), np.bool_)
    places = (
        by_value(np.array(camera, np.float64)),
        placed(onto, onto_from_camera),
        uploaded(rows_and_columns.tobytes(), cupy.cuda.runtime.getDevice()),
    )
    kernel(SOURCES, "land")(_grid(out), BLOCK, (here, *places, *sizes, largest, depth, landing, nearest))
    limits = (np.float32(RELATIVE), np.float32(SLOPES))
    kernel(SOURCES, "hide")(_grid(out), BLOCK, (depth, landing, nearest, limit, *sizes, largest, *limits, out))
    return as_given(out, surface)


def _sizes(surface: Floats) -> tuple[np.int32, np.int32]:
    return np.int32(surface.shape[0]), np.int32(surface.shape[1])


def _grid(out: Floats) -> tuple[int, int, int]:
    return blocks_of(out.shape[2], BLOCK[0]), blocks_of(out.shape[1], BLOCK[1]), len(out)
