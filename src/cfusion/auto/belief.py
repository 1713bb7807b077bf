"""From evidence to a probability: how likely is a pixel right, given who supports it and who contradicts it?

    log p / (1 - p) = A + B log (S + 1/2) / (C + 1/2) + N log (1 - c) / c

S and C are the supporting and contradicting views, each counted by what its front end trusts it; c is the pooled share
of contradiction around the pixel, (C + 1/2) / (S + C + 1). Number and geometry of views come in through S and C (a view
that is hidden says nothing), and a pixel that nobody measured has S = C = 0. Beside an edge, where sensors mix what
lies on both sides, one view alone is not believed.
"""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.edges import edge_weights
from cfusion.auto.evidence import Evidence
from cfusion.auto.pooling import PASSES
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import added_up, one_pass

# Logistic regression on the design half of three data sets, each counting alike (benchmarks/trust.py); with the
# constants of any two of them the third is ranked as well.
OFFSET, OWN, AROUND = 1.4, 0.3, 1.2
RADIUS = 3  # pixels: wrong pixels come in blobs of about that size
ALONE = 0.5  # at most, beside an edge, of a pixel that one view alone supports: about half of those are wrong
FEWEST_VIEWS, CONFIRMED = 3, 1.5  # from so many views on; supporting views, below which a pixel has but one
EDGE = 6.0  # noise scales
HALF = 0.5  # Jeffreys' prior: what nobody told


def confidence(evidence: Evidence, depth: DepthMap, noise: Floats, backend: Backend) -> Floats:
    """(H, W) the probability that depth is right there, zero where it is unknown; noise (H, W) of one observation."""
    support, contradiction, measured = added_up(_counts, evidence.weights, evidence.support, evidence.contradiction)
    around = backend.pooled(_shares(support, contradiction, depth), RADIUS, PASSES)
    if len(evidence.support) < FEWEST_VIEWS:
        return _probability(support, contradiction, depth, *around)
    smooth = edge_weights(depth, np.float32(EDGE) * noise)
    beside = backend.local_depth_range(smooth, 1)
    return _unless_alone(_probability(support, contradiction, depth, *around), support, measured, smooth, beside)


@one_pass
def _shares(support: Floats, contradiction: Floats, depth: DepthMap) -> Floats:
    """(2, H, W) where depth is known, and the share of contradiction there."""
    known = ~np.isnan(depth)
    share = (contradiction + HALF) / (support + contradiction + 2 * HALF)
    out: Floats = np.stack([known, np.where(known, share, 0) * known])
    return out


@one_pass
def _probability(support: Floats, contradiction: Floats, depth: DepthMap, mass: Floats, heaped: Floats) -> Floats:
    """(H, W) by the formula above."""
    around = np.clip(np.maximum(heaped, 0) / np.maximum(mass, 1e-9), 1e-6, 1 - 1e-6)
    own = np.log((support + HALF) / (contradiction + HALF))
    odds = OFFSET + OWN * own + AROUND * np.log((1 - around) / around)
    out: Floats = np.where(~np.isnan(depth), 1 / (1 + np.exp(-odds)), 0).astype(np.float32)
    return out


@one_pass
def _unless_alone(probability: Floats, support: Floats, measured: Floats, smooth: Floats, beside: Floats) -> Floats:
    """(H, W) less where one view alone supports what it measured, and a step to a pixel beside is an edge.

    What nobody measured was interpolated within one surface.
    """
    edge = (smooth < HALF) | (beside > HALF)
    alone = (measured > 0) & (support < CONFIRMED) & edge
    return np.where(alone, np.minimum(probability, np.float32(ALONE)), probability)


def _counts(weights: Floats, support: Mask, contradiction: Mask) -> tuple[Floats, Floats, Floats]:
    """(K, H, W) supporting and contradicting views, by what the front end trusts them, and those that measured."""
    return weights * support, weights * contradiction, (weights > 0).astype(np.float32)
