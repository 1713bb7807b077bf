"""Parameters chosen once for the whole mosaic, on its sample: the weight of the regulariser and Huber's delta.

Candidates are fitted to a part of the observations and judged by the mean squared error on the held-out rest. In every
block of the sample some rasters are held out, in turn: errors of one raster are correlated nearby, so a single held-out
pixel would be predicted by its neighbours. A held-out observation that the rest does not confirm is a blunder and does
not count; which these are does not depend on the candidate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import OVER_MEDIAN, median_of
from cfusion.rasters import solve_tile
from cfusion.rasters.noise import noise_scales, raster_weights

CORNERS = (4.0, 1.5)  # Huber's delta, in noise scales
LADDER = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)  # alpha_1 delta / (noise sqrt(K)): the same smoothing for any delta
USUAL = 0.8  # on the ladder, if nothing can be held out: best for errors that are independent per pixel
FEWEST_JUDGES = 500  # held-out observations
FINE = (2**-0.5, 2**0.5)  # last factors tried around the chosen alpha
RATIOS = (2.0, 1.0, 4.0)  # alpha_2 / alpha_1
CHANCE = 2.0  # standard errors, over blocks, by which a smoother candidate has to be better
BLOCK = 24  # pixels, side of a block that is held out together
CHANCE_BLOCK = 48  # pixels, distance beyond which errors of one raster are independent
BLUNDER = 5.0  # spreads of the residuals
GAIN_RANGE = (0.02, 2.0)
LEAST_NOISE = 1e-6  # share of the range of heights, for noise-free data

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Choice:
    """The energy of a mosaic, and the noise it implies."""

    alpha: tuple[float, float]
    delta: float
    noise: tuple[float, ...]  # standard deviation of the errors, per raster
    factors: tuple[float, ...]  # weight of each raster
    gain: float  # error of the fused height over that of a mean of as many observations


def choose(
    heights: Floats,
    weights: Floats | None,
    backend: str,
    alpha: tuple[float, float] | None = None,
    fitted: Callable[[int], None] = lambda fits: None,
) -> Choice:
    """Choose on a sample (K, H, W), unless alpha is given; `fitted` is called with the number of fits made so far."""
    noise = noise_scales(heights)
    spread = float(np.nanmax(heights) - np.nanmin(heights))
    usual = max(float(np.median(noise)), LEAST_NOISE * spread, 1e-9)
    alike = (1.0,) * len(heights)
    if alpha is None:
        trial = _Trial(heights, weights, usual, backend, fitted)
        found, corner = trial.search()
        grown = float(np.sqrt(trial.views / trial.kept_views))  # the fit used fewer observations
        alpha = (found[0] * grown, found[1] * grown)
        if weights is None and trial.weighing_helps(factors := raster_weights(noise), found, corner):
            alike = factors
    else:
        corner = CORNERS[-1]
    given = weighed(heights, alike) if weights is None else weights
    return Choice(alpha, corner * usual, noise, alike, _gain(heights, given, alpha, corner * usual, backend, usual))


def weighed(heights: Floats, factors: Sequence[float]) -> Floats | None:
    """Weights (K, H, W), one per raster and zero where unknown; None if all are one."""
    if all(factor == 1 for factor in factors):
        return None
    return np.where(np.isnan(heights), 0, np.asarray(factors, np.float32)[:, None, None]).astype(np.float32)


def _gain(
    heights: Floats, weights: Floats | None, alpha: tuple[float, float], delta: float, backend: str, usual: float
) -> float:
    """Error of a fit over that of a mean, estimated from the difference of two fits to half of the rasters each."""
    if len(heights) < 2:
        return 1.0
    fits, amounts = [], []
    shrink = float(np.sqrt(0.5))
    for half in (slice(0, None, 2), slice(1, None, 2)):
        part = np.ascontiguousarray(heights[half])
        given = None if weights is None else np.ascontiguousarray(weights[half])
        smaller = (shrink * alpha[0], shrink * alpha[1])
        fits.append(solve_tile.solve_sample(part, given, smaller, delta, backend).heights)
        amounts.append((~np.isnan(part)).sum(axis=0))
    apart = (fits[0] - fits[1]).astype(np.float64)
    both = np.isfinite(apart) & (amounts[0] > 0) & (amounts[1] > 0)
    if both.sum() < BLOCK**2:
        return 1.0
    expected = usual * np.sqrt(1 / amounts[0][both] + 1 / amounts[1][both])
    ratio = np.abs(apart[both]) / expected
    ratio = np.minimum(ratio, np.quantile(ratio, 0.995))
    return float(np.clip(np.sqrt(np.mean(ratio**2)), *GAIN_RANGE))


class _Trial:
    """Fits to the observations that are not held out, each computed once."""

    def __init__(
        self, heights: Floats, weights: Floats | None, noise: float, backend: str, fitted: Callable[[int], None]
    ) -> None:
        self.noise, self.backend, self.weights = noise, backend, weights
        self.fitted = fitted
        out = left_out(heights)
        self.kept = np.where(out, np.nan, heights)
        self.held = np.where(out, heights, np.nan)
        known = ~np.isnan(heights)
        self.views = float(known.sum()) / max(float(known.any(axis=0).sum()), 1.0)
        kept = ~np.isnan(self.kept)
        self.kept_views = float(kept.sum()) / max(float(kept.any(axis=0).sum()), 1.0)
        apart = np.abs(self.held - median_of(self.kept))
        sizes = apart[np.isfinite(apart)]
        limit = BLUNDER * OVER_MEDIAN * float(np.median(sizes)) if sizes.size else np.inf
        self.judges = apart <= max(limit, 1e-12)
        self.fits: dict[tuple[float, float, float], NDArray[np.float64]] = {}

    def search(self) -> tuple[tuple[float, float], float]:
        """Climb the ladder while the loss clearly falls; then choose delta, the ratio of alphas, and a finer alpha."""
        unit, corner, ratio = float(np.sqrt(self.kept_views)), CORNERS[0], RATIOS[0]
        if self.judges.sum() < FEWEST_JUDGES:
            return (unit * USUAL / CORNERS[-1], ratio * unit * USUAL / CORNERS[-1]), CORNERS[-1]
        first = unit * LADDER[0]
        for rung in LADDER[1:]:
            if not self._clearly_better((unit * rung, ratio, corner), (first, ratio, corner)):
                break
            first = unit * rung
        for other in CORNERS[1:]:
            if self._clearly_better((first, ratio, other), (first, ratio, corner)):
                corner = other
        for other in RATIOS[1:]:
            if self._clearly_better((first, other, corner), (first, ratio, corner)):
                ratio = other
        for factor in FINE:
            if self._clearly_better((factor * first, ratio, corner), (first, ratio, corner)):
                first *= factor
                break
        return (first / corner, ratio * first / corner), corner

    def weighing_helps(self, factors: tuple[float, ...], alpha: tuple[float, float], corner: float) -> bool:
        """Whether weights by noise predict the held-out observations clearly better."""
        weights = weighed(self.kept, factors)
        if weights is None or self.judges.sum() < FEWEST_JUDGES:
            return False
        plain = (alpha[0] * corner, alpha[1] / alpha[0], corner)
        gain = self._losses(plain) - self._fit(alpha, corner, weights)
        return float(gain.sum()) > CHANCE * float(np.sqrt(gain.size) * gain.std())

    def _clearly_better(self, one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
        """Whether the squared error is smaller by more than its chance variation between blocks."""
        gain = self._losses(other) - self._losses(one)
        error = float(np.sqrt(gain.size) * gain.std()) if gain.size > 1 else 0.0
        return float(gain.sum()) > CHANCE * error

    def _losses(self, candidate: tuple[float, float, float]) -> NDArray[np.float64]:
        """Sums of squared held-out residuals without blunders, per block."""
        if candidate not in self.fits:
            first, ratio, corner = candidate
            alpha = (first / corner, ratio * first / corner)
            self.fits[candidate] = self._fit(alpha, corner, self.weights)
            self.fitted(len(self.fits))
        return self.fits[candidate]

    def _fit(self, alpha: tuple[float, float], corner: float, weights: Floats | None) -> NDArray[np.float64]:
        found = solve_tile.solve_sample(self.kept, weights, alpha, corner * self.noise, self.backend)
        with np.errstate(invalid="ignore"):
            squares = np.where(self.judges, np.square(self.held - found.heights, dtype=np.float64), 0.0)
        return _by_block(np.nan_to_num(squares).sum(axis=0))


def _by_block(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over blocks."""
    rows, columns = (np.arange(0, size, CHANCE_BLOCK) for size in values.shape)
    return np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1).ravel()


def left_out(heights: Floats) -> NDArray[np.bool_]:
    """Mask (K, H, W) of held-out observations: a fifth of the rasters, at least one, in every block.

    A pixel that only one raster knows is not held out.
    """
    views, rows, columns = heights.shape
    known = ~np.isnan(heights)
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
