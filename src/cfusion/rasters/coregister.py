"""Co-registration of rasters: estimate and remove a vertical offset, a tilt and a horizontal shift.

A raster displaced by (u, v) pixels differs from the ground g by

    h(i) - g(i) = c - u dg/dcol - v dg/drow

(Nuth and Kaab 2011, in polar coordinates: cosine of the aspect times tangent of the slope). Shifts of more than a pixel
or two are first found by phase correlation. Rasters are placed in the order of their overlap, each against the median
of those before it. The first one is not moved.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import median_of
from cfusion.rasters.align import Aligned
from cfusion.rasters.ground import nmad
from cfusion.rasters.sample import Window, parts_of

ROUNDS = 5  # of Gauss-Newton
FEWEST = 200  # common pixels
CLEAR = 3.0  # standard errors, for a shift to be significant
LEAST_SHIFT = 0.05  # pixels; a smaller shift costs less than resampling, and one this near to whole pixels is rounded
LEAST_GAIN = 0.05  # of the spread, that a shift has to remove
ALIKE_NEARBY = 25.0  # pixels with correlated errors: they count as one in a standard error
STEPS = ("offset", "shift", "tilt")

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Placement:
    """Placement of a raster against the ground: h - g = offset + tilt . (column, row) after its shift."""

    offset: float = 0.0
    tilt: tuple[float, float] = (0.0, 0.0)  # height per column, per row
    shift: tuple[float, float] = (0.0, 0.0)  # columns, rows by which its content is displaced
    spread: float = float("nan")  # NMAD of the differences with all corrections
    spread_before: float = float("nan")  # NMAD with the offset corrected only
    pixels: int = 0


def coregister(
    rasters: Sequence[Aligned], windows: Sequence[Window], upto: str
) -> tuple[list[Aligned], list[Placement]]:
    """The rasters with offset (and shift, and tilt) removed, and the placements that were found."""
    done: dict[int, Aligned] = {0: rasters[0]}
    placements = [Placement() for _ in rasters]
    read = parts_of(rasters, windows)
    while len(done) < len(rasters):
        number = _next(read, done)
        grounds = [median_of(part) for part in parts_of([done[k] for k in sorted(done)], windows)]
        placement = place(rasters[number], grounds, windows, upto)
        placements[number] = placement
        done[number] = corrected(rasters[number], placement)
    return [done[k] for k in range(len(rasters))], placements


def corrected(raster: Aligned, placement: Placement) -> Aligned:
    """The raster with offset, tilt and shift removed."""
    a, b, _, d, e, _ = raster.target.transform
    columns, rows = placement.shift
    right, up = -(a * columns + b * rows), -(d * columns + e * rows)
    shift = (right, up) if columns or rows else (0.0, 0.0)
    return raster.corrected((placement.offset, *placement.tilt), shift)


def place(raster: Aligned, grounds: Sequence[Floats], windows: Sequence[Window], upto: str) -> Placement:
    """Place a raster against the ground, given for each window."""
    found = Placement()
    fixed = _fitted(raster, grounds, windows, found, tilt=False)
    before = fixed.spread
    if fixed.pixels < FEWEST:
        return fixed
    if upto != "offset":
        found = _shifted(raster, grounds, windows, fixed)
    found = _fitted(raster, grounds, windows, found, tilt=upto == "tilt")
    return replace(found, spread_before=before)


def _shifted(raster: Aligned, grounds: Sequence[Floats], windows: Sequence[Window], start: Placement) -> Placement:
    """Phase correlation for whole pixels, then Gauss-Newton; a shift only if it is significant and helps."""
    heights = [raster.read(*window) for window in windows]
    coarse = phase_shift(grounds, heights)
    tried = [start]
    if coarse != (0, 0):
        tried.append(_fitted(raster, grounds, windows, replace(start, shift=coarse), tilt=False))
    now = min(tried, key=lambda each: each.spread if np.isfinite(each.spread) else np.inf)
    error = (float("inf"), float("inf"))
    for _ in range(ROUNDS):
        step, error = _gauss_newton(corrected(raster, now), grounds, windows)
        now = replace(now, shift=(now.shift[0] + step[0], now.shift[1] + step[1]))
        now = _fitted(raster, grounds, windows, now, tilt=False)
        if max(abs(step[0]), abs(step[1])) < LEAST_SHIFT / 10:
            break
    length = float(np.hypot(*now.shift))
    clear = length > max(LEAST_SHIFT, CLEAR * float(np.hypot(*error)))
    if not clear or now.spread > (1 - LEAST_GAIN) * start.spread:
        return start
    whole = (float(round(now.shift[0])), float(round(now.shift[1])))
    if max(abs(now.shift[0] - whole[0]), abs(now.shift[1] - whole[1])) < LEAST_SHIFT:
        return _fitted(raster, grounds, windows, replace(now, shift=whole), tilt=False)
    return now


def _fitted(
    raster: Aligned, grounds: Sequence[Floats], windows: Sequence[Window], placement: Placement, *, tilt: bool
) -> Placement:
    """Offset (and tilt) at a given shift: the median, and a plane by iteratively re-weighted least squares."""
    moved = corrected(raster, replace(placement, offset=0.0, tilt=(0.0, 0.0)))
    values, columns, rows = [], [], []
    for ground, window in zip(grounds, windows, strict=True):
        difference = moved.read(*window).astype(np.float64) - ground
        row, column = np.nonzero(np.isfinite(difference))
        values.append(difference[row, column])
        columns.append(column + float(window[1].start))
        rows.append(row + float(window[0].start))
    d, u, v = np.concatenate(values), np.concatenate(columns), np.concatenate(rows)
    if d.size < FEWEST:
        return replace(placement, pixels=int(d.size))
    if not tilt:
        offset = float(np.median(d))
        return replace(placement, offset=offset, tilt=(0.0, 0.0), spread=nmad(d), pixels=int(d.size))
    scale = max(float(np.ptp(u)), float(np.ptp(v)), 1.0)
    design = np.stack([np.ones_like(d), (u - u.mean()) / scale, (v - v.mean()) / scale], axis=1)
    beta, errors = _robust(design, d)
    left, top, right, bottom = raster.footprint()
    vague = errors[1:] * (right - left, bottom - top) / scale > nmad(d - design @ beta)
    if vague.any():  # across the raster, a tilt by a narrow overlap would be off by more than the noise
        design[:, 1:][:, vague] = 0.0
        beta, _ = _robust(design, d)
    slopes = float(beta[1] / scale), float(beta[2] / scale)
    offset = float(beta[0] - slopes[0] * u.mean() - slopes[1] * v.mean())
    return replace(placement, offset=offset, tilt=slopes, spread=nmad(d - design @ beta), pixels=int(d.size))


def _gauss_newton(
    raster: Aligned, grounds: Sequence[Floats], windows: Sequence[Window]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The remaining shift of the content, and its standard errors."""
    designs, values = [], []
    for ground, window in zip(grounds, windows, strict=True):
        if min(ground.shape) < 3:
            continue
        slopes: list[Floats] = list(np.gradient(ground.astype(np.float64)))
        down, right = slopes
        difference = raster.read(*window).astype(np.float64) - ground
        known: NDArray[np.bool_] = np.isfinite(difference) & np.isfinite(down) & np.isfinite(right)
        designs.append(np.stack([np.ones(known.sum()), -right[known], -down[known]], axis=1))
        values.append(difference[known])
    if not designs or sum(len(each) for each in values) < FEWEST:
        return (0.0, 0.0), (float("inf"), float("inf"))
    beta, errors = _robust(np.concatenate(designs), np.concatenate(values))
    return (float(beta[1]), float(beta[2])), (float(errors[1]), float(errors[2]))


