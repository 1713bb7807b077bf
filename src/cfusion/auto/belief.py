"""The probability that a pixel is right, from the views that support and contradict it.

    log p / (1 - p) = A + B log (S + 1/2) / (C + 1/2) + N log (1 - c) / c
                      - E [edge] - Z log max(1, z) - log max(1, u) - G log max(1, b) - F log v

S and C are the numbers of supporting and contradicting views, each weighted by its front end's confidence; c is the
share of contradiction pooled around the pixel, (C + 1/2) / (S + C + 1). Number and geometry of views enter through S
and C (a view from which the point is hidden counts for neither), and for a pixel that no view measured S = C = 0.
Beside an edge (a step of the surface, also across a hole that stays open, or the end of its known part) a map misplaced
by a pixel shows the other surface, and views of one sensor err alike: this term counts from two views on. So does b,
the deviation of the pixel from its neighbours in noise scales, and, where the reference's outlines are misplaced, z,
the range of depths within two pixels over the least range of a step: by that much a misplaced pixel is off. Where no
step is seen, noise may hide one: u is the range of depths within two pixels, beyond that of the plane with the range
within eight, over 3 % of the depth (of a perspective camera). Where there are three or more views, one alone is not
believed beside a step. Where the reference's outlines are exact, what it measured is believed alone and b does not
count, but for odd pixels, which fewer than four of their eight neighbours are near. A thin thing that the reference
measured in front of the surface, like two of its neighbours, may be there though others see past it: not believed. What
no view measured was interpolated: views that miss a surface by chance leave few such holes, and more are gaps. v is the
error bar of the surface found, relative to the depth (of a perspective camera), over its median, from 0.3 to 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cfusion.arrays import SMALL, DepthMap
from cfusion.auto.edges import edge_weights
from cfusion.auto.evidence import Evidence
from cfusion.auto.outlines import wide_parts
from cfusion.auto.pooling import PASSES, ratio
from cfusion.auto.small_parts import in_front_of_all
from cfusion.auto.surface import alike_around, shown, where_known
from cfusion.auto.uncertainty import relief_beyond_slope
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import added_up, one_pass
from cfusion.kernels.tracing import last_place, neighbour, row_and_column

# Close to a logistic regression on the design half of 7-Scenes, toy cars, KITTI and meshes, with equal weights. The
# offset leaves a pixel that eleven views contradict and none supports below 0.1.
OFFSET, OWN, AROUND, BESIDE_EDGE, BENT, UNSURE = 3.1, 0.5, 1.2, 1.2, 0.6, 1.2
STEP_SIZE, LARGEST = 0.4, 20.0  # Z, and a limit of z and u: larger steps are as likely misplaced
LEAST_RELIEF, FURTHER = 0.03, 4  # of the depth; times the pixels within which a plane has so many times the range
UNSURE_RANGE = 0.3, 4.0  # of the usual error bar: beyond, pixels are as likely right
RADIUS = 3  # pixels: typical size of connected wrong pixels
ALONE = 0.5  # largest probability beside a step with one supporting view: about half of those pixels are wrong
FEWEST_VIEWS, MORE = 2, 3  # views from which edges count, and from which one view alone is not believed there
CONFIRMED = 1.5  # supporting views below which a pixel has but one
EDGE, REACH = 6.0, 2  # noise scales of a step, and pixels from it
MOST_BENT = 20.0  # noise scales: limit for maps without noise
HALF = 0.5  # Jeffreys' prior
FEWEST_ALIKE = 4  # of eight neighbours: fewer are no surface, but a spot of the outliers of one view


def confidence(
    evidence: Evidence,
    depth: DepthMap,
    noise: Floats,
    unsure: Floats,
    backend: Backend,
    outlines_of: int | None = None,
    *,
    misplaced: bool = False,
    own: DepthMap | None = None,
    perspective: bool = True,
) -> Floats:
    """The probability (H, W) that depth is right, zero where it is unknown.

    noise (H, W) is that of one observation; unsure (H, W) the error bar as far as it counts, NaN if there is none.
    `outlines_of` is a view whose outlines are exact; `misplaced` says that those of the reference are not. `own` (H, W)
    is what the reference itself measured. `perspective` is whether depths are those of a perspective camera.
    """
    support, contradiction, measured = added_up(_counts, evidence.weights, evidence.support, evidence.contradiction)
    mass, heaped = backend.pooled(_shares(support, contradiction, depth), RADIUS, PASSES)
    step = _beside_a_step(depth, noise, backend)
    end = backend.local_depth_range(shown(depth), REACH)
    step = _or_across_a_hole(step, end, relief_beyond_slope(depth, backend), noise)
    edge = _or_an_end(step, end)
    (usual,), (told,) = backend.medians(where_known(depth, unsure)[None])
    told, many = bool(told and usual > 0), len(evidence.support) >= FEWEST_VIEWS
    bend = out_of_line(depth, noise)
    whole = backend.arrays.ascontiguousarray(depth)
    around, hidden = backend.local_depth_range(whole, REACH) if many else noise, None
    if many and perspective:
        hidden = _hidden(step, around, backend.local_depth_range(whole, FURTHER * REACH), depth)
    if many and outlines_of is not None:
        outlined = evidence.support[outlines_of], evidence.weights[outlines_of]
        step, bend = _unless_outlined(depth, noise, *outlined, step, bend)
    edge = _against(edge, step, around if many and misplaced else noise, noise, hidden)
    out = _probability(support, contradiction, depth, mass, heaped, edge, bend, unsure, usual, told=told, many=many)
    if own is not None:
        front = _in_front(own, depth, noise)
        out = _unless_in_front(out, front, wide_parts(front, backend))
    return _unless_alone(out, support, measured, step) if len(evidence.support) >= MORE else out


def _beside_a_step(depth: DepthMap, noise: Floats, backend: Backend) -> Mask:
    """Pixels (H, W) within REACH of a step that exceeds the slope around it by EDGE noise scales."""
    smooth = _smooth(depth, noise)
    return _unlike(smooth, backend.local_depth_range(smooth, REACH))


@one_pass
def _smooth(depth: DepthMap, noise: Floats) -> Floats:
    return edge_weights(depth, np.float32(EDGE) * noise)


@one_pass
def _unlike(smooth: Floats, around: Floats) -> Mask:
    out: Mask = (smooth < HALF) | (around > HALF)
    return out


@one_pass
def _or_an_end(step: Mask, around: Floats) -> Mask:
    """Pixels (H, W) beside a step, or with known and unknown pixels around; the image's border does not count."""
    out: Mask = step | (around > HALF)
    return out


