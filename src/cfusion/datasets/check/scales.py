"""Scale factors per view, from ratios of depth between views that disagree about scale (as networks' views do).

Ratios leave one common factor open. The poses decide it: the scale of a view is kept if it fits them clearly better
than the geometric mean of all scales, as that of the views in metres does if others are in millimetres.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.datasets.check.reprojection import STATED, Samples
from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.errors import InputError
from cfusion.geometry import View
from cfusion.io.arguments import views_of

LEAST = 0.01  # relative difference below which factors are ignored
BETTER = 0.7  # residual after over before, of all views or of the worst one: a smaller gain would fit noise
FEWEST = 30  # samples of a view whose residual counts on its own
TURNS = 4  # iterations: the ratios change a little when the factors are applied
MOST_VIEWS = 60  # compared in all pairs
SAMPLES = 60_000


@dataclass(frozen=True)
class Scales:
    """Factors on the depths of each view that make all agree, and the residuals before and after."""

    views: tuple[int, ...]  # indices of the compared views
    factors: tuple[float, ...]  # their product is 1, or that of a view whose scale the poses confirm
    before: float  # median relative difference of depth
    after: float
    parallax: float = 0.0  # pixels, with these factors

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        low, high = min(self.factors), max(self.factors)
        return (
            f"the views disagree about scale by factors from {low:.4g} to {high:.4g}; with these the residual is "
            f"{100 * self.after:.2g} % (pass --align-scales)"
        )


def view_scales(samples: Samples) -> Scales | None:
    """The factors if they are large enough and reduce the residual; else None."""
    count = len(samples.starts)
    logs = np.zeros(count)
    kept = samples.depths, samples.depth
    before, worst_before = _of_all_and_worst(samples)
    try:
        for _ in range(TURNS):
            logs += _step(samples, count)
            logs = _with_common_factor(samples, kept, logs)
        after, worst_after = _of_all_and_worst(samples)
        parallax = samples.parallax(STATED)
    finally:
        samples.depths, samples.depth = kept
        samples.forget()
    factors = np.exp(logs)
    gains = after < BETTER * before or worst_after < BETTER * worst_before
    if not np.isfinite(factors).all() or np.abs(logs - logs.mean()).max() < LEAST or not gains:
        return None
    return Scales(tuple(samples.numbers), tuple(float(each) for each in factors), before, after, parallax)


def align_scales(views: Sequence[View]) -> list[View]:
    """The views with depths brought to one scale; unchanged if that does not help."""
    views = views_of(views, "align_scales")
    return [_times(view, factor) for view, factor in zip(views, scale_factors(views), strict=True)]


def scale_factors(views: Sequence[View]) -> tuple[float, ...]:
    """The factor on the depths of each view that brings all to one scale; 1 for all if that does not help."""
    require_few(len(views))
    found = view_scales(Samples(views, SAMPLES, frames=max(len(views), 2)))
    return (1.0,) * len(views) if found is None else found.factors


def rescaled(views: Dataset, factors: Sequence[float]) -> Dataset:
    """The same views, their depths times a factor of each view when they are read."""
    lazy = LazyViews.reading(lambda number: _times(views[number], factors[number]), len(views))
    return replace(views, views=lazy, sentence="; ".join(filter(None, (views.sentence, "scales aligned"))))


def require_few(count: int) -> None:
    """Refuse more views than can be compared in all pairs."""
    if count > MOST_VIEWS:
        raise InputError(f"{count} views are too many to align; give at most {MOST_VIEWS}")


def _times(view: View, factor: float) -> View:
    return view if factor == 1 else replace(view, depth=view.depth * np.float32(factor))


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