def _robust(design: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Least squares, repeated without residuals beyond three spreads, and its standard errors."""
    kept = np.ones(len(values), np.bool_)
    for _ in range(4):
        beta, *_ = np.linalg.lstsq(design[kept], values[kept], rcond=None)
        left = values - design @ beta
        spread = nmad(left)
        kept = np.abs(left) <= 3 * spread + 1e-12
    normal = np.linalg.pinv(design[kept].T @ design[kept])
    return beta, spread * np.sqrt(np.maximum(np.diag(normal), 0) * ALIKE_NEARBY)


def phase_shift(grounds: Sequence[Floats], heights: Sequence[Floats]) -> tuple[float, float]:
    """(columns, rows) by which heights are displaced from the ground, to a whole pixel, up to a quarter of a window."""
    ground, height = max(zip(grounds, heights, strict=True), key=lambda pair: int(np.isfinite(pair[0] - pair[1]).sum()))
    if min(ground.shape) < 16:
        return 0.0, 0.0
    one, other = (np.fft.rfft2(_flattened(each)) for each in (ground, height))
    cross = other * np.conj(one)
    surface = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-12), s=ground.shape)
    rows, columns = ground.shape
    v: Floats = np.fft.fftfreq(rows, 1 / rows)
    u: Floats = np.fft.fftfreq(columns, 1 / columns)
    surface[np.abs(v) > rows / 4] = -np.inf
    surface[:, np.abs(u) > columns / 4] = -np.inf
    row, column = divmod(int(np.argmax(surface)), columns)
    return float(u[column]), float(v[row])


def _flattened(heights: Floats) -> Floats:
    """Sizes of the gradients, faded towards the border of the window; zero where unknown."""
    down, right = np.gradient(heights.astype(np.float64))
    size = np.hypot(down, right)
    size = np.where(np.isfinite(size), size, np.nan)
    usual = np.nanmedian(size) if np.isfinite(size).any() else 0.0
    fade = np.outer(np.hanning(size.shape[0]), np.hanning(size.shape[1]))
    return np.where(np.isfinite(size), size - usual, 0) * fade


def _next(read: Sequence[Floats], done: dict[int, Aligned]) -> int:
    """The raster that shares most pixels with those already placed."""
    left = [k for k in range(len(read[0])) if k not in done]
    common = {
        k: sum(int((np.isfinite(part[k]) & np.isfinite(part[sorted(done)]).any(axis=0)).sum()) for part in read)
        for k in left
    }
    return max(left, key=lambda k: (common[k], -k))
