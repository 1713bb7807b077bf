"""Scale factors per view, from ratios of depth between views that disagree about scale (as networks' views do).

Ratios leave one common factor open. The poses decide it: the scale of a view is kept if it fits them clearly better
than the geometric mean of all scales, as that of the views in metres does if others are in millimetres. Views that
no scale brings together may need a shift as well (`affine`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import share_of
from cfusion.datasets.check.affine import FEW_TURNS, TURNS, Affine, beginnings, difference, fitted, spread_of
from cfusion.datasets.check.remap import DEPTH, FORMULAS, Remap, range_of
from cfusion.datasets.check.reprojection import STATED, Samples, nearest_kept
from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.errors import InputError
from cfusion.geometry import View
from cfusion.io.arguments import views_of

LEAST = 0.01  # relative difference below which factors, and what shifts change, are ignored
LARGE = 0.1  # relative difference from which fusion must not go on
HALF = 0.5  # of the overlap of a rival that must remain
LESS = 0.6  # residual with shifts over that without: errors of right maps leave 0.8 to 1
MUCH = 0.05  # bending of a map below which it may make up for inexact poses
APART = 1.0  # pixels of parallax: without, views meet wherever they are
EXACT = 0.01  # relative residual that noise and inexact poses explain
WIDEST = 20.0  # ratio of the factors of two views of one scene
MEETING = 0.1  # share of the known pixels that must meet for these to be the same surface
BETTER = 0.7  # residual after over before, of all views or of the worst one: a smaller gain would fit noise
FEWEST = 30  # samples of a view whose residual counts on its own
ITERATIONS = 4  # the ratios change a little when the factors are applied
MOST_VIEWS = 60  # compared in all pairs
SAMPLES = 60_000
PROBED, FITTED = 3_000, 12_000  # samples that tell whether shifts are worth a search with more, and these


class Fitted(Protocol):
    """How well another hypothesis fits."""

    @property
    def residual(self) -> float: ...
    @property
    def overlap(self) -> float: ...


@dataclass(frozen=True)
class Scales:
    """Factors on the depths of each view that make all agree, or factors and shifts; residuals before and after."""

    views: tuple[int, ...]  # indices of the compared views
    factors: tuple[float, ...]  # product 1, or that of a view whose scale the poses confirm; or a of `variable`
    before: float  # median relative difference of depth
    after: float
    parallax: float = 0.0  # pixels, with these factors
    shifts: tuple[float, ...] = ()  # b of `variable`; empty: no shift is needed
    variable: str = DEPTH
    overlap: float = 1.0  # share of samples that hit a known depth
    large: bool = False  # the views are so far apart that what is fused of them is wrong

    @property
    def remaps(self) -> tuple[Remap, ...]:
        """What makes the depths of each view of its values."""
        shifts = self.shifts or (0.0,) * len(self.factors)
        return tuple(Remap(a, b, self.variable) for a, b in zip(self.factors, shifts, strict=True))

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        left = f"with these the residual is {100 * self.after:.2g} % (pass --align-scales)"
        if self.shifts:
            return (
                "the views are known up to a scale and a shift, as relative maps of depth networks are: "
                f"{FORMULAS[self.variable]} with a = {range_of(self.factors)}, b = {range_of(self.shifts)}; {left}"
            )
        return (
            f"the views disagree about scale by factors from {min(self.factors):.4g} to {max(self.factors):.4g}; {left}"
        )


def view_scales(samples: Samples) -> Scales | None:
    """The factors if they are large enough and reduce the residual; else None."""
    count = len(samples.starts)
    logs = np.zeros(count)
    kept = samples.depths, samples.depth
    before, worst_before = _of_all_and_worst(samples)
    nearest = samples.residuals(STATED).sizes
    try:
        for _ in range(ITERATIONS):
            logs += _step(samples, count)
            logs = _with_common_factor(samples, kept, logs)
        after, worst_after = _of_all_and_worst(samples)
        parallax, found = samples.parallax(STATED), samples.residuals(STATED)
    finally:
        samples.depths, samples.depth = kept
        samples.forget()
    factors = np.exp(logs)
    gains = (after < BETTER * before or worst_after < BETTER * worst_before) and nearest_kept(found.sizes, nearest)
    if not np.isfinite(factors).all() or np.abs(logs - logs.mean()).max() < LEAST or not gains:
        return None
    apart = bool(np.abs(logs - np.median(logs)).max() > LARGE)
    factor = tuple(float(each) for each in factors)
    return Scales(tuple(samples.numbers), factor, before, after, parallax, overlap=found.overlap, large=apart)


def view_shifts(
    samples: Samples, scales: Scales | None, rival: Fitted | None, turns: int = TURNS, *, values: bool
) -> Scales | None:
    """Factors and shifts, if these leave 0.6 of the residual of `scales` and of a rival, and bend the maps; else None.

    `values`: whether the values themselves may be inverse depths.
    """
    stated = samples.residuals(STATED)
    least = stated.median if scales is None else scales.after
    overlap = MEETING * samples.known
    if rival is not None:
        least, overlap = min(least, rival.residual), max(overlap, HALF * rival.overlap)
    if not least > EXACT:
        return None
    factors = (1.0,) * len(samples.starts) if scales is None else scales.factors
    probed = share_of(samples.depth.size, PROBED)
    starts = beginnings(samples, factors, probed, values=values)
    spread = spread_of(samples)

    def explained(begin: tuple[Remap, ...], unshifted: tuple[Remap, ...], turns: int, every: int) -> Affine | None:
        found = fitted(samples, begin, turns, every)
        if found is None or not (found.overlap > overlap and found.parallax > APART):
            return None
        a = [each.factor for each in found.remaps]
        kept = nearest_kept(found.sizes / found.spread, stated.sizes / spread)
        if max(a) > WIDEST * min(a) or not kept:
            return None
        left = max(found.residual / least, found.residual / found.spread / (least / spread))
        differing = found.difference / difference(samples, unshifted, every)
        return found if _needs_shifts(left, differing, _bent(samples, found)) else None

    fits = []
    for start in starts:
        found = explained(start, start, FEW_TURNS, probed)
        if found is not None and turns > FEW_TURNS:
            found = explained(found.remaps, start, turns, share_of(samples.depth.size, FITTED)) or found
        if found is not None:
            fits.append(found)
    if not fits:
        return None
    best = min(fits, key=lambda each: each.residual)
    return Scales(
        tuple(samples.numbers),
        tuple(each.factor for each in best.remaps),
        stated.median,
        best.residual,
        best.parallax,
        tuple(each.shift for each in best.remaps),
        best.remaps[0].variable,
        best.overlap,
        large=_bent(samples, best) > LARGE or not stated.median < LARGE,
    )


def _needs_shifts(residual: float, difference: float, bent: float) -> bool:
    """Whether shifts are needed, by what they leave of the residual and of the differences, and by how much they bend.

    Flattened maps have small residuals, whatever they showed: the differences of stored values must fall, too.
    """
    return max(residual, difference) < LESS and bent > MUCH


def _bent(samples: Samples, found: Affine) -> float:
    """How much the depths of a view change against one another, relative; 0 if all of them are only scaled."""
    amounts = [0.0]
    for view, remap in enumerate(found.remaps):
        values = samples.depth[samples.source == view]
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.log(remap(values.astype(np.float32)) / values)
        if np.isfinite(change).sum() >= FEWEST:
            low, high = np.nanpercentile(change, [10, 90])
            amounts.append(float(high - low))
    return max(amounts)


def alignment(samples: Samples) -> Scales | None:
    """What brings the views to one scale: factors, or factors and shifts; None if that does not help."""
    scales = view_scales(samples)
    needed = view_shifts(samples, scales, None, values=True)
    return scales if needed is None else needed


def align_scales(views: Sequence[View]) -> list[View]:
    """The views with depths brought to one scale, and shifted if they need it; unchanged if that does not help."""
    views = views_of(views, "align_scales")
    return [remap.view(view) for view, remap in zip(views, scale_remaps(views), strict=True)]


def scale_remaps(views: Sequence[View]) -> tuple[Remap, ...]:
    """What brings the depths of each view to one scale; nothing changes if that does not help."""
    require_few(len(views))
    found = alignment(Samples(views, SAMPLES, frames=max(len(views), 2)))
    return (Remap(),) * len(views) if found is None else found.remaps


def remapped(views: Dataset, remaps: Sequence[Remap]) -> Dataset:
    """The same views, their depths changed by the map of each view when they are read."""
    lazy = LazyViews.reading(lambda number: remaps[number].view(views[number]), len(views))
    return replace(views, views=lazy, sentence="; ".join(filter(None, (views.sentence, "scales aligned"))))


def require_few(count: int) -> None:
    """Refuse more views than can be compared in all pairs."""
    if count > MOST_VIEWS:
        raise InputError(f"{count} views are too many to align; give at most {MOST_VIEWS}")


def _step(samples: Samples, count: int) -> NDArray[np.float64]:
    """Log factors by least squares: the median ratio of each pair is the ratio of its factors."""
    values = samples.residuals(STATED).values
    rows, ratios = [], []
    for pair, (source, target) in enumerate(zip(samples.sources, samples.targets, strict=True)):
        hit = values[(samples.pair == pair) & np.isfinite(values)]
        if hit.size:
            row = np.zeros(count)
            row[source], row[target] = np.sqrt(hit.size), -np.sqrt(hit.size)
            rows.append(row)
            ratios.append(-np.sqrt(hit.size) * float(np.median(hit)))
    if not rows:
        return np.zeros(count)
    found: NDArray[np.float64] = np.linalg.lstsq(np.array(rows), np.array(ratios), rcond=None)[0]
    return np.asarray(found - found.mean())


def _of_all_and_worst(samples: Samples) -> tuple[float, float]:
    """The median residual of all samples, and that of the view with the largest."""
    found = samples.residuals(STATED)
    sizes, known = np.abs(found.values), np.isfinite(found.values)
    of_view = [sizes[known & ((samples.source == k) | (samples.target == k))] for k in range(len(samples.starts))]
    return found.median, max((float(np.expm1(np.median(each))) for each in of_view if each.size >= FEWEST), default=0.0)


def _with_common_factor(
    samples: Samples, kept: tuple[NDArray[np.float32], NDArray[np.float64]], logs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The log factors up to a common one, and applied: their mean is zero, or that of a view if this fits better."""
    logs = logs - logs.mean()
    _apply(samples, kept, logs)
    usual = samples.residuals(STATED)
    shifts = np.unique(logs[np.abs(logs) >= LEAST].round(2))
    found = [samples.residuals(replace(STATED, factor=float(np.exp(-shift)))) for shift in shifts]
    fitting = [
        (each.median, shift)
        for each, shift in zip(found, shifts, strict=True)
        if each.median < BETTER * usual.median and each.overlap > usual.overlap / 2
    ]
    if fitting:
        logs = logs - min(fitting)[1]
        _apply(samples, kept, logs)
    return logs


def _apply(samples: Samples, kept: tuple[NDArray[np.float32], NDArray[np.float64]], logs: NDArray[np.float64]) -> None:
    factors = np.exp(np.clip(logs, -20, 20))
    sizes = samples.heights * samples.widths
    samples.depths = (kept[0] * np.repeat(factors, sizes)).astype(np.float32)
    samples.depth = kept[1] * factors[samples.source]
    samples.forget()
