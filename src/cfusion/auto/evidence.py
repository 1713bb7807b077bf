"""What every view says about every pixel of the surface, counted before anything is left out.

A view *supports* a pixel if it measured the surface there, up to its noise. It *contradicts* it if it sees through the
surface, or measured something that would float in front of it as the reference sees it. What it measured in front that
the surface itself explains (an occluder) is silent, and so is a view that does not look there or measured nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.kernels.contract import Floats, Mask
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.numpy.cameras import pixels, slopes
from cfusion.source import Frame, Reading

AGREE = 3.0  # noise scales: Laplace noise is further off once in twenty; six hide a step of the surface


@dataclass(frozen=True, eq=False)
class Evidence:
    """Per view and pixel, (K, H, W)."""

    support: Mask
    contradiction: Mask
    residual: Floats  # what was measured less the surface, in the unit of depth; NaN where nothing was
    weights: Floats  # what the front end trusts each measurement, one on average; zero where nothing was measured


@dataclass(frozen=True, eq=False)
class Placed:
    """Where a view is: its camera as ten numbers, and (3, 4) view_from_reference."""

    camera: Floats
    view_from_reference: Floats


def collect(
    reading: Reading,
    surface: DepthMap,
    scales: Sequence[float],
    growth: DepthNoise,
    frame: Frame,
    places: Sequence[Placed] | None,
) -> Evidence:
    """The evidence of a reading; `scales` (K,) are the views' noise, `places` None for maps registered already."""
    unit = growth.unit(surface)
    residual = reading.depths - surface
    known = ~np.isnan(residual) & (reading.weights > 0)
    support, contradiction = np.zeros_like(known), np.zeros_like(known)
    for k, scale in enumerate(scales):
        limit = np.float32(AGREE * scale) * unit
        near = np.abs(residual[k]) <= limit
        support[k] = known[k] & near
        against = known[k] & ~near
        if places is not None:
            in_front = against & (residual[k] < 0)
            floating = _floats(surface, residual[k], in_front, limit, frame, places[k])
            against = (against & ~in_front) | floating
        contradiction[k] = against
    usual = reading.weights.sum() / np.maximum(known.sum(), 1)
    weights = np.where(known, reading.weights, 0) / np.maximum(usual, np.float32(1e-12))
    return Evidence(support, contradiction, residual, weights.astype(np.float32))


def _floats(surface: DepthMap, residual: Floats, among: Mask, limit: Floats, frame: Frame, place: Placed) -> Mask:
    """Which measurements, of those in front of the surface, lie in front of it also where the reference sees them."""
    out = np.zeros_like(among)
    rows, columns = np.nonzero(among)
    if frame.camera is None or rows.size == 0:
        return among
    camera = frame.camera.numbers
    perspective = camera[0] == 0
    turn, shift = place.view_from_reference[:, :3].tolist(), place.view_from_reference[:, 3].tolist()
    depth = surface[rows, columns].astype(np.float64)
    away = residual[rows, columns].astype(np.float64)
    across, down = slopes(camera, columns, rows)
    reach = depth if perspective else 1.0
    ray = (across, down, 1.0) if perspective else (0.0, 0.0, 1.0)
    point = (across * reach, down * reach, depth)
    seen = [sum(turn[a][b] * point[b] for b in range(3)) + shift[a] for a in range(3)]
    measured = seen[2] + away * sum(turn[2][b] * ray[b] for b in range(3))
    if int(place.camera[0]) == 0:  # along the view's own ray
        scale = measured / seen[2]
        seen = [seen[0] * scale, seen[1] * scale, measured]
    else:
        seen[2] = measured
    back = [sum(turn[b][a] * (seen[b] - shift[b]) for b in range(3)) for a in range(3)]
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(back[2] > 0, back[2], np.nan) if perspective else 1.0
        column, row = (np.floor(at + 0.5) for at in pixels(camera, back[0] / over, back[1] / over))
        inside = (column >= 0) & (row >= 0) & (column < surface.shape[1]) & (row < surface.shape[0])
        at = np.where(inside, row, 0).astype(np.int64), np.where(inside, column, 0).astype(np.int64)
        out[rows, columns] = inside & (back[2] < surface[at] - limit[at])
    return out
