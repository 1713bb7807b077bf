"""What is chosen once for the whole mosaic, from its sample: the weight of the regulariser and Huber's corner.

Candidates are fitted without a part of the observations and judged by the mean squared error on that part. In every
block of the sample some of the rasters are left out, each in its turn: errors of one raster are alike nearby, and a pixel
left out alone would be given away by its neighbours. What the rest does not confirm is a blunder and judges
nobody; which those are does not depend on the candidate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.rasters import solve_tile
from cfusion.rasters.ground import median_of
from cfusion.rasters.noise import noise_scales

CORNER = 1.5  # noise scales: errors below are squared, larger ones are not
LADDER = (0.5, 0.25, 0.125, 0.06, 1.0, 2.0, 4.0)  # alpha_1 / sqrt(K), the usual one first
FINE = (2**-0.5, 2**0.5)
RATIOS = (1.0, 4.0)  # alpha_2 / alpha_1, instead of 2
USUAL_RATIO = 2.0
BLOCK = 24  # pixels, of what is left out together
BLUNDER = 5.0  # spreads from the rest
LEAST_NOISE = 1e-6  # of the range of heights: data without noise still need a scale

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Choice:
    """The energy of a mosaic, and how it fared on what was left out."""

    alpha: tuple[float, float]
    delta: float
    noise: tuple[float, ...]  # standard deviation of each raster's errors
    error: float  # root mean square error of the fit without them, on observations left out, their own noise taken off


def choose(heights: Floats, weights: Floats | None, backend: str, alpha: tuple[float, float] | None = None) -> Choice:
    """Choose on a sample (K, H, W), unless alpha is given."""
    noise = noise_scales(heights)
    usual = float(np.median(noise))
    spread = float(np.nanmax(heights) - np.nanmin(heights))
    delta = CORNER * max(usual, LEAST_NOISE * spread, 1e-9)
    if alpha is not None:
        return Choice(alpha, delta, noise, float("nan"))
    trial = _Trial(heights, weights, delta, backend)
    best = trial.search()
    grown = np.sqrt(trial.views / trial.kept_views)  # the fit had fewer observations
    chosen = (best[0] * grown, best[1] * grown)
    return Choice(chosen, delta, noise, trial.error(best, noise))


class _Trial:
    """Fits without what is left out, each made once."""

    def __init__(self, heights: Floats, weights: Floats | None, delta: float, backend: str) -> None:
        self.delta, self.backend, self.weights = delta, backend, weights
        out = left_out(heights)
        self.kept = np.where(out, np.nan, heights)
        self.held = np.where(out, heights, np.nan)
        known = ~np.isnan(heights)
        observed = max(float(known.any(axis=0).sum()), 1.0)
        self.views = float(known.sum()) / observed
        kept = ~np.isnan(self.kept)
        self.kept_views = float(kept.sum()) / max(float(kept.any(axis=0).sum()), 1.0)
        rest = median_of(self.kept)
        apart = np.abs(self.held - rest)
        sizes = apart[np.isfinite(apart)]
        limit = BLUNDER * 1.4826 * float(np.median(sizes)) if sizes.size else np.inf
        self.judges = apart <= max(limit, 1e-12)
        self.fits: dict[tuple[float, float], float] = {}

    def search(self) -> tuple[float, float]:
        """Up or down the ladder as long as that helps; then the ratio, then a finer step."""
        unit = float(np.sqrt(self.kept_views))
        rungs = sorted(LADDER)
        place = rungs.index(LADDER[0])
        for move in (-1, 1):
            while 0 <= place + move < len(rungs) and self._better(unit * rungs[place + move], unit * rungs[place]):
                place += move
        first = unit * rungs[place]
        ratio = min((USUAL_RATIO, *RATIOS), key=lambda each: self.loss((first, each * first)))
        first = min((first, *(factor * first for factor in FINE)), key=lambda each: self.loss((each, ratio * each)))
        return first, ratio * first

    def _better(self, one: float, other: float) -> bool:
        return self.loss((one, USUAL_RATIO * one)) < self.loss((other, USUAL_RATIO * other))

    def loss(self, alpha: tuple[float, float]) -> float:
        """Mean squared distance to what was left out, blunders apart; inf where nothing judges."""
        if alpha not in self.fits:
            found = solve_tile.solve_sample(self.kept, self.weights, alpha, self.delta, self.backend)
            apart = (self.held - found.heights)[self.judges].astype(np.float64)
            apart = apart[np.isfinite(apart)]
            self.fits[alpha] = float(np.mean(apart**2)) if apart.size else float("inf")
        return self.fits[alpha]

    def error(self, alpha: tuple[float, float], noise: tuple[float, ...]) -> float:
        """What is left of the loss when the noise of the judges is taken off, as a root."""
        shares = self.judges.sum(axis=(1, 2)) / max(float(self.judges.sum()), 1.0)
        own = float(np.sum(shares * np.square(noise)))
        return float(np.sqrt(max(self.loss(alpha) - own, 0.0)))


def left_out(heights: Floats) -> NDArray[np.bool_]:
    """(K, H, W) what is left out: of every block a fifth of the rasters, at least one; single pixels of a lone raster.

    A pixel that only one raster knows keeps it.
    """
    views, rows, columns = heights.shape
    known = ~np.isnan(heights)
    if views == 1:
        drawn = np.random.default_rng(0).random((rows, columns)) < 0.2
        return known & drawn
    block = int(np.clip(min(rows, columns) // 8, 4, BLOCK))
    turn = (np.arange(rows)[:, None] // block + np.arange(columns)[None, :] // block) % views
    at_once = max(1, round(views / 5))
    out = np.zeros(heights.shape, np.bool_)
    for k in range(views):
        for each in range(at_once):
            out[k] |= (turn + each * views // at_once) % views == k
    out &= known
    alone = (known & ~out).sum(axis=0) == 0
    out[:, alone] = False
    return out
