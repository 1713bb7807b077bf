"""From evidence to a probability: how likely is a pixel right, given who supports it and who contradicts it?

    log p / (1 - p) = A + B log (S + 1/2) / (C + 1/2) + N log (1 - c) / c - E [edge] - F log max(1, v)

S and C are the supporting and contradicting views, each counted by what its front end trusts it; c is the pooled share
of contradiction around the pixel, (C + 1/2) / (S + C + 1). Number and geometry of views come in through S and C (a view
that is hidden says nothing), and a pixel that nobody measured has S = C = 0. Beside an edge a map that is a pixel out
of place shows the other surface, and views of one sensor are so together: that counts from three views on, where one
view alone is not believed. v is how far fits on halves of the observations are apart, times what is usual.
"""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.edges import edge_weights
from cfusion.auto.evidence import Evidence
from cfusion.auto.pooling import PASSES, ratio
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import added_up, one_pass

# Near a logistic regression on the design half of five data sets, each counting alike (benchmarks/trust.py); with the
# constants of any four of them the fifth is ranked as well.
OFFSET, OWN, AROUND, BESIDE_EDGE, APART = 1.9, 0.4, 1.0, 1.5, 0.5
RADIUS = 3  # pixels: wrong pixels come in blobs of about that size
ALONE = 0.5  # at most, beside an edge, of a pixel that one view alone supports: about half of those are wrong
FEWEST_VIEWS, CONFIRMED = 3, 1.5  # from so many views on; supporting views, below which a pixel has but one
EDGE, REACH = 6.0, 2  # noise scales of a step, and pixels from it
HALF = 0.5  # Jeffreys' prior: what nobody told


def confidence(evidence: Evidence, depth: DepthMap, noise: Floats, apart: Floats, backend: Backend) -> Floats:
    """(H, W) the probability that depth is right there, zero where it is unknown.

    noise (H, W) is that of one observation; apart (H, W) by how much fits on halves differ, NaN where nothing tells.
    """
    support, contradiction, measured = added_up(_counts, evidence.weights, evidence.support, evidence.contradiction)
    mass, heaped = backend.pooled(_shares(support, contradiction, depth), RADIUS, PASSES)
    edge = _beside_an_edge(depth, noise, backend)
    (usual,), (told,) = backend.medians(_known(depth, apart)[None])
    told, many = bool(told and usual > 0), len(evidence.support) >= FEWEST_VIEWS
    out = _probability(support, contradiction, depth, mass, heaped, edge, apart, usual, told=told, many=many)
    return _unless_alone(out, support, measured, edge) if many else out


def _beside_an_edge(depth: DepthMap, noise: Floats, backend: Backend) -> Mask:
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
        odds = odds - BESIDE_EDGE * edge
    if told:
        odds = odds - APART * np.log(np.maximum(np.nan_to_num(apart) / usual, 1))
    out: Floats = np.where(~np.isnan(depth), 1 / (1 + np.exp(-odds)), 0).astype(np.float32)
    return out


@one_pass
def _unless_alone(probability: Floats, support: Floats, measured: Floats, edge: Mask) -> Floats:
    """(H, W) less where one view alone supports what it measured beside an edge.

    What nobody measured was interpolated within one surface.
    """
    alone = (measured > 0) & (support < CONFIRMED) & edge
    return np.where(alone, np.minimum(probability, np.float32(ALONE)), probability)


def _counts(weights: Floats, support: Mask, contradiction: Mask) -> tuple[Floats, Floats, Floats]:
    """(K, H, W) supporting and contradicting views, by what the front end trusts them, and those that measured."""
    return weights * support, weights * contradiction, (weights > 0).astype(np.float32)
