"""The steps to which the depths of a map are rounded, from the values that it repeats.

Sensors with few levels of disparity and maps stored as integers have depths in steps of c z^p: p = 0 for rounded
depths, p = 2 for rounded disparities. On a wall within one step all observations of a map are off alike: neither their
residuals nor halves of them show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.surface import known_sample
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.depth_noise import DepthNoise, unit_of
from cfusion.kernels.one_pass import one_pass

SAMPLE = 20_000  # pixels
REPEATED = 0.5  # of the pixels have a value that another one has: depths that are not rounded hardly have any
FEWEST_LEVELS = 8  # fewer may be as many walls
POWERS = (0, 1, 2)
SMALLEST = 0.25  # quantile of the steps: levels that no pixel has make others larger
UNIFORM = 1 / 12  # variance of a uniform distribution, over the square of its width


@dataclass(frozen=True)
class Rounding:
    """Depths in steps of this size at the middle depth, which grow with it."""

    step: float
    growth: DepthNoise


def rounding_of(depth: DepthMap, backend: Backend) -> Rounding | None:
    """The rounding of a map (H, W); None if its values are not rounded, or too few to tell."""
    levels, counts = np.unique(known_sample(depth, SAMPLE, backend), return_counts=True)
    repeated = counts > 1
    if counts[repeated].sum() < max(REPEATED * counts.sum(), FEWEST_LEVELS):
        return None
    levels = levels[repeated].astype(np.float64)
    if len(levels) < FEWEST_LEVELS:
        return None
    positive = levels[0] > 0  # heights may not be, and have equal steps
    middle, between = float(np.median(levels)) if positive else 1.0, (levels[1:] + levels[:-1]) / 2
    steps = [np.diff(levels) / (between / middle) ** power for power in (POWERS if positive else POWERS[:1])]
    power = min(range(len(steps)), key=lambda each: float(np.std(np.log(steps[each]))))
    return Rounding(float(np.quantile(steps[power], SMALLEST)), DepthNoise(middle, power))


def at_least_rounded(sigma: Floats, n: Floats, depth: DepthMap, rounding: Rounding | None) -> Floats:
    """sigma (H, W), at least the error of the mean of n depths that are uniformly distributed within a step."""
    if rounding is None:
        return sigma
    growth = rounding.growth
    return _at_least(sigma, n, depth, np.float32(rounding.step), *growth.numbers, law=growth.law)


@one_pass
def _at_least(
    sigma: Floats, n: Floats, depth: DepthMap, step: np.float32, *numbers: np.float32, law: DepthNoise
) -> Floats:
    least = step * unit_of(depth, *numbers, law=law) * np.sqrt(UNIFORM / np.maximum(n, 1))
    out: Floats = np.maximum(sigma, least).astype(np.float32)
    return out
