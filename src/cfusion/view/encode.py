"""Quantised maps as text for a page: predicted from their neighbours, deflated, base64.

The page decodes it: inflate, join the two bytes, undo the zigzag, add the prediction (assets/decode.js).
"""

import base64
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.view.quantise import Counts

Difference = NDArray[np.uint16]
DEFLATE_LEVEL = 7
BASE64 = 4 / 3
BAND = 8  # rows


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
    return round(BASE64 * part * counts.size / max(sample.size, 1))


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
    share = np.bincount(plane.ravel(), minlength=1) / max(plane.size, 1)
    share = share[share > 0]
    return float(-(share * np.log2(share)).sum() * plane.size / 8)
