"""Colours of points: from the image if there is one, else by depth."""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Image
from cfusion.io.colour_pictures import depth_colours


def point_colours(depth: DepthMap, image: Image | None) -> NDArray[np.uint8]:
    """Colours (N, 3) of the N known pixels of a depth map (H, W), row by row."""
    known = np.isfinite(depth)
    if image is None:  # percentiles 2 to 98: outliers do not stretch the range of colours
        low, high = np.percentile(depth[known], (2, 98)) if known.any() else (0.0, 1.0)
        return depth_colours(depth[known], (low, high))[:, :3]
    levels = np.rint(255 * np.clip(image[known], 0, 1)).astype(np.uint8)
    return levels if levels.ndim == 2 else np.stack([levels] * 3, axis=-1)
