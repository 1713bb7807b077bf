"""Scale factors per view, from ratios of depth between views that disagree about scale (as networks' views do)."""

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
BETTER = 0.7  # residual after over before: a smaller gain would fit noise
TURNS = 4  # iterations: the ratios change a little when the factors are applied
MOST_VIEWS = 60  # compared in all pairs
SAMPLES = 60_000


@dataclass(frozen=True)
class Scales:
    """Factors on the depths of each view that make all agree, and the residuals before and after."""

    views: tuple[int, ...]  # indices of the compared views
    factors: tuple[float, ...]  # their product is 1
    before: float  # median relative difference of depth
    after: float

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        low, high = min(self.factors), max(self.factors)
        return (
            f"the views disagree about scale by factors from {low:.3f} to {high:.3f}; with these the residual is "
            f"{100 * self.after:.2g} % (pass --align-scales)"
        )


def view_scales(samples: Samples) -> Scales | None:
    """The factors if they are large enough and reduce the residual; else None."""
    count = len(samples.starts)
    logs = np.zeros(count)
    kept = samples.depths, samples.depth
    before = samples.residuals(STATED).median
    try:
        for _ in range(TURNS):
            logs += _step(samples, count)
            _apply(samples, kept, logs)
        after = samples.residuals(STATED).median
    finally:
        samples.depths, samples.depth = kept
        samples.forget()
    factors = np.exp(logs - logs.mean())
    if not np.isfinite(factors).all() or np.abs(logs - logs.mean()).max() < LEAST or not after < BETTER * before:
        return None
    return Scales(tuple(samples.numbers), tuple(float(each) for each in factors), before, after)


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


def _apply(samples: Samples, kept: tuple[NDArray[np.float32], NDArray[np.float64]], logs: NDArray[np.float64]) -> None:
    factors = np.exp(np.clip(logs, -20, 20))
    sizes = samples.heights * samples.widths
    samples.depths = (kept[0] * np.repeat(factors, sizes)).astype(np.float32)
    samples.depth = kept[1] * factors[samples.source]
    samples.forget()