@one_pass
def _or_across_a_hole(step: Mask, around: Floats, relief: Floats, noise: Floats) -> Mask:
    """Pixels (H, W) beside a step, or at the end of a known part that another surface begins beyond."""
    out: Mask = step | ((around > HALF) & (relief > np.float32(EDGE) * noise))
    return out


@one_pass
def _hidden(step: Mask, around: Floats, further: Floats, depth: DepthMap) -> Floats:
    """What steps that noise may hide (H, W) take from the odds, where none is seen.

    `around` and `further` are ranges of depths, the latter within FURTHER times as many pixels.
    """
    around, further = (np.where(np.isfinite(each), each, np.float32(0)) for each in (around, further))
    times = _times_of_a_plane(depth)
    beyond = (times * around - further) / np.maximum(times - np.float32(1), np.float32(SMALL))
    ahead = np.where(depth > np.float32(SMALL), depth, np.float32(np.inf))  # registered maps may be of any sign
    out: Floats = np.where(step, np.float32(0), _log_times(beyond, np.float32(LEAST_RELIEF) * ahead))
    return out


def _times_of_a_plane(depth: DepthMap) -> Floats:
    """How many times the range within REACH a plane has within FURTHER times that, at least: beside the border fewer.

    One where the border ends both.
    """
    times: Any = np.float32(FURTHER)
    for place, last in zip(row_and_column(depth), last_place(depth), strict=True):
        at = place.astype(np.int32)
        near, far = (
            (np.minimum(at + each, last) - np.maximum(at - each, 0)).astype(np.float32)
            for each in (REACH, FURTHER * REACH)
        )
        times = np.minimum(times, np.where(near > 0, far / np.maximum(near, np.float32(1)), np.float32(FURTHER)))
    out: Floats = times
    return out


@one_pass
def _against(edge: Mask, step: Mask, size: Floats, noise: Floats, hidden: Floats | None) -> Floats:
    """What edges, the sizes of steps, and hidden steps (H, W) take from the odds."""
    larger = _log_times(size, np.float32(EDGE) * noise)
    out: Floats = BESIDE_EDGE * edge + np.where(step, STEP_SIZE * larger, np.float32(0))
    return out if hidden is None else out + hidden


def _log_times(size: Floats, least: Floats) -> Floats:
    """log max(1, size / least), at most that of LARGEST."""
    out: Floats = np.log(np.clip(size / least, np.float32(1), np.float32(LARGEST)))
    return out


@one_pass
def out_of_line(depth: DepthMap, noise: Floats) -> Floats:
    """Deviation (H, W) of a pixel from its neighbours in noise scales: |second differences| in four directions.

    A direction with an unknown neighbour does not count.
    """
    total = np.float32(0)
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        one, other = (neighbour(depth, sign * down, sign * right, np.nan) for sign in (1, -1))
        total = total + np.square(np.nan_to_num((one - depth) + (other - depth)))
    out: Floats = (np.sqrt(total) / noise).astype(np.float32)
    return out


@one_pass
def _unless_outlined(
    depth: DepthMap, noise: Floats, support: Mask, weight: Floats, step: Mask, bend: Floats
) -> tuple[Mask, Floats]:
    """Steps and bends (H, W), but where a view with exact outlines, of usual weight, supports a pixel of a surface."""
    odd = alike_around(depth, np.float32(EDGE) * noise) < FEWEST_ALIKE
    out = ~support | (weight < HALF) | odd
    return step & out, np.where(out, bend, np.float32(0))


