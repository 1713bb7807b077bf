"""Which convention the data fits: neighbours thrown into each other as stated, and under the usual confusions.

Hypotheses are compared sample by sample: of the pixels that hit a known depth under both and agree better under one of
them, which share votes for it. Flat, smooth and noisy scenes leave fewer pixels that can tell, not a wrong majority.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.datasets.check.reprojection import STATED, Hypothesis, Meaning, Residuals, Samples
from cfusion.datasets.check.scales import Scales, view_scales
from cfusion.errors import InputError
from cfusion.geometry import View

FACTORS = {  # that a depth is off by when a scale is mistaken for another, and how that comes about
    1000.0: "millimetres for metres, or the reverse",
    5000.0: "TUM's 5000 counts a metre, not divided",
    256.0: "KITTI's 256 counts a pixel, not divided",
    5.0: "TUM's 5000 counts a metre for millimetres, or the reverse",
    6553.5: "Replica's 6553.5 counts a metre, not divided",
    6.5535: "Replica's 6553.5 counts a metre for millimetres, or the reverse",
    100.0: "centimetres for metres, or the reverse",
    10.0: "centimetres for millimetres, or the reverse",
}
CONFUSIONS = (
    Hypothesis("poses the other way (world-to-camera for camera-to-world)", inverse=True),
    Hypothesis("OpenGL axes (camera looks along -z)", opengl=True),
    Hypothesis("poses the other way and OpenGL axes", inverse=True, opengl=True),
    Hypothesis("length of the ray instead of z", meaning=Meaning.ray),
    Hypothesis("principal point half a pixel less (pixel centres at .5)", shift=-0.5),
    Hypothesis("principal point half a pixel more", shift=0.5),
    Hypothesis("cx and cy exchanged", swapped=True),
    Hypothesis("focal length doubled", focal=2.0),
    Hypothesis("focal length halved", focal=0.5),
    Hypothesis("K of an image half as large: all of it doubled", enlarged=2.0),
    Hypothesis("K of an image twice as large: all of it halved", enlarged=0.5),
)
TOO_CLOSE = 1.0  # pixels of parallax: with less, noise decides
SURE = 0.5  # of the residual as stated: below, the other convention is right, and not only a little better
BY_CHANCE = 0.1  # relative residual above which views that see nothing of each other as stated do not meet otherwise
LEVELS = (0.5, 1.0, 2.0, 4.0)  # of agreement, in median residuals of the best hypothesis
FINEST = 1e-7  # relative residual that rounding alone makes
NEEDED_OVERLAP = 0.05  # of the largest: below, a hypothesis sees too little to be judged
CAN_TELL = 0.02  # share of the samples that have to differ between two hypotheses
SLIGHT, CLEAR = 0.55, 0.6  # share of the votes
GRID = np.geomspace(1e-4, 1e4, 40)  # factors tried
ROUNDS = 9  # of search between them: each halves the interval
NAMED = 0.04  # a factor this near a known one is that one
SAMPLES, FEW_SAMPLES = 24_000, 3_000
FEW_FRAMES = 5


@dataclass(frozen=True)
class Fit:
    """How well the data fit a hypothesis."""

    hypothesis: Hypothesis
    residual: float  # median relative difference of depth
    overlap: float  # share of the samples that hit a known depth in the neighbour
    votes: float  # share that prefers it to the data as stated, of the samples that can tell
    telling: float  # share of the samples that can tell

    @property
    def undecided(self) -> bool:
        """Whether the data cannot tell it from what is stated."""
        return self.telling < CAN_TELL or 1 - SLIGHT < self.votes < SLIGHT


@dataclass(frozen=True)
class Check:
    """The fits of all hypotheses, as stated first, and which one is best."""

    fits: tuple[Fit, ...]
    best: Fit
    parallax: float = float("inf")  # pixels, as stated
    scales: Scales | None = None  # where the views disagree about it

    @property
    def stated(self) -> Fit:
        """The fit as stated."""
        return self.fits[0]

    @property
    def fits_as_stated(self) -> bool:
        """Whether no confusion fits better."""
        return self.best is self.stated

    @property
    def by_chance(self) -> bool:
        """Whether views see nothing of each other as stated, and meet under no confusion but by chance."""
        return not self.stated.overlap > 0 and not self.best.residual < BY_CHANCE

    @property
    def is_sure(self) -> bool:
        """Whether another convention fits so much better that the one stated cannot be right."""
        better = self.best.residual < SURE * self.stated.residual or not self.stated.overlap > 0
        return not self.fits_as_stated and self.best.votes >= CLEAR and better and not self.by_chance

    @property
    def too_close(self) -> bool:
        """Whether the views lie too close together to tell."""
        return self.fits_as_stated and self.parallax < TOO_CLOSE

    @property
    def sentence(self) -> str:
        """What came out, with the evidence."""
        here = f"{_percent(self.stated.residual)} median depth residual, {_percent(self.stated.overlap)} overlap"
        if self.too_close:
            return (
                f"The views are too close together to tell (parallax {self.parallax:.2g} pixels; {here}); "
                "check views that are farther apart."
            )
        if self.by_chance:
            return "No two of the views see the same surface, as stated or under any usual confusion."
        if self.fits_as_stated and self.scales is not None:
            return f"The data fit as stated ({here}), but {self.scales.sentence}."
        if self.fits_as_stated:
            doubt = [fit.hypothesis.name for fit in self.fits[1:] if fit.undecided]
            tail = f"; the data cannot tell: {'; '.join(doubt)}" if doubt else ""
            return f"The data fit as stated ({here}){tail}."
        best = self.best
        how = "clearly" if best.votes >= CLEAR else "slightly"
        return (
            f"The data fit {how} better with: {best.hypothesis.name} ({_percent(best.residual)} median depth residual, "
            f"{_percent(best.overlap)} overlap; as stated {here}; {_percent(best.votes)} of the pixels that can tell)."
        )


def check(views: Sequence[View], samples: int = SAMPLES) -> Check:
    """Compare all hypotheses on some pairs of views; a second or two for 60 frames of 640 x 480."""
    return _compared(Samples(views, samples))


def quick_check(views: Sequence[View]) -> Check | None:
    """Likewise on a few views and a few pixels; None where there is nothing to compare."""
    try:
        return _compared(Samples(views, FEW_SAMPLES, frames=FEW_FRAMES))
    except InputError:  # one view, or not perspective
        return None


def warning(views: Sequence[View]) -> str | None:
    """A sentence where the data clearly fit another convention than stated, else None; a few views, a few pixels."""
    found = quick_check(views)
    if found is None or found.too_close or found.by_chance or (found.fits_as_stated and found.scales is None):
        return None
    return found.sentence if found.scales is not None or found.best.votes >= CLEAR else None


def _compared(samples: Samples, every: int = 4) -> Check:
    searched = [_best_factor(samples, meaning, every) for meaning in (Meaning.z, Meaning.disparity)]
    scaled = [
        replace(STATED, name=_factor_name(factor), factor=factor)
        for known in (1000.0, 5000.0, 256.0, 5.0)
        for factor in (known, 1 / known)
    ]
    unnamed = [each for each in searched if each.meaning is not Meaning.z or _is_new(each.factor, scaled)]
    hypotheses = (STATED, *CONFUSIONS, *scaled, *unnamed)
    residuals = [samples.residuals(each) for each in hypotheses]
    enough = NEEDED_OVERLAP * max(each.overlap for each in residuals)
    judged = [each.overlap > enough for each in residuals]
    finest = max(FINEST, min((each.median for each, able in zip(residuals, judged, strict=True) if able), default=1.0))
    agreement = [_agreement(each, finest) for each in residuals]
    fits = tuple(
        Fit(hypothesis, found.median, found.overlap, *_votes(agreed, agreement[0], able, judged[0]))
        for hypothesis, found, agreed, able in zip(hypotheses, residuals, agreement, judged, strict=True)
    )
    best = _champion(agreement, judged, [each.median for each in residuals])
    parallax = samples.parallax(STATED)
    if max(parallax, samples.parallax(hypotheses[best]), samples.turn()) < TOO_CLOSE:
        best = 0
    scales = view_scales(samples)
    if scales is not None and scales.after < fits[best].residual:
        best = 0
    return Check(fits, fits[best], parallax, scales if best == 0 else None)


def _champion(agreement: Sequence[NDArray[np.float64]], judged: Sequence[bool], medians: Sequence[float]) -> int:
    """The hypothesis that none beats, starting from the stated one, which has the benefit of the doubt.

    What gets more votes and leaves a larger residual is not better.
    """
    champion = 0
    for challenger in range(1, len(agreement)):
        votes, telling = _votes(agreement[challenger], agreement[champion], judged[challenger], judged[champion])
        worse = judged[challenger] == judged[champion] and medians[challenger] > medians[champion]
        if votes > SLIGHT and telling >= CAN_TELL and not worse:
            champion = challenger
    return champion


def _agreement(residuals: Residuals, finest: float) -> NDArray[np.float64]:
    """Between 0 and 1 for each sample: the share of the levels it stays below, 0 where the depth it fell on is unknown.

    NaN for those that fell outside: they cannot vote. A silhouette on an unknown background can.
    """
    size = np.abs(residuals.values)
    levels = np.log1p(finest * np.array(LEVELS))
    below: NDArray[np.float64] = np.mean(size[None, :] <= levels[:, None], axis=0)
    return np.where(residuals.inside, below, np.nan)


def _votes(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], judged: bool, they_are_judged: bool
) -> tuple[float, float]:
    """The share of samples that agree better under ours, of those that differ, and how many differ."""
    if judged != they_are_judged:
        return float(judged), 1.0
    with np.errstate(invalid="ignore"):
        more, less = int((ours > theirs).sum()), int((ours < theirs).sum())
    both = int((np.isfinite(ours) & np.isfinite(theirs)).sum())
    return (more / (more + less) if more + less else 0.5), (more + less) / max(both, 1)


def _best_factor(samples: Samples, meaning: Meaning, every: int) -> Hypothesis:
    """The factor with the smallest residuals: tried on a grid, then between the best and its neighbours."""
    unit = 1.0 if meaning is Meaning.z else samples.typical * max(samples.motion, 1e-3 * samples.typical)
    factors = list(unit * GRID)

    def cost(factor: float) -> tuple[bool, float]:
        found = samples.residuals(Hypothesis("", factor=factor, meaning=meaning), every)
        return found.overlap < NEEDED_OVERLAP, found.cost

    costs = [cost(factor) for factor in factors]
    best = min(range(len(factors)), key=lambda index: costs[index])
    low, high = factors[max(best - 1, 0)], factors[min(best + 1, len(factors) - 1)]
    for _ in range(ROUNDS):
        between = list(np.geomspace(low, high, 5))
        tried = [cost(factor) for factor in between]
        place = min(range(len(between)), key=lambda index: tried[index])
        low, high = between[max(place - 1, 0)], between[min(place + 1, len(between) - 1)]
        factors.append(between[place])
        costs.append(tried[place])
    factor = float(factors[min(range(len(factors)), key=lambda index: costs[index])])
    if meaning is Meaning.z:
        return Hypothesis(_factor_name(factor), factor=factor)
    return Hypothesis(f"disparity instead of depth (z = {factor:.4g} / value)", factor=factor, meaning=meaning)


def _is_new(factor: float, scaled: Sequence[Hypothesis]) -> bool:
    """Whether a factor is neither 1 nor one that is tried by name."""
    return all(abs(np.log(factor / known)) > NAMED for known in (1.0, *(each.factor for each in scaled)))


def _factor_name(factor: float) -> str:
    """What has to be done to the depths, and which mistake that mends."""
    larger = max(factor, 1 / factor)
    known = next((each for each in FACTORS if abs(np.log(larger / each)) < NAMED), None)
    amount = larger if known is None else known
    why = "" if known is None else f" ({FACTORS[known]})"
    return f"depths {'multiplied' if factor > 1 else 'divided'} by {amount:.5g}{why}"


def _percent(share: float) -> str:
    if not np.isfinite(share):
        return "no"
    return "under 0.001 %" if share < 1e-5 else f"{100 * share:.{2 if share < 0.1 else 3}g} %"
