"""The work on one tile of a mosaic, in any process: plain functions of a description and a window.

Everything but the iterations is done in blocks of a fixed size, so that no number depends on the size of tiles; the
iterations give every pixel the same bits in any tile.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import OVER_MEAN, OVER_MEDIAN, SMALL, median_of
from cfusion.kernels.contract import Problem, State
from cfusion.rasters import solve_tile
from cfusion.rasters.align import Aligned
from cfusion.rasters.ground import require_no_filling
from cfusion.rasters.scratch import Image
from cfusion.rasters.solve_tile import DUAL, PRIMAL, REACH, REPAIR_REACH, SPARE, TOP, Settings
from cfusion.rasters.tiles import Tile

BLOCK = 1024  # pixels; for everything but the iterations
REPAIR_ROUNDS = 40
WINDOW_RADIUS = 4  # pixels around that share an estimate of the noise
BLUNDER = 6.0  # noise scales from the fused ground beyond which an observation is of something else
KEPT = 3.0  # noise scales from the fused ground within which an observation counts as kept

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Work:
    """The folder, number of rasters and size of a mosaic in work."""

    folder: Path
    views: int
    height: int
    width: int
    weighted: bool

    @property
    def heights(self) -> Image:
        return Image(self.folder / "heights", self.views, self.height, self.width)

    @property
    def weights(self) -> Image | None:
        return Image(self.folder / "weights", self.views, self.height, self.width) if self.weighted else None

    def state(self, number: int) -> Image:
        """One of two states: iterations read one and write the other."""
        return Image(self.folder / f"state_{number % 2}", PRIMAL + DUAL, self.height, self.width)

    @property
    def images(self) -> list[Image]:
        weights = self.weights
        return [self.heights, self.state(0), self.state(1), *([] if weights is None else [weights])]


@dataclass(frozen=True)
class RasterWeights:
    """The weights of a raster: its stated weights or sigmas, and its factor against the other rasters."""

    aligned: Aligned | None
    is_sigma: bool = False
    scale: float = 1.0  # the sigma, or the weight, that becomes weight 1
    factor: float = 1.0  # of the raster as a whole

    def weights(self, rows: slice, columns: slice, heights: Floats) -> Floats:
        """Weights of a window; zero where the height is unknown or the weight not positive."""
        if self.aligned is None:
            return np.where(np.isnan(heights), 0, np.float32(self.factor)).astype(np.float32)
        given = self.aligned.read(rows, columns).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.square(self.scale / given) if self.is_sigma else given / self.scale
        usable = np.isfinite(values) & (given > 0) & ~np.isnan(heights)
        return np.where(usable, np.clip(values, 1e-4, 1e4) * self.factor, 0).astype(np.float32)


def align_block(
    work: Work, rasters: tuple[Aligned, ...], believed: tuple[RasterWeights, ...] | None, block: Tile
) -> tuple[float, float, list[int]]:
    """Bring one block of every raster onto the grid; return the range of heights and the known pixels per raster."""
    rows, columns = block.core
    low, high = np.inf, -np.inf
    heights = np.stack([raster.read(rows, columns) for raster in rasters])
    for aligned, one in zip(rasters, heights, strict=True):  # before the solve, a large raster is judged by a sample
        require_no_filling(aligned.raster.name, aligned.raster.stored(one), usual_only=True)
    if believed is not None and work.weights is not None:
        weights = np.stack([each.weights(rows, columns, one) for each, one in zip(believed, heights, strict=True)])
        heights[weights <= 0] = np.nan
        work.weights.write(weights, rows.start, columns.start)
    known = (~np.isnan(heights)).sum(axis=(1, 2)).tolist()
    if sum(known):
        low, high = float(np.nanmin(heights)), float(np.nanmax(heights))
    work.heights.write(heights, rows.start, columns.start)
    return low, high, known


def begin_tile(work: Work, settings: Settings, tile: Tile) -> None:
    """Write the initial state of a tile."""
    window = tile.with_halo(SPARE)
    problem = _problem(work, settings, window)
    state = solve_tile.begin(problem, settings)
    _write(work.state(0), state, tile, window)


def advance_tile(work: Work, settings: Settings, number: int, count: int, tile: Tile) -> None:
    """Iterate a tile's core `count` times, from one state to the other; the halo holds all that the core depends on."""
    window = tile.with_halo(REACH * count + SPARE)
    problem = _problem(work, settings, window)
    state = _read(work.state(number), window)
    if (problem.links != 0).any():
        solve_tile.iterate(problem, state, settings, count)
    _write(work.state(number + 1), state, tile, window)


def energy_block(work: Work, settings: Settings, number: int, block: Tile) -> tuple[float, float]:
    """Regulariser and fidelity, summed over a block."""
    window = block.with_halo(SPARE)
    state = _read(work.state(number), window)
    return solve_tile.core_energy(_problem(work, settings, window), state, block.core_in(window), settings)


def repair_block(work: Work, settings: Settings, number: int, turn: int, rounds: int, block: Tile) -> float:
    """Repair the dual of a block, from the state or the previous repair; return the factor it then needs."""
    window = block.with_halo(REPAIR_REACH * rounds + SPARE)
    problem = _problem(work, settings, window)
    top = _top(work, number, turn, window)
    repaired = solve_tile.repair(problem, top, rounds, settings)
    core = block.core_in(window)
    spare = _planes(work.state(number + 1), 3 * (turn % 2), 3)
    spare.write(repaired[(slice(None), *core)], block.top, block.left)
    return solve_tile.core_factor(problem, repaired, core)


