"""Confidence is a probability: it falls with every cue, and is right about how often it is right."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion.errors import InputError
from cfusion.frontends.cues import NAMES, pair_cues
from cfusion.frontends.refine import bilateral_filtered, median_filtered
from cfusion.frontends.trust import ELAS_TRUST, MAP_TRUST, MC_CNN_TRUST, SGM_TRUST

TRUSTS = (SGM_TRUST, ELAS_TRUST, MC_CNN_TRUST, MAP_TRUST)
PLANE = np.tile(np.linspace(5, 15, 60, dtype=np.float32), (60, 1))
INNER = (slice(12, -12), slice(12, -12))


def textured() -> np.ndarray:
    return np.random.default_rng(1).random(PLANE.shape).astype(np.float32)


def cue(name: str, disparity: np.ndarray, apart: np.ndarray | None = None, image: np.ndarray | None = None) -> float:
    off = np.zeros_like(PLANE) if apart is None else apart
    cues = pair_cues(disparity, off, textured() if image is None else image)
    return float(cues[NAMES.index(name)][INNER].mean())


def test_each_cue_sees_its_own_fault() -> None:
    rng = np.random.default_rng(0)
    assert cue("apart", PLANE, np.full_like(PLANE, 0.5)) == pytest.approx(0.5)
    sparse = np.where(rng.random(PLANE.shape) < 0.5, PLANE, np.float32(np.nan))
    assert cue("lonely", PLANE) < 0.01 < 0.4 < cue("lonely", sparse)
    assert cue("rough", PLANE) < 0.01 < 0.3 < cue("rough", PLANE + rng.normal(0, 1, PLANE.shape).astype(np.float32))
    step = np.where(np.arange(60) < 30, 5, 25).astype(np.float32) * np.ones((60, 1), np.float32)
    cues = pair_cues(step, np.zeros_like(step), textured())
    front, behind = (cues[NAMES.index(name)][30] for name in ("front", "behind"))
    assert front[30:33].min() > 0.8 > 0.01 > max(front[:30].max(), front[38:].max())  # the near side of the jump
    assert behind[27:30].min() > 0.8 > 0.01 > max(behind[30:].max(), behind[:22].max())
    assert cue("flat", PLANE, image=np.full_like(PLANE, 0.5)) > 0.99 > 0.3 > cue("flat", PLANE)


@pytest.mark.parametrize("trust", TRUSTS)
def test_confidence_falls_with_every_cue_and_sigma_grows(trust) -> None:  # type: ignore[no-untyped-def]
    count = len(trust.weights)
    known = np.ones((2, 2), np.bool_)
    none = np.zeros((count, 2, 2), np.float32)
    best = trust.confidence(none, known)
    assert best.min() > 0.99
    assert trust.sigma(none, best).max() < 0.5  # pixels
    np.testing.assert_allclose(trust.weight(none, best), best, rtol=1e-6)
    for k in range(count):
        cues = np.zeros((count, 2, 2), np.float32)
        cues[k] = 1
        worse = trust.confidence(cues, known)
        assert (worse <= best).all()
        assert (trust.sigma(cues, worse) >= trust.sigma(none, best)).all()
        assert (trust.weight(cues, worse) <= trust.weight(none, best)).all()
    nothing = trust.confidence(np.ones((count, 2, 2), np.float32), ~known)
    assert (nothing == 0).all()
    assert np.isnan(trust.sigma(none, nothing)).all()
    assert (trust.weight(none, nothing) == 0).all()


def test_every_matcher_states_its_systematic_error() -> None:
    for trust in TRUSTS:
        assert trust.weights[NAMES.index("front")] > 1  # fattened edges
        assert 0.1 < trust.systematic < 1
    with pytest.raises(InputError, match="and systematic in"):
        replace(SGM_TRUST, systematic=1.5)


def test_filters_keep_edges_and_holes() -> None:
    step = np.where(np.arange(20) < 10, 5, 25).astype(np.float32) * np.ones((20, 1), np.float32)
    noisy = step + np.random.default_rng(2).normal(0, 0.1, step.shape).astype(np.float32)
    holed = noisy.copy()
    holed[5, 5] = np.nan
    median = median_filtered(holed, np.nan_to_num(holed, nan=5.0))
    smooth = bilateral_filtered(median, 2, 1.5, 0.5)
    assert np.isnan(smooth[5, 5])
    known = np.isfinite(smooth)
    assert np.abs(smooth - step)[known].mean() < 0.5 * np.abs(noisy - step)[known].mean()


def test_maps_of_another_matcher_are_trusted_as_sgms_but_for_the_check_they_lack() -> None:
    assert (MAP_TRUST.weights[0], MAP_TRUST.blur[0]) == (0, 0)
    again = {name: (getattr(SGM_TRUST, name)[0], *getattr(MAP_TRUST, name)[1:]) for name in ("weights", "blur")}
    assert replace(MAP_TRUST, **again) == SGM_TRUST


def test_a_pixel_of_roughness_counts_one_half() -> None:
    """Alternating by half a pixel, second differences along rows are one, along columns zero: 2 (1 + 0) / 2 = 1."""
    disparity = np.tile(np.array([10, 10.5], np.float32), (40, 20))
    found = pair_cues(disparity, np.zeros_like(disparity), textured()[:40, :40])[NAMES.index("rough")]
    np.testing.assert_allclose(found[10:-10, 10:-10], 0.5, atol=1e-3)
