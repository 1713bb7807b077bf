"""Gaps between two surfaces stay gaps: a bridge from the near one to the far one would be invented."""

from __future__ import annotations

import numpy as np

from cfusion.kernels.contract import Backend, Floats, Mask

STEEP = 4.0  # times the usual change over such a distance is an edge
NOISE = 6.0  # and what the start is off by does not count


def of_one_surface(x: Floats, observed: Mask, radius: int, noise: float, backend: Backend) -> Mask:
    """Pixels around which what was observed lies, within the radius, at about the same depth; x is NaN elsewhere."""
    change = backend.relief(x, radius)
    (usual,), _ = backend.medians(np.where(observed, change, np.nan)[None])
    near: Mask = change <= STEEP * usual + NOISE * noise
    return near