def bound_block(work: Work, settings: Settings, number: int, turns: int, factor: float, block: Tile) -> float:
    """A block's part of the lower bound."""
    window = block.with_halo(SPARE)
    problem = _problem(work, settings, window)
    return solve_tile.core_bound(problem, _top(work, number, turns, window), factor, block.core_in(window), settings)


@dataclass(frozen=True, eq=False)
class Finished:
    """The maps of one block, and counts per raster."""

    maps: dict[str, NDArray[Any]]
    observed: list[int]  # pixels known
    kept: list[int]  # of these, within three noise scales of the fused ground


def finish_block(
    work: Work, settings: Settings, number: int, noise: tuple[float, ...], gain: float, block: Tile
) -> Finished:
    """Height, sigma, count, NMAD, provenance and source of a block."""
    window = block.with_halo(WINDOW_RADIUS + 1)
    heights = work.heights.read(*window)
    known = ~np.isnan(heights)
    x = _planes(work.state(number), 0, 1).read(*window)[0] + np.float32(settings.centre)
    observed = known.any(axis=0)
    x = np.where(observed, x, np.nan).astype(np.float32)
    with np.errstate(invalid="ignore"):
        apart = np.abs(heights - x)
    core = block.core_in(window)
    count = known.sum(axis=0)
    sigma = _sigma(apart, known, count, noise, gain)
    kept = [int((each[core] <= KEPT * max(scale, SMALL)).sum()) for each, scale in zip(apart, noise, strict=True)]
    nearest = np.argmin(np.where(known, apart, np.inf), axis=0) + 1
    maps = {
        "height": x[core],
        "sigma": np.where(observed, sigma, np.nan)[core].astype(np.float32),
        "count": count[core].astype(np.uint16),
        "nmad": _nmad(heights)[core],
        "provenance": np.where(observed, count, -1)[core].astype(np.int16),
        "source": np.where(observed, nearest, 0)[core].astype(np.uint16),
    }
    return Finished(maps, [int(each[core].sum()) for each in known], kept)


def _sigma(
    apart: Floats, known: NDArray[np.bool_], count: NDArray[Any], noise: tuple[float, ...], gain: float
) -> NDArray[np.float64]:
    """Local noise over sqrt(observations), times the gain of fusion.

    The noise is the larger of the rasters' own and the mean absolute residual nearby, of which each is clipped at
    BLUNDER scales. Where half of the observations nearby are beyond, nothing tells which half is right: sigma is at
    least the mean absolute residual, not clipped.
    """
    scales = np.asarray(noise, np.float64)[:, None, None]
    usual = np.sqrt(np.where(known, np.square(scales), 0).sum(axis=0) / np.maximum(count, 1))
    total = _around(np.where(known, np.minimum(apart, BLUNDER * scales), 0).sum(axis=0))
    amount = np.maximum(_around(count.astype(np.float64)), 1)
    nearby = OVER_MEAN * total / amount
    out: NDArray[np.float64] = gain * np.maximum(usual, nearby) / np.sqrt(np.maximum(count, 1))
    disputed = 2 * _around((known & (apart > BLUNDER * scales)).sum(axis=0)) >= amount
    if not disputed.any():
        return out
    whole = OVER_MEAN * _around(np.where(known, apart, 0).sum(axis=0)) / amount
    return np.where(disputed, np.maximum(out, whole), out)


def _around(values: NDArray[Any]) -> NDArray[np.float64]:
    """Sums over the square of side 2 WINDOW_RADIUS + 1, clipped at the border."""
    out = values.astype(np.float64)
    for axis in (0, 1):
        parts = np.zeros_like(out)
        reach = min(WINDOW_RADIUS, out.shape[axis] - 1)
        for shift in range(-reach, reach + 1):
            to, of = [slice(None), slice(None)], [slice(None), slice(None)]
            to[axis] = slice(max(0, -shift), out.shape[axis] - max(0, shift))
            of[axis] = slice(max(0, shift), out.shape[axis] + min(0, shift))
            parts[tuple(to)] += out[tuple(of)]
        out = parts
    return out


def _nmad(heights: Floats) -> Floats:
    """1.4826 median |d - median d| of a pixel's observations, NaN for fewer than two."""
    spread = OVER_MEDIAN * median_of(np.abs(heights - median_of(heights)))
    enough = (~np.isnan(heights)).sum(axis=0) > 1
    return np.where(enough, spread, np.nan).astype(np.float32)


def _problem(work: Work, settings: Settings, window: tuple[slice, slice]) -> Problem:
    weights = work.weights
    return solve_tile.problem_of(
        work.heights.read(*window), None if weights is None else weights.read(*window), settings
    )


def _read(image: Image, window: tuple[slice, slice]) -> State:
    planes = image.read(*window)
    return State(planes[:PRIMAL], planes[PRIMAL:])


def _write(image: Image, state: State, tile: Tile, window: tuple[slice, slice]) -> None:
    core = (slice(None), *tile.core_in(window))
    image.write(np.concatenate([state.primal[core], state.dual[core]]), tile.top, tile.left)


def _top(work: Work, number: int, turn: int, window: tuple[slice, slice]) -> Floats:
    """The dual of order 2: of the state at the first turn, of the previous repair afterwards."""
    image, first = (
        (work.state(number), PRIMAL + TOP.start) if turn == 0 else (work.state(number + 1), 3 * ((turn - 1) % 2))
    )
    return _planes(image, first, 3).read(*window)


def _planes(image: Image, first: int, count: int) -> Image:
    """Some planes of an image as an image."""
    return Image(image.file, count, image.height, image.width, image.dtype, image.first + first)
