"""From evidence to a probability: how likely is a pixel right, given who supports it and who contradicts it?

    log p / (1 - p) = A + B log (S + 1/2) / (C + 1/2) + N log (1 - c) / c - E [edge] - F log max(1, v)

S and C are the supporting and contradicting views, each counted by what its front end trusts it; c is the pooled share
of contradiction around the pixel, (C + 1/2) / (S + C + 1). Number and geometry of views come in through S and C (a view
that is hidden says nothing), and a pixel that nobody measured has S = C = 0. Beside an edge a map that is a pixel out
of place shows the other surface, and views of one sensor are so together; one view alone is not believed there. v is
how far fits on halves of the observations are apart, times what is usual.
"""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap, chunks
from cfusion.auto.edges import edge_weights
from cfusion.auto.evidence import Evidence
from cfusion.auto.pooling import pooled_mean
from cfusion.kernels.contract import Backend, Floats, Mask

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
    support, contradiction = counted(evidence)
    known = ~np.isnan(depth)
    share = (contradiction + HALF) / (support + contradiction + 2 * HALF)
    around = np.clip(pooled_mean(share, known, RADIUS, backend), 1e-6, 1 - 1e-6)
    own = np.log((support + HALF) / (contradiction + HALF))
    edge = _beside_an_edge(depth, noise, backend)
    odds = OFFSET + OWN * own + AROUND * np.log((1 - around) / around) - BESIDE_EDGE * edge
    (usual,), (told,) = backend.medians(np.where(known, apart, np.nan).astype(np.float32)[None])
    if told and usual > 0:
        odds = odds - APART * np.log(np.maximum(np.nan_to_num(apart) / usual, 1))
    out: Floats = np.where(known, 1 / (1 + np.exp(-odds)), 0).astype(np.float32)
    if len(evidence.support) >= FEWEST_VIEWS:
        measured = (evidence.weights > 0).any(axis=0)  # what nobody measured was interpolated within one surface
        alone = measured & (support < CONFIRMED) & edge
        out = np.where(alone, np.minimum(out, np.float32(ALONE)), out)
    return out


def _beside_an_edge(depth: DepthMap, noise: Floats, backend: Backend) -> Mask:
    """(H, W) within REACH pixels of a step that exceeds the slope around it by EDGE noise scales."""
    smooth = edge_weights(depth, np.float32(EDGE) * noise)
    out: Mask = (smooth < HALF) | (backend.local_depth_range(smooth, REACH) > HALF)
    return out


def counted(evidence: Evidence) -> tuple[Floats, Floats]:
    """(H, W) each: supporting and contradicting views, by what the front end trusts them."""
    support, contradiction = np.zeros_like(evidence.residual[0]), np.zeros_like(evidence.residual[0])
    parts = (chunks(each) for each in (evidence.weights, evidence.support, evidence.contradiction))
    for weight, for_it, against in zip(*parts, strict=True):
        support += (weight * for_it).sum(axis=0)
        contradiction += (weight * against).sum(axis=0)
    return support, contradiction
