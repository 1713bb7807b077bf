"""A fused map and its confidence as a probability, as formats expect it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, WeightMap
from cfusion.geometry import Camera

RIGHT = 0.01  # relative error up to which a depth counts as right


@dataclass(frozen=True, eq=False)
class FusedMap:
    """A fused depth map with its standard deviation, seen by a camera."""

    depth: DepthMap  # (H, W), NaN where unknown
    sigma: DepthMap  # (H, W), NaN where nothing was observed
    camera: Camera

    @property
    def confidence(self) -> WeightMap:
        """P(|error| < 1 % of the depth) = erf(0.01 depth / (sqrt 2 sigma)), (H, W) in [0, 1]; 0 where not observed."""
        with np.errstate(invalid="ignore", divide="ignore"):
            limit = RIGHT * np.abs(self.depth.astype(np.float64)) / self.sigma
        return np.where(np.isfinite(self.depth) & np.isfinite(self.sigma), _within(limit), 0.0).astype(np.float32)


def _within(sigmas: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(|t| < sigmas) of a normal variable, to 2e-7 (Abramowitz and Stegun 7.1.26)."""
    x = np.nan_to_num(np.abs(sigmas), nan=0.0, posinf=40.0) / np.sqrt(2.0)
    t = 1 / (1 + 0.3275911 * x)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.asarray(np.clip(1 - tail * np.exp(-(x**2)), 0.0, 1.0))
