"""Colours of points: of the image where there is one, else by depth."""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Image
from cfusion.io.colour_pictures import VIRIDIS


def point_colours(depth: DepthMap, image: Image | None) -> NDArray[np.uint8]:
    """Colours (N, 3) of the N known pixels of a depth map (H, W), row by row."""
    known = np.isfinite(depth)
    if image is None:
        return _by_depth(depth[known])
    levels = np.rint(255 * np.clip(image[known], 0, 1)).astype(np.uint8)
    return levels if levels.ndim == 2 else np.stack([levels] * 3, axis=-1)


def _by_depth(values: DepthMap) -> NDArray[np.uint8]:
    """Between the 2nd and 98th percentile, so that a few strays do not use up the colours."""
    if values.size == 0:
        return np.empty((0, 3), dtype=np.uint8)
    low, high = np.percentile(values, (2, 98))
    place = np.clip((values - low) / max(high - low, np.finfo(np.float32).tiny), 0, 1) * (len(VIRIDIS) - 1)
    channels = [np.interp(place, np.arange(len(VIRIDIS)), VIRIDIS[:, channel]) for channel in range(3)]
    colours: NDArray[np.uint8] = np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
    return colours
