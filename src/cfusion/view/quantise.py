"""Maps as integers: count 0 is unknown, value = offset + scale * count, or the exponential of that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LARGEST = 65535
Counts = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Quantised:
    """Counts (H, W) and their meaning."""

    counts: Counts
    scale: float
    offset: float
    logarithmic: bool = False

    def coarser(self, factor: int) -> Quantised:
        """The map rounded to a multiple of its step."""
        if factor <= 1:
            return self
        rounded = (self.counts.astype(np.int32) - 1 + factor // 2) // factor + 1
        counts = np.where(self.counts == 0, 0, rounded).astype(np.uint16)
        scale = factor * self.scale
        return Quantised(counts, scale, self.offset + self.scale - scale, self.logarithmic)

    def values(self) -> NDArray[np.float64]:
        """The values of the counts; NaN where unknown."""
        linear = self.offset + self.scale * self.counts.astype(np.float64)
        return np.where(self.counts == 0, np.nan, np.exp(linear) if self.logarithmic else linear)


def quantise(values: NDArray[np.generic], step: float = 0.0, *, logarithmic: bool = False) -> Quantised:
    """A map rounded to `step` or finer; as fine as 16 bits allow if no step is given.

    Logarithmic: the step is relative (0.01 = one percent), and values <= 0 are unknown.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if logarithmic:
        numbers = np.log(np.where(numbers > 0, numbers, np.nan))
    known = np.isfinite(numbers)
    if not known.any():
        return Quantised(np.zeros(numbers.shape, np.uint16), 1.0, 0.0, logarithmic)
    low, high = float(numbers[known].min()), float(numbers[known].max())
    finest = (high - low) / (LARGEST - 1)
    scale = max(step, finest) or 1.0
    counts = np.where(known, 1 + np.rint((np.where(known, numbers, low) - low) / scale), 0)
    return Quantised(np.minimum(counts, LARGEST).astype(np.uint16), scale, low - scale, logarithmic)
