"""Re-association on the device; results are in the memory of the input."""

from math import prod

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import as_given, blocks_of, by_value, kernel, on_device, or_nothing
from cfusion.kernels.cuda.viewing import placed

SOURCES = ("camera.cuh", "pulling.cu")
VIEWS_AT_ONCE = 4  # of a thread


def read_view(
    x: Floats,
    reference_camera: Floats,
    view_camera: Floats,
    view_from_reference: Floats,
    depth: Floats,
    confidence: Floats,
    agreement: Floats | float,
) -> tuple[Floats, Floats, Floats]:
    """As `Backend.read_view`; with a leading axis of views, all of them at once."""
    surface, measured = on_device(x, np.float32), on_device(depth, np.float32)
    trusted = on_device(confidence, np.float32) if confidence.size else None
    (height, width), (rows, columns) = surface.shape, measured.shape[-2:]
    maps = measured.shape[:-2]
    shape = (*maps, height, width)
    observed, weight, seen = cupy.empty(shape, np.float32), cupy.empty(shape, np.float32), cupy.empty(shape, np.bool_)
    kernel(SOURCES, "pull")(
        (blocks_of(width, 32), blocks_of(height, 8), blocks_of(prod(maps), VIEWS_AT_ONCE)),
        (32, 8),
        (
            surface,
            by_value(np.array(reference_camera, np.float64)),
            placed(view_camera, view_from_reference, agreement),
            measured,
            or_nothing(trusted),
            np.int32(height),
            np.int32(width),
            np.int32(rows),
            np.int32(columns),
            np.int32(prod(maps)),
            observed,
            weight,
            seen,
        ),
    )
    return as_given(observed, x), as_given(weight, x), as_given(seen, x)
