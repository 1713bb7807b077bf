"""What every view says about every pixel of the surface, counted before anything is left out.

A view *supports* a pixel if it measured the surface there, up to its noise. It *contradicts* it if it sees through the
surface, or measured something that would float in front of it as the reference sees it. What it measured in front that
the surface itself explains (an occluder) is silent, and so is a view that does not look there or measured nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cfusion.arrays import DepthMap, chunks, on_host
from cfusion.kernels.contract import Backend, Floats, Mask
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
    backend: Backend,
) -> Evidence:
    """The evidence of a reading; `scales` (K,) are the views' noise, `places` None for maps registered already."""
    unit = growth.unit(surface)
    residual = reading.depths - surface
    known = ~np.isnan(residual) & (reading.weights > 0)
    support, contradiction = np.empty_like(known), np.empty_like(known)
    limits = np.array(scales, np.float32)[:, None, None] * np.float32(AGREE)
    limits = limits if on_host(residual) else backend.to_device(limits, np.float32)
    parts = (chunks(each) for each in (residual, known, limits, support, contradiction))
    for away, there, limit, supports, contradicts in zip(*parts, strict=True):
        supports[...] = there & (np.abs(away) <= limit * unit)
        contradicts[...] = there & ~supports
    if places is not None and frame.camera is not None:
        _take_back_occluders(contradiction, surface, residual, limits, unit, frame.camera.numbers, places, backend)
    usual = reading.weights.sum() / np.maximum(known.sum(), 1)
    weights = np.where(known, reading.weights, 0) / np.maximum(usual, np.float32(1e-12))
    return Evidence(support, contradiction, residual, weights.astype(np.float32))


def _take_back_occluders(
    contradiction: Mask,
    surface: DepthMap,
    residual: Floats,
    limits: Floats,
    unit: Floats,
    camera: Floats,
    places: Sequence[Placed],
    backend: Backend,
) -> None:
    """In place: what lies in front of the surface contradicts it only if it does so too where the reference sees it."""
    view, row, column = np.nonzero(contradiction & (residual < 0))
    if view.size == 0:
        return
    motions = backend.to_device(np.stack([place.view_from_reference for place in places]), np.float64)[view]
    along_rays = backend.to_device([[place.camera[0] == 0] for place in places], np.float64)[view, 0] > 0
    turn, shift = [[motions[:, a, b] for b in range(3)] for a in range(3)], [motions[:, a, 3] for a in range(3)]
    depth, away = surface[row, column].astype(np.float64), residual[view, row, column].astype(np.float64)
    perspective = camera[0] == 0
    across, down = slopes(camera, column, row)
    reach = depth if perspective else 1.0
    ray = (across, down, 1.0) if perspective else (0.0, 0.0, 1.0)
    point = (across * reach, down * reach, depth)
    seen = [sum(turn[a][b] * point[b] for b in range(3)) + shift[a] for a in range(3)]
    measured = seen[2] + away * sum(turn[2][b] * ray[b] for b in range(3))
    scale = np.where(along_rays, measured / seen[2], 1.0)  # a perspective view measured along its own ray
    seen = [seen[0] * scale, seen[1] * scale, measured]
    back = [sum(turn[b][a] * (seen[b] - shift[b]) for b in range(3)) for a in range(3)]
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(back[2] > 0, back[2], np.nan) if perspective else 1.0
        to_column, to_row = (np.floor(at + 0.5) for at in pixels(camera, back[0] / over, back[1] / over))
        inside = (to_column >= 0) & (to_row >= 0) & (to_column < surface.shape[1]) & (to_row < surface.shape[0])
        at = np.where(inside, to_row, 0).astype(np.int64), np.where(inside, to_column, 0).astype(np.int64)
        floats = inside & (back[2] < surface[at] - limits[view, 0, 0] * unit[at])
    contradiction[view, row, column] = floats
