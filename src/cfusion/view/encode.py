"""Maps for a page: rounded to counts, predicted from their neighbours, deflated, base64.

Count 0 is unknown, value = offset + scale * count, or the exponential of that. The page decodes the text: inflate, join
the two bytes, undo the zigzag, add the prediction (assets/decode.js).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.uint16]
Difference = NDArray[np.uint16]
LARGEST = 65535
DEFLATE_LEVEL = 7
BASE64 = 4 / 3
BAND = 8  # rows


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


def encode(counts: Counts) -> tuple[str, str]:
    """The best predictor for this map, by name, and the map as text."""
    name = min(PREDICTORS, key=lambda each: _entropy_bytes(_difference(counts, each)))
    differences = _difference(counts, name)
    planes = [differences & 255, differences >> 8] if differences.size and differences.max() > 255 else [differences]
    content = b"".join(plane.astype(np.uint8).tobytes() for plane in planes)
    return name, base64.b64encode(zlib.compress(content, DEFLATE_LEVEL)).decode("ascii")


def estimated_size(counts: Counts) -> int:
    """Approximate length of the text that `encode` returns, estimated quickly from some bands of rows."""
    bands = -(-len(counts) // BAND)
    sample = counts if bands < 8 else np.concatenate([counts[k * BAND : (k + 1) * BAND] for k in range(1, bands, 4)])
    part = min(_entropy_bytes(_difference(sample, name)) for name in PREDICTORS)
    return round(BASE64 * part * counts.size / sample.size)


def _left(c: NDArray[np.int32]) -> NDArray[np.int32]:
    left = np.zeros_like(c)
    left[:, 1:] = c[:, :-1]
    return left


def _median(c: NDArray[np.int32]) -> NDArray[np.int32]:
    """The median of left, above and left + above - corner; zero outside the image."""
    left, above, corner = np.zeros_like(c), np.zeros_like(c), np.zeros_like(c)
    left[:, 1:], above[1:], corner[1:, 1:] = c[:, :-1], c[:-1], c[:-1, :-1]
    low, high = np.minimum(left, above), np.maximum(left, above)
    predicted: NDArray[np.int32] = np.clip(left + above - corner, low, high)
    return predicted


PREDICTORS: dict[str, Callable[[NDArray[np.int32]], NDArray[np.int32]]] = {
    "none": np.zeros_like,
    "left": _left,
    "median": _median,
}


def _difference(counts: Counts, predictor: str) -> Difference:
    """Counts minus prediction modulo 2^16, with small values of either sign as small numbers (zigzag)."""
    whole = counts.astype(np.int32)
    apart = (whole - PREDICTORS[predictor](whole)).astype(np.uint16).view(np.int16).astype(np.int32)
    return ((apart << 1) ^ (apart >> 15)).astype(np.uint16)


def _entropy_bytes(differences: Difference) -> float:
    """Bytes of an ideal code of the two byte planes."""
    return _plane_bytes(differences & 255) + _plane_bytes(differences >> 8)


def _plane_bytes(plane: NDArray[Any]) -> float:
    share = np.bincount(plane.ravel()) / plane.size
    share = share[share > 0]
    return float(-(share * np.log2(share)).sum() * plane.size / 8)
