"""Re-association on the device; arrays may lie on the host, and then the results do."""

from __future__ import annotations

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import as_given, blocks_of, by_value, kernel, on_device, or_nothing


def pull(
    x: Floats,
    reference_camera: Floats,
    view_camera: Floats,
    view_from_reference: Floats,
    depth: Floats,
    confidence: Floats,
    agreement: float,
) -> tuple[Floats, Floats, Floats]:
    """As the reference's `pull`; cameras and the motion are a few numbers on the host."""
    surface, measured = on_device(x, np.float32), on_device(depth, np.float32)
    trusted = on_device(confidence, np.float32) if confidence.size else None
    observed, weight = cupy.empty(surface.shape, np.float32), cupy.empty(surface.shape, np.float32)
    seen = cupy.empty(surface.shape, np.bool_)
    (height, width), (rows, columns) = surface.shape, measured.shape
    kernel(("camera.cuh", "pulling.cu"), "pull")(
        (blocks_of(width, 32), blocks_of(height, 8)),
        (32, 8),
        (
            surface,
            by_value(np.array(reference_camera, np.float64)),
            by_value(np.array(view_camera, np.float64)),
            by_value(np.array(view_from_reference, np.float64)),
            measured,
            or_nothing(trusted),
            np.float64(agreement),
            np.int32(height),
            np.int32(width),
            np.int32(rows),
            np.int32(columns),
            observed,
            weight,
            seen,
        ),
    )
    return as_given(observed, x), as_given(weight, x), as_given(seen, x)
