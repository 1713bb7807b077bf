"""A scale and a shift for every view, in depth or in inverse depth: the relative maps of depth networks.

Such maps have no shape of their own: a shift bends every plane, and no scale makes up for it. Posed views show it. The
factors a and shifts b of all views minimise |r| over the pixels that are seen in another view; r is the difference of
predicted and measured depth as one of stored values: in depths, flattened maps would agree better, because their noise
is flattened, too. Gauss-Newton steps with weights 1 / |r|; a sample depends on the map it comes from and on the map it
falls on, and both are changed a little to differentiate it.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import SMALL
from cfusion.datasets.check.factor import NEEDED_OVERLAP
from cfusion.datasets.check.remap import DEPTH, INVERSE, VALUE, Remap, depths_of
from cfusion.datasets.check.reprojection import STATED, Samples

TURNS, FEW_TURNS = 20, 8
GAIN = 2e-4  # relative gain of the cost below which the search ends
STEP = 1e-3  # relative change for the derivatives
STEEPEST = 20.0  # derivatives beyond it cross a depth edge
FAR = 10.0  # residuals beyond so many medians are of other surfaces
TRIES = 4
ROUNDS = 3  # of a common scale and shift, then all
WIDEST, FINEST = 0.3, 0.02  # relative steps of the search for a common scale and shift
MOVES = 12  # of that search, after which steps shrink anyway
HELD = 0.5  # share of the overlap that must remain

Numbers = NDArray[np.float64]
SHIFTS, DEPTHS = (0.0, 0.1, 0.3, 1.0, 3.0), np.geomspace(1.0, 300.0, 14)  # of typical values; of the motion
AROUND = [(scale, shift) for scale in (-1, 0, 1) for shift in (-1, 0, 1) if scale or shift]


@dataclass(frozen=True)
class Affine:
    """The maps that make the views agree, and how well they do."""

    remaps: tuple[Remap, ...]
    residual: float  # median relative difference of depth
    overlap: float
    parallax: float  # pixels
    difference: float  # median |r|, in typical values
    spread: float  # of depths within a view: flattened maps agree, too
    sizes: Numbers  # of the residuals, as `Residuals.sizes`


def fitted(samples: Samples, begin: tuple[Remap, ...], turns: int = TURNS, every: int = 1) -> Affine | None:
    """Scales and shifts, from those of `begin`, in its variable, of every n-th sample; None if this leads nowhere."""
    search = _Search(samples, begin[0].variable, every)
    maps = np.array([[each.factor for each in begin], [each.shift for each in begin]])
    try:
        if begin[0].variable == VALUE:  # without a shift, distant values are far off: relative differences at first
            search.relative = True
            maps = search.run(maps, turns)
            search.relative = False
        maps = search.run(maps, turns)
        for _ in range(ROUNDS):
            before, maps = maps, search.common(maps)
            if maps is before:
                break
            maps = search.run(maps, turns)
        left = _median(search.residuals(maps, maps))
        outcome, parallax, spread = samples.residuals(STATED), samples.parallax(STATED), spread_of(samples)
    except _LeadsNowhere:
        return None
    finally:
        search.restore()
    remaps = tuple(Remap(float(a), float(b), search.variable) for a, b in maps.T)
    return Affine(remaps, outcome.median, outcome.overlap, parallax, left, spread, outcome.sizes)


def spread_of(samples: Samples) -> float:
    """The median over views of the median distance of log depth from its median."""
    logs = np.log(samples.depth)
    of_view = [logs[samples.source == view] for view in range(len(samples.starts))]
    spreads = [np.nanmedian(np.abs(each - np.nanmedian(each))) for each in of_view if np.isfinite(each).any()]
    return max(float(np.median(spreads)) if spreads else 0.0, 1e-12)


class _LeadsNowhere(Exception):
    """A search that does not improve."""


def difference(samples: Samples, remaps: tuple[Remap, ...], every: int = 1) -> float:
    """Median |r| under given maps, in typical values."""
    search = _Search(samples, remaps[0].variable, every)
    try:
        maps = np.array([[each.factor for each in remaps], [each.shift for each in remaps]])
        return _median(search.residuals(maps, maps))
    finally:
        search.restore()


class _Search:
    """The samples under trial maps; the samples' own depths come back by `restore`."""

    def __init__(self, samples: Samples, variable: str, every: int = 1) -> None:
        self.samples, self.variable, self.count, self.every = samples, variable, len(samples.starts), every
        self.source, self.target = samples.source[::every], samples.target[::every]
        self.kept, self.relative = samples.depth, False
        known = np.abs(samples.depth)
        typical = float(np.median(known)) if known.size else 1.0
        self.unit = 1 / typical if variable == INVERSE else typical  # of what the factor multiplies

    def restore(self) -> None:
        self.samples.depth, self.samples.trial = self.kept, None
        self.samples.forget()

    def residuals(self, source: Numbers, target: Numbers) -> Numbers:
        """r of every sample with the maps (2, K) of the views that samples come from, and of those they fall on."""
        samples = self.samples
        everywhere = source[:, samples.source]
        samples.depth = depths_of(self.kept, everywhere[0], everywhere[1], self.variable)
        samples.trial = lambda held, view: depths_of(held, target[0, view], target[1, view], self.variable)
        samples.forget()
        found = samples.residuals(STATED, self.every).values
        if self.relative:
            return found
        there, here = source[:, self.source], target[:, self.target]
        slope = np.sqrt((there[0] ** 2 + here[0] ** 2) / 2) * self.unit
        depth, stored = samples.depth[:: self.every], np.asarray(found / slope)
        return np.asarray(stored * depth if self.variable == DEPTH else stored / depth)

    def run(self, maps: Numbers, turns: int) -> Numbers:
        """The maps (2, K) at the end of a search from others."""
        found = self.residuals(maps, maps)
        least = _least(found)
        best = _cost(found, least)
        damping = 1e-3
        for _ in range(turns):
            normal, gradient = self._normal_equations(maps, found)
            before = best
            for _ in range(TRIES):
                diagonal = np.diag(normal)
                raised = normal + np.diag(damping * diagonal + 1e-9 * max(float(diagonal.max()), SMALL))
                try:
                    step = -np.linalg.solve(raised, gradient).clip(-1, 1).reshape(2, -1)
                except np.linalg.LinAlgError:
                    raise _LeadsNowhere from None
                trial = np.stack([maps[0] * np.exp(step[0]), maps[1] + step[1] * maps[0] * self.unit])
                there = self.residuals(trial, trial)
                cost = _cost(there, least)
                if cost < best:
                    maps, found, best = trial, there, cost
                    damping = max(damping / 5, 1e-7)
                    break
                damping *= 5
            if not best < (1 - GAIN) * before:
                break
        if not (np.isfinite(best) and np.isfinite(maps).all()):
            raise _LeadsNowhere
        return maps

    def common(self, maps: Numbers) -> Numbers:
        """The maps after a scale and a shift that all views have in common, by a search with shrinking steps.

        Only parallax tells these, and where noise is larger than what a pixel of parallax changes, derivatives do not.
        """
        typical = float(np.median(maps[0])) * self.unit
        found = self.residuals(maps, maps)
        least = _least(found)
        best, step, moves = _cost(found, least), WIDEST, 0
        while step > FINEST:
            before, tried = best, []
            for scale, shift in AROUND:
                trial = np.exp(scale * step) * np.stack([maps[0], maps[1] + shift * step * typical])
                tried.append((_cost(self.residuals(trial, trial), least), trial))
            cost, trial = min(tried, key=lambda each: each[0])
            if cost < (1 - GAIN) * best:
                best, maps, moves = cost, trial, moves + 1
            if not cost < (1 - GAIN) * before or moves > MOVES:
                step /= 2
        return maps

    def _normal_equations(self, maps: Numbers, found: Numbers) -> tuple[Numbers, Numbers]:
        """The matrix and gradient of the linearised, weighted residuals, for log a and b / (a unit) of each view."""
        columns: list[Numbers] = []
        places: list[NDArray[np.int64]] = []
        for which, view in ((0, self.source), (1, self.target)):
            for row in (0, 1):
                changed = maps.copy()
                changed[row] += STEP * maps[0] * (self.unit if row else 1.0)
                pair = (changed, maps) if which == 0 else (maps, changed)
                columns.append((self.residuals(*pair) - found) / STEP)
                places.append(view + row * self.count)
        with np.errstate(invalid="ignore"):
            usable = np.isfinite(found) & np.all([np.abs(each) < STEEPEST for each in columns], axis=0)
        size = 2 * self.count
        if not usable.any():
            return np.eye(size), np.zeros(size)
        left = found[usable]
        middle = float(np.median(np.abs(left))) + 1e-9
        weights = 1 / np.maximum(np.abs(left), middle) / (1 + (left / (FAR * middle)) ** 2)
        normal, gradient = np.zeros(size * size), np.zeros(size)
        for slope, place in zip(columns, places, strict=True):
            weighed = weights * slope[usable]
            gradient += np.bincount(place[usable], weighed * left, size)
            for other, there in zip(columns, places, strict=True):
                where = place[usable] * size + there[usable]
                normal += np.bincount(where, weighed * other[usable], size * size)
        return normal.reshape(size, size), gradient


