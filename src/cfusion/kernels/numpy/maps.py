"""Maps of a window placed in the whole image."""

import numpy as np

from cfusion.kernels.contract import Floats, Mask, Window


def to_image(part: Floats, domain: Mask, window: Window, outside: float, centre: float, inverse: bool) -> Floats:
    """As `Backend.to_image`."""
    out = np.full(domain.shape, outside, np.float32)
    depth = part + part.dtype.type(centre)
    if inverse:
        with np.errstate(divide="ignore"):
            depth = np.where(depth > 0, 1 / depth, np.nan)
    out[window] = np.where(domain[window], depth, outside)
    return out
