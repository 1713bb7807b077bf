"""Sums and means over the neighbourhood of each pixel."""

from __future__ import annotations

import numpy as np

from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import one_pass

PASSES = 3  # repeated box means: nearly a Gaussian of standard deviation sqrt(r (r + 1)) pixels


def window_sums(maps: Floats, radius: int, backend: Backend) -> Floats:
    """Sums (n, H, W) of maps over the square of side 2 radius + 1 around each pixel, clipped at borders."""
    return backend.pooled(maps, radius, 1, (2 * radius + 1) ** 2)


def pooled_mean(values: Floats, weights: Floats | Mask, radius: int, backend: Backend) -> Floats:
    """The weighted mean (H, W) around each pixel; zero where all weights around are zero."""
    return ratio(*backend.pooled(_weighed(values, weights), radius, PASSES))


@one_pass
def _weighed(values: Floats, weights: Floats | Mask) -> Floats:
    """(2, H, W): weights, and values times weights."""
    out: Floats = np.stack([weights, np.where(weights > 0, values, 0) * weights])
    return out


@one_pass
def ratio(mass: Floats, heaped: Floats) -> Floats:
    """heaped / mass, (H, W); zero where there is no mass."""
    out: Floats = np.maximum(heaped, 0) / np.maximum(mass, 1e-9)
    return out
