"""Array functions of a depth map, for arrays on the host and on a GPU alike."""

from __future__ import annotations

import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.depth_noise import DepthNoise


def steps(surface: Floats) -> Floats:
    """(2, H, W) the differences to the lower and to the right neighbour, NaN where there is none."""
    out: Floats = np.full_like(surface, np.nan, shape=(2, *surface.shape))
    out[0, :-1] = surface[1:] - surface[:-1]
    out[1, :, :-1] = surface[:, 1:] - surface[:, :-1]
    return out


def local_slope(surface: Floats, growth: DepthNoise) -> Floats:
    """(H, W) the largest change to a known neighbour in the unit of the noise, NaN where the surface is unknown."""
    out = np.where(np.isnan(surface), np.float32(np.nan), np.float32(0))
    for axis in (0, 1):
        step = np.nan_to_num(np.abs(np.diff(surface, axis=axis)))
        ahead = (slice(None, -1), slice(None)) if axis == 0 else (slice(None), slice(None, -1))
        behind = (slice(1, None), slice(None)) if axis == 0 else (slice(None), slice(1, None))
        out[ahead] = np.maximum(out[ahead], step)
        out[behind] = np.maximum(out[behind], step)
    return out / growth.unit(surface) if growth.power else out


def even_slope(surface: Floats) -> Floats:
    """(H, W) how much the surface changes to the next row and column together, the smaller change of both sides each.

    So edges do not count; zero where neither neighbour is known.
    """
    change = np.abs(steps(surface))
    change = np.where(np.isnan(change), np.float32(np.inf), change)
    before = np.full_like(change, np.inf)
    before[0, 1:], before[1, :, 1:] = change[0, :-1], change[1, :, :-1]
    least = np.minimum(change, before)
    out: Floats = np.where(np.isinf(least), np.float32(0), least).sum(axis=0)
    return out


def blend(surface: Floats, found: Floats, share: float) -> Floats:
    """surface + share (found - surface) where both are known, `found` elsewhere."""
    both = ~np.isnan(surface) & ~np.isnan(found)
    out: Floats = np.where(both, surface + np.float32(share) * (found - surface), found)
    return out


def add_plane(depth: Floats, down: float, right: float) -> Floats:
    """(H, W) depth plus so much for every row, and for every column."""
    rows, columns = (np.cumsum(np.ones_like(line)) - 1 for line in (depth[:, 0], depth[0]))  # where depth lies
    out: Floats = depth + (rows[:, None] * np.float32(down) + columns[None, :] * np.float32(right))
    return out
