"""Which convention the data fit: views projected into their neighbours as stated, and under common mistakes.

Hypotheses are compared sample by sample: among the pixels that hit a known depth under both hypotheses and agree better
under one of them, the share of votes for it counts. Flat, smooth and noisy scenes leave fewer deciding pixels, but not
a wrong majority.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.datasets.check.affine import FEW_TURNS, TURNS
from cfusion.datasets.check.axes import EVERY_AXES, OPENCV, OPENGL, ROS, described
from cfusion.datasets.check.factor import EVERY, NEEDED_OVERLAP, best_factor, cost_of
from cfusion.datasets.check.reference import Misplaced, misplaced
from cfusion.datasets.check.reprojection import (
    FEWEST,
    STATED,
    Hypothesis,
    Meaning,
    Residuals,
    Samples,
    nearest_kept,
    percent,
)
from cfusion.datasets.check.scales import Scales, view_scales, view_shifts
from cfusion.errors import InputError
from cfusion.geometry import View

FACTORS = {  # ratio of depths after a mistaken scale, and the mistake
    1000.0: "millimetres for metres, or the reverse",
    5000.0: "TUM's 5000 counts per metre, not divided",
    256.0: "KITTI's 256 counts per pixel, not divided",
    5.0: "TUM's 5000 counts per metre for millimetres, or the reverse",
    6553.5: "Replica's 6553.5 counts per metre, not divided",
    6.5535: "Replica's 6553.5 counts per metre for millimetres, or the reverse",
    100.0: "centimetres for metres, or the reverse",
    10.0: "centimetres for millimetres, or the reverse",
    1e6: "1000 counts per metre, multiplied instead of divided, or the reverse",
    2.5e7: "TUM's 5000 counts per metre, multiplied instead of divided, or the reverse",
}
CONFUSIONS = (
    Hypothesis("poses inverted (world-to-camera for camera-to-world)", inverse=True),
    Hypothesis("OpenGL axes (camera looks along -z)", axes=OPENGL),
    Hypothesis("poses inverted and OpenGL axes", inverse=True, axes=OPENGL),
    Hypothesis("rotations inverted, positions not (R of world-to-camera beside camera centres)", rotations=True),
    Hypothesis("positions inverted, rotations not (t of world-to-camera beside R of camera-to-world)", positions=True),
    Hypothesis("rows from the bottom up (or poses of a left-handed world with y up, as Unity's)", flipped=True),
    Hypothesis("columns from right to left", mirrored=True),
    Hypothesis("images turned by 180 degrees", flipped=True, mirrored=True),
    Hypothesis("length of the ray instead of z", meaning=Meaning.ray),
    Hypothesis("principal point half a pixel less (pixel centres at .5)", shift=-0.5),
    Hypothesis("principal point half a pixel more", shift=0.5),
    Hypothesis("cx and cy exchanged", swapped=True),
    Hypothesis("focal length doubled", focal=2.0),
    Hypothesis("focal length halved", focal=0.5),
    Hypothesis("K of an image half as large: all of it doubled", enlarged=2.0),
    Hypothesis("K of an image twice as large: all of it halved", enlarged=0.5),
)
ORDERS = (
    Hypothesis("every view has the pose of the view before it: give it the next one's", order=1),
    Hypothesis("every view has the pose of the view after it: give it the one before", order=2),
    Hypothesis("poses sorted as text (0, 1, 10, 11, 2): sort them by number", order=4),
    Hypothesis("depth maps sorted as text (0, 1, 10, 11, 2): sort them by number", order=3),
)
TOO_CLOSE = 1.0  # pixels of parallax below which noise decides
TURNED = 5.0  # pixels of turning below which errors of poses decide how rotations are meant
SURE = 0.5  # residual over that of the stated convention, below which the other convention is certainly right
HARMLESS = 0.01  # relative residual as stated, up to which nothing is stopped: what is fused is off by no more
BY_CHANCE = 0.1  # relative residual above which views meet only by chance
NO_CHANCE = 0.05  # residual over that of random pixels, below which views of other cameras do not meet by chance
OF_POSES = 1.5  # factors below it may be those of inexact positions, unless they are those of a known mistake
MEETING, HARDLY = 0.2, 0.02  # shares of the known pixels that meet: of views of one surface, and of none
LEVELS = (0.5, 1.0, 2.0, 4.0)  # thresholds of agreement, in median residuals of the best hypothesis
FINEST = 1e-7  # relative residual caused by rounding
CAN_TELL = 0.02  # share of samples that must differ between two hypotheses
SLIGHT, CLEAR = 0.55, 0.6  # shares of the votes
MATERIAL = 0.7  # residual over that of the stated convention: inexact poses explain less, noise and other errors remain
KEPT = 0.8  # of the overlap: the right convention loses none
NAMED = 0.04  # relative distance within which a factor is taken for a known one
OFF_CENTRE = 0.2  # relative distance of principal points from the middle, beyond which K may be of another image
SAMPLES, FEW_SAMPLES = 24_000, 3_000
FEW_FRAMES = 5


@dataclass(frozen=True)
class Fit:
    """The fit of the data to a hypothesis."""

    hypothesis: Hypothesis
    residual: float  # median relative difference of depth
    overlap: float  # share of samples that hit a known depth in the neighbour
    votes: float  # share of the deciding samples that prefers it to the stated convention
    telling: float  # share of samples that decide: agreement differs between the two

    @property
    def undecided(self) -> bool:
        """Whether the data cannot distinguish it from the stated convention."""
        return self.telling < CAN_TELL or 1 - SLIGHT < self.votes < SLIGHT


@dataclass(frozen=True)
class Check:
    """The fits of all hypotheses, the stated one first, and the best of them."""

    fits: tuple[Fit, ...]
    best: Fit
    parallax: float = float("inf")  # pixels, as stated, or of the views at one scale
    scales: Scales | None = None  # None unless the views disagree about scale
    known: float = 1.0  # share of the pixels with a depth
    chance: float = float("inf")  # median relative difference of the depths of two pixels
    misplaced: Misplaced | None = None  # the reference, if its pose alone is wrong

    @property
    def stated(self) -> Fit:
        """The fit of the stated convention."""
        return self.fits[0]

    @property
    def fits_as_stated(self) -> bool:
        """Whether no mistake fits better."""
        return self.best is self.stated

    @property
    def by_chance(self) -> bool:
        """Whether hardly any views meet as stated, and under no other convention more than by chance."""
        if self.stated.overlap >= HARDLY * self.known:
            return False
        best, other = self.best, self.best.hypothesis
        wider = other.focal < 1 or other.enlarged < 1 or other.resized or other.axes not in (OPENCV, OPENGL)
        least = (NO_CHANCE if wider else SURE) * self.chance  # of all axes, and of wide views, some meet
        meeting = best.overlap >= MEETING * self.known and best.residual < min(BY_CHANCE, least)
        usual = _is_usual(other.factor) or other.meaning is not Meaning.z
        return not (meeting and usual) and not (self.scales is not None and self.scales.shifts)

    @property
    def is_clear(self) -> bool:
        """Whether another convention fits well, and better by more than noise and inexact poses explain."""
        well = self.best.residual < min(MATERIAL * self.stated.residual, BY_CHANCE)
        if self.best.hypothesis.order:  # with the poses of neighbours most views still meet
            well = well and self.best.overlap > KEPT * self.stated.overlap
        return not self.fits_as_stated and self.best.votes >= CLEAR and well

    @property
    def is_sure(self) -> bool:
        """Whether another convention, or other scales, fit so much better that the stated one must be wrong."""
        if self.scales is not None:
            return self.scales.large and self.scales.after < SURE * self.scales.before and not self.too_close
        stated, other = self.stated.residual, self.best.hypothesis
        better = self.best.residual < SURE * stated and stated > HARMLESS
        usual = _is_usual(other.factor) or other.meaning is not Meaning.z or other.resized
        usual = usual or (other.axes == OPENCV and max(other.factor, 1 / other.factor) >= OF_POSES)
        return self.is_clear and better and usual and not self.by_chance

    @property
    def too_close(self) -> bool:
        """Whether the views are too close together to decide."""
        return self.fits_as_stated and self.parallax < TOO_CLOSE

    @property
    def caution(self) -> str | None:
        """The sentence if another convention clearly fits better, or views disagree on scale or a pose; else None."""
        if self.misplaced is not None:
            return self.sentence
        if self.too_close or self.by_chance or (self.fits_as_stated and self.scales is None):
            return None
        return self.sentence if self.scales is not None or self.is_clear else None

    @property
    def sentence(self) -> str:
        """The result with its evidence, in one sentence."""
        if self.misplaced is not None:
            return self.misplaced.sentence
        here = f"{percent(self.stated.residual)} median depth residual, {percent(self.stated.overlap)} overlap"
        if self.too_close:
            return (
                f"The views are too close together to decide (parallax {self.parallax:.2g} pixels; {here}); "
                "check views that are farther apart."
            )
        if self.by_chance:
            return "No two of the views see the same surface, as stated or under any usual confusion."
        if self.scales is not None and self.scales.shifts:
            return f"The data do not fit as stated ({here}): {self.scales.sentence}."
        if self.fits_as_stated and self.scales is not None:
            return f"The data fit as stated ({here}), but {self.scales.sentence}."
        if self.fits_as_stated:
            doubt = [fit.hypothesis.name for fit in self.fits[1:] if fit.undecided]
            tail = f"; the data cannot decide: {'; '.join(doubt)}" if doubt else ""
            return f"The data fit as stated ({here}){tail}."
        best = self.best
        how = "clearly" if self.is_clear else "slightly"
        return (
            f"The data fit {how} better with: {best.hypothesis.name} ({percent(best.residual)} median depth residual, "
            f"{percent(best.overlap)} overlap; as stated {here}; {percent(best.votes)} of the deciding pixels)."
        )


def check(views: Sequence[View], samples: int = SAMPLES) -> Check:
    """Compare all hypotheses on some pairs of views; takes a few seconds for 60 frames of 640 x 480."""
    drawn, named = Samples(views, samples), getattr(views, "reference", None)
    reference = len(views) // 2 if named is None else named
    return _compared(drawn, TURNS, misplaced(_few(views, reference), reference))


def quick_check(views: Sequence[View], reference: int | None = None) -> Check | None:
    """The same on a few views and pixels, around the reference if it is given; None if nothing can be compared."""
    try:
        samples = _few(views, reference)
        return _compared(samples, FEW_TURNS, None if reference is None else misplaced(samples, reference))
    except InputError:  # one view, or not perspective
        return None


def warning(views: Sequence[View]) -> str | None:
    """A sentence if a few views clearly fit another convention than the stated one, else None."""
    found = quick_check(views)
    return None if found is None else found.caution


def _few(views: Sequence[View], around: int | None) -> Samples:
    """A few pixels of a few views around one of them."""
    return Samples(views, FEW_SAMPLES, frames=FEW_FRAMES, around=around)


def _compared(samples: Samples, turns: int, odd: Misplaced | None) -> Check:
    searched = [_best_factor(samples, meaning) for meaning in (Meaning.z, Meaning.disparity)]
    scaled = [
        replace(STATED, name=_factor_name(factor), factor=factor)
        for known in (1000.0, 5000.0, 256.0, 5.0)
        for factor in (known, 1 / known)
    ]
    unnamed = [each for each in searched if each.meaning is not Meaning.z or _is_new(each.factor, scaled)]
    confusions = [each for each in CONFUSIONS if not each.rotations or samples.turn() >= TURNED]
    resized = _of_another_image(samples)
    ordered = [each for each in ORDERS if samples.has_order(each.order)]
    hypotheses = (STATED, *confusions, *ordered, *resized, *scaled, *unnamed, *_together(samples, resized))
    residuals = [samples.residuals(each) for each in hypotheses]
    enough = NEEDED_OVERLAP * max(each.overlap for each in residuals)
    judged = [each.overlap > enough for each in residuals]
    finest = max(FINEST, min((each.median for each, able in zip(residuals, judged, strict=True) if able), default=1.0))
    agreement = [_agreement(each, finest) for each in residuals]
    fits = tuple(
        Fit(hypothesis, found.median, found.overlap, *_votes(agreed, agreement[0], able, judged[0]))
        for hypothesis, found, agreed, able in zip(hypotheses, residuals, agreement, judged, strict=True)
    )
    able = [
        fits and not (each.order and _is_of_one_view(samples, found, residuals[0]))
        for each, found, fits in zip(hypotheses, residuals, judged, strict=True)
    ]
    best = _champion(residuals, agreement, able)
    parallax = samples.parallax(STATED)
    there = samples.parallax(hypotheses[best])
    farther = hypotheses[best].factor > 1 or hypotheses[best].meaning is Meaning.disparity
    farther = farther and fits[0].residual < BY_CHANCE
    if max(parallax, there, samples.turn()) < TOO_CLOSE or (farther and there < TOO_CLOSE):
        best = 0  # without parallax views meet wherever they are
    scales = _scales(samples, fits[0], fits[best], turns) if odd is None else None
    return Check(
        fits,
        fits[0 if scales or odd else best],
        max(parallax, scales.parallax if scales else 0.0),
        scales,
        samples.known,
        samples.chance,
        odd,
    )


def _scales(samples: Samples, stated: Fit, best: Fit, turns: int) -> Scales | None:
    """Scales, or scales and shifts, that the views need, if these explain them better than any other hypothesis."""
    scales = view_scales(samples)
    explained = scales is not None and scales.after < best.residual and scales.overlap > SURE * best.overlap
    if best.hypothesis != STATED and not explained:
        scales = None
    likely = best.hypothesis.meaning is Meaning.disparity or not stated.residual < BY_CHANCE
    posed = best.hypothesis != replace(
        STATED, name=best.hypothesis.name, factor=best.hypothesis.factor, meaning=best.hypothesis.meaning
    )
    known = posed and best.votes >= CLEAR and best.residual < SURE * stated.residual
    rival = replace(best, residual=SURE * best.residual) if known else best  # shifts can imitate a mistake, not undo it
    shifted = view_shifts(samples, scales, rival, turns, values=likely)
    found = scales if shifted is None else shifted
    return found if found is not None and found.after < BY_CHANCE else None


def _together(samples: Samples, resized: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Several mistakes at once: the axes and direction of the poses, under which K is that of another image or not,
    then the factor that fits best with these; empty if they are those of one mistake that is compared anyway."""
    tried = [
        replace(under, name="", inverse=inverse, axes=axes)
        for under in (STATED, *resized)
        for inverse in (False, True)
        for axes in EVERY_AXES
    ]
    every = max(EVERY, samples.depth.size // FEW_SAMPLES)
    posed = min(tried, key=lambda each: cost_of(samples, each, every))
    factor = best_factor(samples, Meaning.z, posed)
    known = _known(factor)
    if known is not None:
        factor = known if factor > 1 else 1 / known
    scaled = replace(posed, factor=factor)
    found = [posed] if abs(np.log(factor)) < NAMED else [posed, scaled]
    return [replace(each, name=_names(each, resized)) for each in found if not _is_compared(each)]


def _is_compared(hypothesis: Hypothesis) -> bool:
    """Whether a combination is one mistake only, or one of those that have a name of their own."""
    changes = (hypothesis.inverse or hypothesis.axes != OPENCV, hypothesis.resized, hypothesis.factor != 1)
    return sum(changes) < 2 and hypothesis.axes in (OPENCV, OPENGL)


def _names(hypothesis: Hypothesis, resized: Sequence[Hypothesis]) -> str:
    """The names of the mistakes that a hypothesis combines."""
    names = ["poses inverted"] if hypothesis.inverse else []
    if hypothesis.axes == OPENGL:
        names.append("OpenGL axes")
    elif hypothesis.axes != OPENCV:
        of_ros = ", as of ROS and robots" if hypothesis.axes == ROS else ""
        names.append(f"camera axes {described(hypothesis.axes)}{of_ros}")
    names += [each.name for each in resized if hypothesis.resized]
    return "; ".join(names + ([_factor_name(hypothesis.factor)] if hypothesis.factor != 1 else []))


def _champion(residuals: Sequence[Residuals], agreement: Sequence[NDArray[np.float64]], judged: Sequence[bool]) -> int:
    """The hypothesis that no other beats, starting from the stated one, which wins ties.

    A hypothesis with more votes is not better if its residual is larger, or that of the samples which agree best.
    """
    champion = 0
    medians, sizes = [each.median for each in residuals], [each.sizes for each in residuals]
    for challenger in range(1, len(agreement)):
        votes, telling = _votes(agreement[challenger], agreement[champion], judged[challenger], judged[champion])
        worse = judged[challenger] == judged[champion] and medians[challenger] > medians[champion]
        worse = worse or not nearest_kept(sizes[challenger], sizes[champion])
        if votes > SLIGHT and telling >= CAN_TELL and not worse:
            champion = challenger
    return champion


def _is_of_one_view(samples: Samples, ours: Residuals, stated: Residuals) -> bool:
    """Whether the poses of another order fit better in one view only: an odd one, which they move or drop at an end.

    On a uniform orbit another order is only another world frame: without the odd view it explains nothing. Of three
    views, without one, no pair may be left that has poses under both: then different pairs are compared.
    """
    met = np.isfinite(ours.values)
    for view in range(len(samples.starts)):
        others = (samples.source != view) & (samples.target != view)
        enough = (others & met).sum() >= FEWEST
        here, there = (others & met,) * 2 if enough else (met, others)
        if not _middle(ours.values[here]) < MATERIAL * _middle(stated.values[there]):
            return True
    return False


def _middle(values: NDArray[np.float64]) -> float:
    """The median size; inf of what hits no known depth."""
    sizes = np.abs(values)
    return float(np.median(np.where(np.isfinite(sizes), sizes, np.inf))) if sizes.size else float("inf")


def _agreement(residuals: Residuals, finest: float) -> NDArray[np.float64]:
    """Agreement of each sample, 0 to 1: the share of thresholds above its residual; 0 if it hits an unknown depth.

    NaN if it falls outside the image, which does not vote; a silhouette against unknown background does.
    """
    size = np.abs(residuals.values)
    levels = np.log1p(finest * np.array(LEVELS))
    below: NDArray[np.float64] = np.mean(size[None, :] <= levels[:, None], axis=0)
    return np.where(residuals.inside, below, np.nan)


def _votes(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], judged: bool, they_are_judged: bool
) -> tuple[float, float]:
    """The share of samples that agree better under ours, among those that differ, and the share that differs."""
    if judged != they_are_judged:
        return float(judged), 1.0
    with np.errstate(invalid="ignore"):
        more, less = int((ours > theirs).sum()), int((ours < theirs).sum())
    both = int((np.isfinite(ours) & np.isfinite(theirs)).sum())
    return (more / (more + less) if more + less else 0.5), (more + less) / max(both, 1)


