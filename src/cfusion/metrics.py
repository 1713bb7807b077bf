"""Errors of a depth map against the truth, and how well a confidence map ranks them.

Lengths are in the unit of depth, angles in radians, disparities in pixels, out and density in percent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite, nan
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cfusion.arrays import DepthMap, adopt, is_number
from cfusion.errors import CameraError, InputError, ShapeError
from cfusion.geometry import Camera, Pinhole, normals
from cfusion.geometry.disparity import fill_from_background

THRESHOLDS = (1.0, 2.0, 3.0, 4.0, 5.0)  # pixels of disparity above which outliers are counted
# KITTI's files cannot store a larger disparity: an estimate beyond counts as a hole. Without a bound the mean error
# of 1 / depth is infinite if noise can make a depth zero.
LARGEST_DISPARITY = 256.0


@dataclass(frozen=True)
class Scores:
    """The scores of one depth map, or their average over several; NaN where a score is undefined.

    Args:
        rmse: root mean square error after subtracting each map's mean, in the unit of depth.
        zmae: mean absolute error after subtracting the median difference, in the unit of depth.
        nmae: mean angle between the normals, in radians.
        z_avg: geometric mean of rmse, zmae and nmae.
        outliers: percent of the true pixels whose disparity is off by more than 1, 2, 3, 4, 5 pixels, after
            `fill_background` has filled the holes of the estimate.
        d_avg: mean absolute disparity error, in pixels, after the same filling.
        density: percent of the true pixels with an estimate.
        plain_rmse: root mean square error, nothing subtracted.
        plain_mae: mean absolute error, nothing subtracted.
        bias: mean of depth minus truth.

    Examples:
        >>> from cfusion import evaluate
        >>> evaluate([[1.0, 2.0]], [[1.0, 3.0]]).bias
        -0.5
    """

    rmse: float  # after subtracting each map's mean
    zmae: float  # mean absolute error after subtracting the median difference
    nmae: float  # mean angle between the normals
    z_avg: float  # geometric mean of the three
    outliers: tuple[float, ...]  # share of true pixels off by more than THRESHOLDS, after filling
    d_avg: float  # mean absolute disparity error over all true pixels, after filling
    density: float  # share of true pixels with an estimate, before filling
    plain_rmse: float
    plain_mae: float
    bias: float  # mean of depth - truth

    def out(self, pixels: float) -> float:
        """Percent of the true pixels whose disparity is off by more than 1, 2, 3, 4 or 5 pixels."""
        if not is_number(pixels) or pixels not in THRESHOLDS:
            raise InputError(
                f"out({str(pixels)[:40]}) is not available; choose one of {', '.join(f'{n:g}' for n in THRESHOLDS)}"
            )
        return self.outliers[THRESHOLDS.index(pixels)]

    def named(self, name: str) -> float:
        """A score by its name in `NAMES`: that of a field, or `out3` for `out(3)`."""
        return self.out(3) if name == "out3" else float(getattr(self, name))


NAMES = tuple("out3" if field.name == "outliers" else field.name for field in fields(Scores))


class Seen(Protocol):
    """A depth map with its camera: a result or a view."""

    @property
    def depth(self) -> DepthMap:
        """(H, W)."""

    @property
    def camera(self) -> Camera | None:
        """Its camera, if known."""


def evaluate(
    depth: ArrayLike | Seen, truth: ArrayLike | Seen, camera: Camera | None = None, baseline: float | None = None
) -> Scores:
    """Compare a depth map (H, W) with the truth (H, W), NaN = unknown in either.

    Either may be a result or a view; its camera is used if none is given.

    Depth errors are taken where both are known. Without a camera there are no normals: nmae and z_avg are NaN. Without
    a baseline there are no disparities, fx baseline / depth: outliers and d_avg are NaN.

    Args:
        depth: (H, W) to be evaluated.
        truth: (H, W) in the same unit.
        camera: of both maps: any camera for normals, a pinhole camera for disparities.
        baseline: of a stereo pair, in the unit of depth, for disparities.

    Examples:
        >>> import numpy as np
        >>> from cfusion import evaluate
        >>> scores = evaluate(np.array([[1.0, 2.0], [np.nan, 4.0]]), np.array([[1.0, 2.5], [3.0, 4.5]]))
        >>> round(scores.plain_mae, 3), scores.density
        (0.333, 75.0)
    """
    if camera is None:
        camera = getattr(depth, "camera", None) or getattr(truth, "camera", None)
    elif not isinstance(camera, Camera):
        raise InputError(f"camera is {type(camera).__name__}; give a Pinhole or another camera, or none")
    given: tuple[Any, Any] = (depth, truth)
    estimate, true = (
        _numbers(getattr(each, "depth", each), name) for each, name in zip(given, ("depth", "truth"), strict=True)
    )
    if estimate.shape != true.shape or estimate.ndim != 2:
        raise ShapeError(f"depth is {estimate.shape}, the truth is {true.shape}; give both the same (H, W)")
    known = ~np.isnan(true)
    behind = int((true <= 0).sum())
    if behind and isinstance(camera, Pinhole):  # 0 for unknown would be scored as a wall at the camera
        raise InputError(f"the truth is zero or negative at {behind} of {true.size} pixels; use NaN for unknown")
    if not known.any():
        raise InputError("the truth is NaN everywhere; give a truth with known pixels")
    both = known & ~np.isnan(estimate)
    error = estimate[both] - true[both]
    rmse, zmae = nan, nan
    if error.size:
        rmse = float(np.sqrt(np.mean((error - error.mean()) ** 2)))
        zmae = float(np.mean(np.abs(error - np.median(error))))
    nmae = nan if camera is None else _mean_angle(estimate, true, camera)
    outliers, d_avg = _disparity_scores(estimate, true, camera, baseline)
    return Scores(
        rmse=rmse,
        zmae=zmae,
        nmae=nmae,
        z_avg=(rmse * zmae * nmae) ** (1 / 3),
        outliers=outliers,
        d_avg=d_avg,
        density=100.0 * float(both.sum() / known.sum()),
        plain_rmse=float(np.sqrt(np.mean(error**2))) if error.size else nan,
        plain_mae=float(np.mean(np.abs(error))) if error.size else nan,
        bias=float(error.mean()) if error.size else nan,
    )


def arithmetic_mean(scores: Sequence[Scores]) -> Scores:
    """The arithmetic mean over scenes, used in the paper for real data."""
    return _averaged(scores, np.mean)


def geometric_mean(scores: Sequence[Scores]) -> Scores:
    """The geometric mean over scenes, used in the paper for synthetic data (arithmetic for the bias)."""
    unsigned = [replace(each, bias=0.0) for each in scores]
    return replace(_averaged(unsigned, _root_of_product), bias=arithmetic_mean(scores).bias)


def ause(error: ArrayLike, confidence: ArrayLike) -> float:
    """Area under the sparsification error curve: 0 if confidence ranks the errors perfectly.

    The curve is the mean absolute error of the pixels that remain when the least confident fraction is removed, over
    the mean of all; the area is that between this curve and the one that removes the largest errors first. Pixels of
    equal confidence are removed in an average order; pixels where either map is NaN are ignored.
    """
    absolute, trust = _known_pairs(error, confidence)
    if absolute.sum() == 0:
        return 0.0
    order = np.argsort(trust, kind="stable")
    _, tie, size = np.unique(trust[order], return_inverse=True, return_counts=True)
    expected = (np.bincount(tie, absolute[order]) / size)[tie]
    excess = _remaining_mean(expected) - _remaining_mean(np.sort(absolute)[::-1])
    return float(excess.mean() / absolute.mean())


def roc_auc(error: ArrayLike, confidence: ArrayLike, threshold: float) -> float:
    """Probability that a pixel with |error| <= threshold has more confidence than one beyond (ties count half).

    1 is a perfect ranking, 0.5 a random one; NaN if all pixels are on one side.
    """
    absolute, trust = _known_pairs(error, confidence)
    if not is_number(threshold):
        raise InputError(f"threshold is {str(threshold)[:40]!r}; give an error in the unit of depth")
    good = absolute <= threshold
    n_good, n_bad = int(good.sum()), int((~good).sum())
    if n_good == 0 or n_bad == 0:
        return nan
    _, tie, size = np.unique(trust, return_inverse=True, return_counts=True)
    rank = (np.cumsum(size) - 0.5 * (size - 1))[tie]  # from 1, averaged within ties
    return float((rank[good].sum() - 0.5 * n_good * (n_good + 1)) / (n_good * n_bad))


def fill_background(disparity: ArrayLike) -> NDArray[np.float64]:
    """Disparity (H, W) without holes: each takes its smaller neighbour in the row, then in the column.

    The smaller disparity is the farther surface. At a border there is one neighbour; a map that is all NaN stays so.
    This is KITTI's rule for sparse results.
    """
    given = _numbers(disparity, "the disparity")
    if given.ndim != 2:
        raise ShapeError(f"the disparity is {given.shape}; give (H, W)")
    return fill_from_background(given)


def _mean_angle(estimate: NDArray[np.float64], true: NDArray[np.float64], camera: Camera) -> float:
    """Mean angle in radians where both maps have a normal."""
    n, m = normals(estimate, camera), normals(true, camera)
    both = ~np.isnan((n + m) @ np.ones(3, np.float32))
    if not both.any():
        return nan
    n, m = n[both].astype(np.float64), m[both].astype(np.float64)
    # By the half angle: arccos of the product loses half of the digits at small angles.
    half = np.arctan2(np.linalg.norm(n - m, axis=-1), np.linalg.norm(n + m, axis=-1))
    return float(np.mean(2.0 * half))


def _disparity_scores(
    estimate: NDArray[np.float64], true: NDArray[np.float64], camera: Camera | None, baseline: float | None
) -> tuple[tuple[float, ...], float]:
    """Percent beyond each threshold and the mean absolute error of the disparity, over all true pixels."""
    if baseline is None:
        return (nan,) * len(THRESHOLDS), nan
    if not isinstance(camera, Pinhole):
        raise CameraError("a baseline was given without a pinhole camera; give camera=Pinhole(...) as well")
    if not is_number(baseline) or not (isfinite(baseline) and baseline > 0):
        raise InputError(f"baseline is {str(baseline)[:40]}; give a positive length in the unit of depth")
    factor = camera.fx * baseline
    known = ~np.isnan(true)
    wanted = factor / true[known]
    found = factor / np.where(estimate > 0, estimate, np.nan)
    if wanted.max() < LARGEST_DISPARITY:
        found[found >= LARGEST_DISPARITY] = nan
    found = fill_background(found)
    if np.isnan(found).all():
        return (100.0,) * len(THRESHOLDS), nan
    error = np.abs(found[known] - wanted)
    return tuple(100.0 * float(np.mean(error > n)) for n in THRESHOLDS), float(error.mean())


def _averaged(scores: Sequence[Scores], average: Callable[[list[float]], Any]) -> Scores:
    """The average of each field."""
    if not scores:
        raise InputError("no scores to average; give at least one")
    values = {
        each.name: float(average([getattr(score, each.name) for score in scores]))
        for each in fields(Scores)
        if each.name != "outliers"
    }
    columns = zip(*(score.outliers for score in scores), strict=True)
    return Scores(outliers=tuple(float(average(list(column))) for column in columns), **values)


def _root_of_product(values: list[float]) -> float:
    return float(np.prod(np.power(values, 1.0 / len(values))))


def _known_pairs(error: ArrayLike, confidence: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Absolute errors and confidences (N,), where both are known."""
    absolute, trust = np.abs(_numbers(error, "the error")), _numbers(confidence, "the confidence")
    if absolute.shape != trust.shape:
        raise ShapeError(f"error is {absolute.shape}, confidence is {trust.shape}; give the same shape")
    both = ~(np.isnan(absolute) | np.isnan(trust))
    if not both.any():
        raise InputError("no pixel has both an error and a confidence; give maps that overlap")
    return absolute[both], trust[both]


def _numbers(given: ArrayLike, what: str) -> NDArray[np.float64]:
    """Real numbers as float64; masked entries become NaN."""
    found: NDArray[np.float64] = adopt(given, np.float64, what)
    return found


def _remaining_mean(errors_in_order_of_removal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the values that remain after removing the first 0, 1, ..., N - 1."""
    remaining = np.cumsum(errors_in_order_of_removal[::-1])[::-1]
    return np.asarray(remaining / np.arange(len(remaining), 0, -1))
