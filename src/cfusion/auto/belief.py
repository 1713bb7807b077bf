"""From evidence to a probability: how likely is a pixel right, given who supports it and who contradicts it?

    log p / (1 - p) = A + B log (S + 1/2) / (C + 1/2) + N log (1 - c) / c - E [edge] - G log max(1, b) - F log max(1, v)

S and C are the supporting and contradicting views, each counted by what its front end trusts it; c is the pooled share
of contradiction around the pixel, (C + 1/2) / (S + C + 1). Number and geometry of views come in through S and C (a view
that is hidden says nothing), and a pixel that nobody measured has S = C = 0. Beside an edge, a step of the surface or
the end of what is known, a map that is a pixel out of place shows the other surface, and views of one sensor are so
together: that counts from three views on, and so does b, by how many noise scales the pixel is out of line with its
neighbours; one view alone is not believed beside a step. v is how far fits on halves of the observations are apart,
relative to the depth (of a perspective camera), times what is usual.
"""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.edges import edge_weights
from cfusion.auto.evidence import Evidence
from cfusion.auto.pooling import PASSES, ratio
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import added_up, one_pass
from cfusion.kernels.tracing import neighbour

# Near a logistic regression on the design half of 7-Scenes, toy cars, KITTI and meshes, each counting alike; with the
# constants of any three of them the fourth is ranked as well. The offset leaves as much above 0.8 on real data as
# there was before bends counted.
OFFSET, OWN, AROUND, BESIDE_EDGE, BENT, APART = 2.7, 0.5, 1.1, 1.0, 0.5, 1.0
RADIUS = 3  # pixels: wrong pixels come in blobs of about that size
ALONE = 0.5  # at most, beside a step, of a pixel that one view alone supports: about half of those are wrong
FEWEST_VIEWS, CONFIRMED = 3, 1.5  # from so many views on; supporting views, below which a pixel has but one
EDGE, REACH = 6.0, 2  # noise scales of a step, and pixels from it
MOST_BENT = 20.0  # noise scales: maps without noise are not bent beyond belief
HALF = 0.5  # Jeffreys' prior: what nobody told


def confidence(evidence: Evidence, depth: DepthMap, noise: Floats, apart: Floats, backend: Backend) -> Floats:
    """(H, W) the probability that depth is right there, zero where it is unknown.

    noise (H, W) is that of one observation; apart (H, W) by how much fits on halves differ, NaN where nothing tells.
    """
    support, contradiction, measured = added_up(_counts, evidence.weights, evidence.support, evidence.contradiction)
    mass, heaped = backend.pooled(_shares(support, contradiction, depth), RADIUS, PASSES)
    step = _beside_a_step(depth, noise, backend)
    edge = _or_an_end(step, backend.local_depth_range(_shown(depth), REACH))
    (usual,), (told,) = backend.medians(_known(depth, apart)[None])
    told, many = bool(told and usual > 0), len(evidence.support) >= FEWEST_VIEWS
    bend = out_of_line(depth, noise)
    out = _probability(support, contradiction, depth, mass, heaped, edge, bend, apart, usual, told=told, many=many)
    return _unless_alone(out, support, measured, step) if many else out


def _beside_a_step(depth: DepthMap, noise: Floats, backend: Backend) -> Mask:
    """(H, W) within REACH pixels of a step that exceeds the slope around it by EDGE noise scales."""
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
def _shown(depth: DepthMap) -> Floats:
    """(H, W) 1 where depth is known, and 0 elsewhere."""
    out: Floats = (~np.isnan(depth)).astype(np.float32)
    return out


@one_pass
def _or_an_end(step: Mask, around: Floats) -> Mask:
    """(H, W) beside a step, or where known and unknown pixels are around; the image's border is no end of a surface."""
    out: Mask = step | (around > HALF)
    return out


@one_pass
def out_of_line(depth: DepthMap, noise: Floats) -> Floats:
    """(H, W) noise scales by which a pixel is out of line with its neighbours: |second differences| in four directions.

    Beside an unknown pixel that direction says nothing.
    """
    total = np.float32(0)
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        one, other = (neighbour(depth, sign * down, sign * right, np.nan) for sign in (1, -1))
        total = total + np.square(np.nan_to_num((one - depth) + (other - depth)))
    out: Floats = (np.sqrt(total) / noise).astype(np.float32)
    return out


@one_pass
def _known(depth: DepthMap, apart: Floats) -> Floats:
    out: Floats = np.where(~np.isnan(depth), apart, np.nan).astype(np.float32)
    return out


@one_pass
def _shares(support: Floats, contradiction: Floats, depth: DepthMap) -> Floats:
    """(2, H, W) where depth is known, and the share of contradiction there."""
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
    edge: Mask,
    bend: Floats,
    apart: Floats,
    usual: float,
    *,
    told: bool,
    many: bool,
) -> Floats:
    """(H, W) by the formula above; one or two maps are not known to be out of place."""
    around = np.clip(ratio(mass, heaped), 1e-6, 1 - 1e-6)
    own = np.log((support + HALF) / (contradiction + HALF))
    odds = OFFSET + OWN * own + AROUND * np.log((1 - around) / around)
    if many:
        odds = odds - BESIDE_EDGE * edge - BENT * np.log(np.clip(np.nan_to_num(bend), 1, MOST_BENT))
    if told:
        odds = odds - APART * np.log(np.maximum(np.nan_to_num(apart) / usual, 1))
    out: Floats = np.where(~np.isnan(depth), 1 / (1 + np.exp(-odds)), 0).astype(np.float32)
    return out


@one_pass
def _unless_alone(probability: Floats, support: Floats, measured: Floats, step: Mask) -> Floats:
    """(H, W) less where one view alone supports what it measured beside a step.

    What nobody measured was interpolated within one surface.
    """
    alone = (measured > 0) & (support < CONFIRMED) & step
    return np.where(alone, np.minimum(probability, np.float32(ALONE)), probability)


def _counts(weights: Floats, support: Mask, contradiction: Mask) -> tuple[Floats, Floats, Floats]:
    """(K, H, W) supporting and contradicting views, by what the front end trusts them, and those that measured."""
    return weights * support, weights * contradiction, (weights > 0).astype(np.float32)