def _best_factor(samples: Samples, meaning: Meaning) -> Hypothesis:
    """The factor with the smallest residuals, by the name of the mistake that explains it."""
    factor = best_factor(samples, meaning)
    if meaning is Meaning.z:
        known = _known(factor)
        exact = factor if known is None else known if factor > 1 else 1 / known
        return Hypothesis(_factor_name(exact), factor=exact)
    return Hypothesis(f"disparity instead of depth (z = {factor:.4g} / value)", factor=factor, meaning=meaning)


def _of_another_image(samples: Samples) -> list[Hypothesis]:
    """K of an image of any other size, which its principal point tells; none if that lies near the middle."""
    doubled = 2 * samples.intrinsics[:, 2:]
    if not (doubled > 0).all():
        return []
    sizes = np.stack([samples.widths, samples.heights], axis=1)
    if np.median(np.abs(np.log(doubled / sizes)), axis=0).max() < OFF_CENTRE:
        return []
    width, height = np.median(doubled, axis=0)
    return [Hypothesis(f"K of an image of about {width:.0f} x {height:.0f} pixels: scaled to this one", resized=True)]


def _is_new(factor: float, scaled: Sequence[Hypothesis]) -> bool:
    """Whether a factor is neither 1 nor one of the named ones."""
    return all(abs(np.log(factor / known)) > NAMED for known in (1.0, *(each.factor for each in scaled)))


def _is_usual(factor: float) -> bool:
    """Whether a factor is 1 or that of a known mistake: of all others some one makes a few views meet."""
    return factor == 1 or _known(factor) is not None


def _known(factor: float) -> float | None:
    """The factor of a known mistake, above 1, that a factor or its inverse is close to."""
    return next((each for each in FACTORS if abs(abs(np.log(factor)) - np.log(each)) < NAMED), None)


def _factor_name(factor: float) -> str:
    """How the depths have to be changed, and which mistake explains it."""
    known = _known(factor)
    amount = max(factor, 1 / factor) if known is None else known
    why = "" if known is None else f" ({FACTORS[known]})"
    return f"depths {'multiplied' if factor > 1 else 'divided'} by {amount:.5g}{why}"
