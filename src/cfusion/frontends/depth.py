"""From a matched pair to depth, confidence and sigma: z = f B / (d + doffs), sigma_z = z^2 / (f B) sigma_d."""

from typing import NamedTuple

import numpy as np

from cfusion.arrays import DepthMap, WeightMap
from cfusion.frontends.rig import Rig
from cfusion.frontends.stereo import Matching
from cfusion.geometry.disparity import depth_from_disparity


class PairDepth(NamedTuple):
    """Depth of the left camera's view, with confidence and sigma."""

    depth: DepthMap  # (H, W), NaN where unknown
    confidence: WeightMap  # (H, W) probability that the disparity is right to a pixel, zero where unknown
    sigma: DepthMap  # (H, W) standard deviation, unit of depth, NaN where unknown
    weight: WeightMap  # (H, W) in [0, 1], weight of the pixel in a fusion, zero where unknown


def depth_of(found: Matching, rig: Rig, farthest: float = np.inf) -> PairDepth:
    """Depth up to `farthest`; sigma_z is of first order, and too small where sigma_d is not small against d."""
    depth = depth_from_disparity(found.disparity, rig.focal_baseline, rig.doffs)
    depth = np.where(depth <= farthest, depth, np.float32(np.nan)).astype(np.float32)
    sigma = depth**2 / np.float32(rig.focal_baseline) * found.sigma
    known = np.isfinite(depth)
    trusted, worth = (np.where(known, each, np.float32(0)) for each in (found.confidence, found.weight))
    return PairDepth(depth, trusted, sigma, worth)
