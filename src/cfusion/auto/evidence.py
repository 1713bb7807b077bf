"""The evidence of every view about every pixel of the surface, before anything is rejected.

A view *supports* a pixel if it measured the surface there, within its noise. It *contradicts* it if it sees through the
surface, or measured something that would float in front of it in the reference's view. A measurement in front that the
surface itself explains (an occluder) is no evidence, and neither is a view that does not see the point or has no
measurement there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from cfusion.arrays import DepthMap, on_host
from cfusion.auto.settings import NO_NOISE
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.numpy.cameras import bent as bent_by
from cfusion.kernels.numpy.cameras import is_bent, unbent
from cfusion.kernels.one_pass import one_pass, rewrite
from cfusion.kernels.tracing import last_place, looked_up, row_and_column
from cfusion.source import Frame, Reading

AGREE = 3.0  # noise scales: Laplace noise exceeds them once in twenty; six would hide a step of the surface


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence per view and pixel, (K, H, W)."""

    support: Mask
    contradiction: Mask
    residual: Floats  # measured minus surface, in the unit of depth; NaN if unmeasured
    weights: Floats  # front end's confidence in each measurement, one on average; zero if unmeasured


@dataclass(frozen=True, eq=False)
class Placed:
    """The camera of a view as ten numbers, and view_from_reference (3, 4)."""

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
    """The evidence of a reading; `scales` (K,) are the views' noise, `places` is None for registered maps."""
    unit, depths = growth.unit(surface), reading.depths
    limits = np.array(scales, np.float32)[:, None, None] * np.float32(AGREE)
    residual = np.empty_like(depths)
    support, contradiction = (np.empty_like(depths, np.bool_) for _ in range(2))
    rewrite(_said, (residual, support, contradiction), depths, reading.weights, surface, unit, limits)
    trust, known = _mass(reading.weights, support, contradiction)
    weights = np.empty_like(depths)
    usual = np.float64(max(trust / max(known, 1), np.float32(NO_NOISE)))
    rewrite(_trusted, (weights,), reading.weights, support, contradiction, usual)
    if places is not None and frame.camera is not None:
        _take_back_occluders(contradiction, surface, residual, limits, unit, frame.camera.numbers, places)
    return Evidence(support, contradiction, residual, weights)


@one_pass
def _said(
    depths: Floats, weights: Floats, surface: DepthMap, unit: Floats, limits: Floats
) -> tuple[Floats, Mask, Mask]:
    """Residuals, support and contradiction, (K, H, W) each."""
    residual = depths - surface
    known = ~np.isnan(residual) & (weights > 0)
    near = np.abs(residual) <= limits * unit
    return residual, known & near, known & ~near


@one_pass
def _mass(weights: Floats, support: Mask, contradiction: Mask) -> tuple[Any, Any]:
    """The sum of the weights that support or contradict, and their number."""
    return weights.sum(), (support | contradiction).sum()


@one_pass
def _trusted(weights: Floats, support: Mask, contradiction: Mask, usual: np.float64) -> Floats:
    """Weights (K, H, W) that support or contradict, over their mean."""
    out: Floats = (np.where(support | contradiction, weights, 0) / usual).astype(np.float32)
    return out


def _take_back_occluders(
    contradiction: Mask,
    surface: DepthMap,
    residual: Floats,
    limits: Floats,
    unit: Floats,
    camera: Floats,
    places: Sequence[Placed],
) -> None:
    """Remove, in place, contradictions from in front of the surface that do not float in the reference's view."""
    motions = np.stack([place.view_from_reference for place in places]).reshape(-1, 12).T
    along_rays = np.array([place.camera[0] == 0 for place in places])
    kinds: dict[str, Any] = {"perspective": bool(camera[0] == 0), "bent": is_bent(camera)}
    if not on_host(surface):
        moves = [each[:, None, None].copy() for each in (along_rays, *motions)]
        rewrite(
            _float_in_stack,
            (contradiction,),
            contradiction,
            residual,
            surface,
            unit,
            limits,
            *moves,
            *camera.tolist(),
            **kinds,
        )
        return
    view, row, column = np.nonzero(contradiction & (residual < 0))
    if view.size:
        moves = [each[view] for each in (along_rays, *motions)]
        here = (surface[row, column], residual[view, row, column], row, column, limits[view, 0, 0])
        contradiction[view, row, column] = _floats(surface, unit, *here, *moves, *camera.tolist(), **kinds)


@one_pass
def _float_in_stack(
    contradiction: Mask, residual: Floats, surface: DepthMap, unit: Floats, limits: Floats, *numbers: Any, **kinds: Any
) -> Mask:
    """`_floats` of the contradictions from in front of the surface, and all from behind it; (K, H, W)."""
    row, column = (each.astype(np.float64) for each in row_and_column(surface))
    there = _floats(surface, unit, surface, residual, row, column, limits, *numbers, **kinds)
    return np.where(residual < 0, contradiction & there, contradiction)


def _floats(
    surface: DepthMap,
    unit: Floats,
    depth: Floats,
    residual: Floats,
    row: Any,
    column: Any,
    limit: Floats,
    along_rays: Mask,
    *numbers: Any,
    perspective: bool,
    bent: bool,
) -> Mask:
    """Whether a measurement at (row, column), with this residual, floats in front of the surface where it lies.

    `numbers`: view_from_reference (3, 4), then the camera's; `along_rays`: the view is perspective and measured along
    its rays.
    """
    motion, camera = numbers[:12], cast("Floats", numbers[12:])
    turn, shift = [motion[a : a + 3] for a in (0, 4, 8)], motion[3::4]
    depth, away = depth.astype(np.float64), residual.astype(np.float64)
    across, down = (column - camera[3]) / camera[1], (row - camera[4]) / camera[2]
    if bent:
        across, down = unbent(camera, across, down)
    reach = depth if perspective else 1.0
    ray = (across, down, 1.0) if perspective else (0.0, 0.0, 1.0)
    point = (across * reach, down * reach, depth)
    seen = [sum(turn[a][b] * point[b] for b in range(3)) + shift[a] for a in range(3)]
    measured = seen[2] + away * sum(turn[2][b] * ray[b] for b in range(3))
    scale = np.where(along_rays, measured / seen[2], 1.0)  # a perspective view measures along its own ray
    seen = [seen[0] * scale, seen[1] * scale, measured]
    back = [sum(turn[b][a] * (seen[b] - shift[b]) for b in range(3)) for a in range(3)]
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(back[2] > 0, back[2], np.nan) if perspective else 1.0
        slopes = (back[0] / over, back[1] / over)
        slopes = bent_by(camera, *slopes) if bent else slopes
        to_column, to_row = (
            np.floor(camera[1] * slopes[0] + camera[3] + 0.5),
            np.floor(camera[2] * slopes[1] + camera[4] + 0.5),
        )
        last_row, last_column = last_place(surface)
        inside = (to_column >= 0) & (to_row >= 0) & (to_column <= last_column) & (to_row <= last_row)
        at = np.where(inside, to_row, 0).astype(np.int64), np.where(inside, to_column, 0).astype(np.int64)
        out: Mask = inside & (back[2] < looked_up(surface, *at) - limit * looked_up(unit, *at))
    return out
