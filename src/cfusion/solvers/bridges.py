"""Gaps between two surfaces stay gaps: a bridge from the near one to the far one would be invented."""

from __future__ import annotations

import numpy as np

from cfusion.kernels.contract import Backend
from cfusion.solvers.task import Floats, Mask

STEEP = 4.0  # times the usual change over such a distance is an edge
NOISE = 6.0  # and what the start is off by does not count


def bridges(x: Floats, observed: Mask, radius: int, noise: float, backend: Backend) -> Mask:
    """Unobserved pixels around which, within the radius, what was observed lies at different depths."""
    low = -_largest_around(np.where(observed, -x, -np.inf), radius)
    change = _largest_around(np.where(observed, x, -np.inf), radius) - low
    (usual,), _ = backend.medians(np.where(observed, change, np.nan)[None])
    across: Mask = ~observed & (change > STEEP * usual + NOISE * noise)
    return across


def _largest_around(values: Floats, radius: int) -> Floats:
    """The maximum over the square of side 2 radius + 1 around each pixel."""
    out = values
    for axis in (0, 1):
        reach = 0
        while reach < radius:  # the maximum over 2 reach + 1, shifted both ways, is that over up to 4 reach + 3
            step = min(reach + 1, radius - reach)
            wider = out.copy()
            ahead = [slice(None), slice(None)]
            behind = [slice(None), slice(None)]
            ahead[axis], behind[axis] = slice(step, None), slice(None, -step)
            one, other = tuple(ahead), tuple(behind)
            wider[other] = np.maximum(wider[other], out[one])
            wider[one] = np.maximum(wider[one], out[other])
            out, reach = wider, reach + step
    return out
