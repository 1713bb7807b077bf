"""Whole maps: coordinates undone, two surfaces blended, gaps found, observations counted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cfusion.kernels.contract import Floats, Mask, Window


def whole(part: Floats, domain: Mask, window: Window, outside: float, centre: float, inverse: bool) -> Floats:
    """As `Backend.whole`."""
    out = np.full(domain.shape, outside, np.float32)
    depth = part + part.dtype.type(centre)
    if inverse:
        with np.errstate(divide="ignore"):
            depth = np.where(depth > 0, 1 / depth, np.nan)
    out[window] = np.where(domain[window], depth, outside)
    return out


def blend(surface: Floats, found: Floats, share: float) -> Floats:
    """As `Backend.blend`."""
    both = ~np.isnan(surface) & ~np.isnan(found)
    blended: Floats = np.where(both, surface + np.float32(share) * (found - surface), found)
    return blended


def tilted(depth: Floats, down: float, right: float) -> Floats:
    """As `Backend.tilted`."""
    rows, columns = (np.arange(size, dtype=np.float32) for size in depth.shape)
    plane = rows[:, None] * np.float32(down) + columns[None, :] * np.float32(right)
    out: Floats = depth + plane
    return out


def closing(close_mask: Callable[[Mask, int], Mask]) -> Callable[[Mask, int], Mask | None]:
    """`Backend.gaps` by a backend's closing."""

    def gaps(mask: Mask, radius: int) -> Mask | None:
        added = close_mask(mask, radius) & ~mask
        return added if added.any() else None

    return gaps


def account(
    depths: Floats, weights: Floats | None, filled: Mask | None, depth: Floats
) -> tuple[NDArray[np.int16], Floats]:
    """As `Backend.account`, one map after the other."""
    measured, known = np.zeros((2, *depth.shape), np.int32)
    spread = np.zeros(depth.shape)
    for k, observed in enumerate(depths):
        seen = ~np.isnan(observed) if weights is None else weights[k] > 0
        measured += seen if filled is None else seen & ~filled[k]
        away = np.abs(observed - depth)
        there = ~np.isnan(away)
        spread += np.where(there, away, 0)
        known += there
    most = np.iinfo(np.int16).max
    provenance = np.where(np.isnan(depth), -1, np.minimum(measured, most)).astype(np.int16)
    with np.errstate(divide="ignore", invalid="ignore"):
        return provenance, np.where(known > 0, np.sqrt(2) * spread / known**1.5, np.nan).astype(np.float32)
