"""How likely a disparity is right, and how far off it is: calibrated per matcher on nine Middlebury pairs.

    logit P(|d - d*| <= 1 pixel) = b - sum_k a_k x_k,      sigma^2 = good^2 P + wrong^2 (1 - P)

with the cues x of `cues` (each in [0, 1]) and those of the matcher itself. `python -m benchmarks.stereo calibrate`
finds the numbers; half of the images had less contrast and more noise than the originals.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import WeightMap
from cfusion.errors import InputError
from cfusion.frontends.cues import NAMES

Floats = NDArray[np.float32]
BLANK = 0.05  # 1 - flat: below, less than a quarter of a grey value of 255 from pixel to pixel
LEAST = 1e-3  # confidence of a known pixel


@dataclass(frozen=True)
class Trust:
    """A matcher's calibration."""

    offset: float  # b
    weights: tuple[float, ...]  # a_k >= 0, in the order of the cues
    good: float  # pixels: standard deviation of right disparities
    wrong: float  # pixels: root mean square of wrong ones, errors beyond ten pixels counted as ten
    systematic: float  # share of the variance of right disparities that another image of the same scene repeats

    def __post_init__(self) -> None:
        if min(self.weights) < 0 or not (0 < self.good < self.wrong and 0 <= self.systematic <= 1):
            raise InputError("cues only lower confidence; 0 < good < wrong, systematic is a share")

    def confidence(self, cues: Floats, known: NDArray[np.bool_]) -> WeightMap:
        """(H, W) probability that the disparity is right within one pixel, zero where unknown."""
        logit = np.float32(self.offset) - np.tensordot(np.array(self.weights, np.float32), cues, axes=1)
        right = 1 / (1 + np.exp(-np.clip(logit, -30, 30)))
        # calibrated pairs have texture everywhere: where there is none at all, nothing speaks for a disparity
        right = right * np.clip((1 - cues[NAMES.index("flat")]) / BLANK, 0, 1)
        return np.where(known, np.maximum(right, LEAST), 0).astype(np.float32)

    def sigma(self, confidence: WeightMap) -> Floats:
        """(H, W) standard deviation of the disparity in pixels, wrong matches included; NaN where unknown."""
        variance = self.good**2 * confidence + self.wrong**2 * (1 - confidence)
        return np.where(confidence > 0, np.sqrt(variance), np.nan).astype(np.float32)


SGM_TRUST = Trust(6.21, (1.27, 3.39, 4.10, 4.64, 0.99), good=0.29, wrong=4.5, systematic=0.32)
ELAS_TRUST = Trust(6.47, (1.11, 1.59, 3.76, 4.18, 1.24), good=0.31, wrong=4.1, systematic=0.36)
MC_CNN_TRUST = Trust(5.75, (1.56, 1.08, 1.15, 2.81, 0.0, 3.29, 5.23), good=0.25, wrong=4.9, systematic=0.63)
MAP_TRUST = Trust(6.21, (0.0, 3.39, 4.10, 4.64, 0.99), good=0.29, wrong=4.5, systematic=0.32)  # of any matcher's maps
