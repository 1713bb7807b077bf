"""The probability that a disparity is right, and its sigma: calibrated per matcher on nine Middlebury pairs.

    logit P(|d - d*| <= 1 pixel) = b - sum_k a_k x_k,   s = good + sum_k c_k x_k,   sigma^2 = s^2 P + wrong^2 (1 - P)

with the cues x of `cues` (each in [0, 1]) and those of the matcher itself. `python -m benchmarks.stereo calibrate`
finds the constants; half of the images had reduced contrast and added noise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import WeightMap
from cfusion.errors import InputError
from cfusion.frontends.cues import NAMES

Floats = NDArray[np.float32]
BLANK = 0.05  # 1 - flat: below, neighbouring pixels differ by less than a quarter of a grey value of 255
LEAST = 1e-3  # confidence of a known pixel


@dataclass(frozen=True)
class Trust:
    """A matcher's calibration."""

    offset: float  # b
    weights: tuple[float, ...]  # a_k >= 0, in the order of the cues
    good: float  # pixels: standard deviation of right disparities without cues against them
    blur: tuple[float, ...]  # c_k >= 0, pixels: its increase by cue
    wrong: float  # pixels: rms of wrong disparities, errors clipped at ten pixels
    systematic: float  # share of the variance of right disparities that repeats in another image of the scene

    def __post_init__(self) -> None:
        if min(*self.weights, *self.blur) < 0 or not (0 < self.good < self.wrong and 0 <= self.systematic <= 1):
            raise InputError("give weights >= 0, 0 < good < wrong, and systematic in [0, 1]")

    def confidence(self, cues: Floats, known: NDArray[np.bool_]) -> WeightMap:
        """The probability (H, W) that the disparity is right to one pixel, zero where unknown."""
        logit = np.float32(self.offset) - np.tensordot(np.array(self.weights, np.float32), cues, axes=1)
        right = 1 / (1 + np.exp(-np.clip(logit, -30, 30)))
        # the calibration pairs have texture everywhere; without any, nothing supports a disparity
        right = right * np.clip((1 - cues[NAMES.index("flat")]) / BLANK, 0, 1)
        return np.where(known, np.maximum(right, LEAST), 0).astype(np.float32)

    def spread(self, cues: Floats) -> Floats:
        """The standard deviation (H, W) of the disparity in pixels if it is right."""
        return np.float32(self.good) + np.tensordot(np.array(self.blur, np.float32), cues, axes=1)

    def sigma(self, cues: Floats, confidence: WeightMap) -> Floats:
        """The standard deviation (H, W) of the disparity in pixels, including wrong matches; NaN where unknown."""
        variance = self.spread(cues) ** 2 * confidence + self.wrong**2 * (1 - confidence)
        return np.where(confidence > 0, np.sqrt(variance), np.nan).astype(np.float32)

    def weight(self, cues: Floats, confidence: WeightMap) -> WeightMap:
        """The weight (H, W) in [0, 1] of a pixel in a fusion: P good / s, as absolute errors are weighted by 1 / s."""
        return (confidence * self.good / self.spread(cues)).astype(np.float32)


SGM_TRUST = Trust(
    *(5.62, (1.24, 3.33, 4.21, 4.52, 2.05, 0.24, 1.40), 0.1, (0.22, 0.16, 0.72, 0.16, 0.15, 0.11, 0.24)),
    wrong=4.5,
    systematic=0.32,
)
ELAS_TRUST = Trust(
    *(6.00, (0.91, 1.18, 3.64, 3.99, 1.95, 0.39, 0.42, 1.62), 0.1, (0.13, 0.05, 0.45, 0.15, 0.16, 0.15, 0.22, 0.10)),
    wrong=4.1,
    systematic=0.36,
)
MC_CNN_TRUST = Trust(
    *(6.54, (0.96, 1.14, 1.69, 2.76, 1.15, 0.0, 3.70, 4.94), 0.1, (0.09, 0.17, 0.01, 0.13, 0.27, 0.04, 0.61, 0.09)),
    wrong=5.2,
    systematic=0.63,
)
MAP_TRUST = Trust(  # for maps of other matchers: SGM's, without a second map to compare with
    *(5.62, (0.0, 3.33, 4.21, 4.52, 2.05, 0.24, 1.40), 0.1, (0.0, 0.16, 0.72, 0.16, 0.15, 0.11, 0.24)),
    wrong=4.5,
    systematic=0.32,
)