def _least(residuals: Numbers) -> float:
    """The share of samples that must hit a known depth."""
    return HELD * float(np.isfinite(residuals).mean()) if residuals.size else 0.0


def _cost(residuals: Numbers, least: float) -> float:
    """Mean square root of the residuals; inf if fewer samples than `least` (a share) still hit a known depth."""
    hit = np.abs(residuals[np.isfinite(residuals)])
    enough = hit.size and hit.size >= least * residuals.size
    return float(np.sqrt(hit).mean()) if enough else float("inf")


def _median(residuals: Numbers) -> float:
    hit = np.abs(residuals[np.isfinite(residuals)])
    return float(np.median(hit)) if hit.size else float("inf")


def beginnings(samples: Samples, scales: tuple[float, ...], every: int, *, values: bool) -> list[tuple[Remap, ...]]:
    """Where searches start: the scales of depth, in depth and in inverse depth; and inverse depth itself, if likely."""
    begin = [tuple(Remap(each) for each in scales), tuple(Remap(1 / each, 0.0, INVERSE) for each in scales)]
    likely = _as_inverse_depth(samples, every) if values else None
    return begin if likely is None else [*begin, (likely,) * len(scales)]


def _as_inverse_depth(samples: Samples, every: int) -> Remap | None:
    """The scale and shift, of all views alike, with which values fit best as inverse depths; None if none fits.

    Depths from one to some hundred times the motion of the camera are tried.
    """
    if not (samples.motion > 0 and samples.depth.size):
        return None
    search = _Search(samples, VALUE, every)
    tried: list[tuple[float, float, Remap]] = []
    try:
        for share, depth in product(SHIFTS, DEPTHS):
            factor = float(1 / (depth * samples.motion * (1 + share) * search.unit))
            found = Remap(factor, share * factor * search.unit, VALUE)
            maps = np.repeat([[found.factor], [found.shift]], search.count, axis=1)
            left = search.residuals(maps, maps)
            tried.append((float(np.isfinite(left).mean()), _cost(left, NEEDED_OVERLAP), found))
    finally:
        search.restore()
    most = max(overlap for overlap, _, _ in tried)
    cost, best = min(
        ((cost, found) for overlap, cost, found in tried if overlap >= HELD * most), key=lambda each: each[0]
    )
    return best if np.isfinite(cost) else None