@one_pass
def _in_front(own: DepthMap, depth: DepthMap, noise: Floats) -> Mask:
    """Pixels (H, W) where a map is in front of all of a surface within a pixel, as are two neighbours like it."""
    limit = np.float32(EDGE) * noise
    return in_front_of_all(depth, own, limit, limit)


@one_pass
def _unless_in_front(probability: Floats, front: Mask, wide: Floats) -> Floats:
    """The probability (H, W), limited at thin things in front of the surface; wide ones are what moved, or outliers."""
    return np.where(front & (wide < 0.5), np.minimum(probability, np.float32(ALONE)), probability)


@one_pass
def _shares(support: Floats, contradiction: Floats, depth: DepthMap) -> Floats:
    """(2, H, W): where depth is known, and the share of contradiction there."""
    known = ~np.isnan(depth)
    share = (contradiction + HALF) / (support + contradiction + 2 * HALF)
    out: Floats = np.stack([known, np.where(known, share, 0) * known])
    return out


@one_pass
def _probability(
    support: Floats,
    contradiction: Floats,
    depth: DepthMap,
    mass: Floats,
    heaped: Floats,
    edge: Floats,
    bend: Floats,
    unsure: Floats,
    usual: float,
    *,
    told: bool,
    many: bool,
) -> Floats:
    """The probability (H, W) by the formula above; with one map, misplacement is not considered."""
    around = np.clip(ratio(mass, heaped), 1e-6, 1 - 1e-6)
    own = np.log((support + HALF) / (contradiction + HALF))
    odds = OFFSET + OWN * own + AROUND * np.log((1 - around) / around)
    if many:
        odds = odds - edge - BENT * np.log(np.clip(np.nan_to_num(bend), 1, MOST_BENT))
    if told:
        unsure = np.where(np.isnan(unsure), usual, unsure)
        odds = odds - UNSURE * np.log(np.clip(unsure / usual, *UNSURE_RANGE))
    out: Floats = np.where(~np.isnan(depth), 1 / (1 + np.exp(-odds)), 0).astype(np.float32)
    return out


def unless_gaps(probability: Floats, support: Mask, measured: Mask, *, apart: Callable[[], bool]) -> Floats:
    """The probability (H, W), where depth was interpolated times the share of holes that are no gaps of the surface.

    `measured` (H, W) is what was not interpolated. Few pixels of a surface are supported by few views: where more were
    interpolated than measured with so many, the others are gaps. Views that are not `apart` miss the same again.
    """
    views = len(support)
    seen, kind = _sights(probability, added_up(_seen, support)[0], measured, views + 1)
    holes, others, _ = np.bincount(kind.ravel(), minlength=3 * (views + 1)).reshape(3, -1).tolist()
    shares = shares_of_surface(holes, others)
    if min(shares) == 1 or not apart():
        return probability
    by_sight = np.asarray(shares, np.float32, like=probability)
    out: Floats = _in_holes(probability, measured, by_sight[seen])
    return out


def shares_of_surface(holes: Sequence[int], measured: Sequence[int]) -> list[float]:
    """The share that is surface of interpolated pixels that 0, 1, 2, ... views support, as many as of measured ones.

    Of a surface that views miss by chance at least f_1^2 / 2 f_2 pixels are seen by none (Chao 1984), if f_1 are seen
    once and f_2 twice.
    """
    _, once, twice, *_ = measured
    expected = [once * (once - 1) / (2 * (twice + 1)), *measured[1:]]
    return [min(1.0, (usual + HALF) / (hole + HALF)) for usual, hole in zip(expected, holes, strict=True)]


def _seen(support: Mask) -> tuple[Floats]:
    return (support.astype(np.float32),)


@one_pass
def _sights(probability: Floats, seen: Floats, measured: Mask, counts: int) -> tuple[Any, Any]:
    """How many views support a pixel (H, W); and that number plus `counts` if it was measured, twice if unknown."""
    number = seen.astype(np.int32)
    return number, number + np.where(probability > 0, np.where(measured, counts, 0), 2 * counts).astype(np.int32)


@one_pass
def _in_holes(probability: Floats, measured: Mask, share: Floats) -> Floats:
    out: Floats = np.where(measured, probability, probability * share)
    return out


@one_pass
def _unless_alone(probability: Floats, support: Floats, measured: Floats, step: Mask) -> Floats:
    """The probability (H, W), limited beside a step where one view alone supports its own measurement.

    Pixels that no view measured were interpolated within one surface, and are not limited.
    """
    alone = (measured > 0) & (support < CONFIRMED) & step
    return np.where(alone, np.minimum(probability, np.float32(ALONE)), probability)


def _counts(weights: Floats, support: Mask, contradiction: Mask) -> tuple[Floats, Floats, Floats]:
    """(K, H, W) each: support and contradiction, weighted by the front end's confidence; views that measured."""
    return weights * support, weights * contradiction, (weights > 0).astype(np.float32)
