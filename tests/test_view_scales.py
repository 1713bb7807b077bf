"""How noisy each view is, told from how much views differ from one another."""

import numpy as np
import pytest

from cfusion import kernels
from cfusion.auto import noise
from cfusion.kernels.depth_noise import CONSTANT, DepthNoise

REFERENCE = kernels.load("numpy")
SURFACE = np.full((80, 100), 3.0, np.float32)


def views(scales, seed=0):
    """Maps of a plane with Gaussian noise of these scales, and their weights."""
    noise = np.random.default_rng(seed).normal(0, 1, (len(scales), *SURFACE.shape))
    depths = (SURFACE + np.array(scales)[:, None, None] * noise).astype(np.float32)
    return depths, np.ones_like(depths)


def found(depths, weights, growth=CONSTANT):
    return noise.view_scales(weights, depths, SURFACE, growth, REFERENCE)


@pytest.mark.parametrize("scales", [(0.1, 0.1, 0.1), (0.05, 0.1, 0.2, 0.4), (0.1,) * 6 + (1.0,)], ids=str)
def test_scales_are_found(scales):
    ours = found(*views(scales))
    usual = ours / np.median(ours) * np.median(scales)
    np.testing.assert_allclose(usual, scales, rtol=0.2)


def test_a_view_far_quieter_than_the_others_is_found_to_be():
    """Its square is nearly zero, within the error of the distances on either side."""
    for seed in range(3):
        ours = found(*views((0.1, 0.1, 0.005, 0.1, 0.1), seed))
        assert ours[2] < 0.3 * np.delete(ours, 2).min()


def test_a_view_between_biased_ones_is_as_noisy_as_the_nearest_pair_says():
    """Of offsets 0, 1 and 3 distances add up, squares do not: half of the least square is left to the one between."""
    depths, weights = views((0.01, 0.01, 0.01))
    scales = found(depths + np.float32([0, 1, 3])[:, None, None], weights)
    assert scales[1] == pytest.approx(np.sqrt(1 / 2), rel=0.01)
    assert scales[1] < scales[0] < scales[2]


def test_pairs_may_be_looked_at_a_few_at_a_time(monkeypatch):
    given = views((0.1, 0.2, 0.1, 0.3, 0.1))
    whole = found(*given)
    monkeypatch.setattr(noise, "PAIRS_AT_ONCE", 3)
    assert np.array_equal(found(*given), whole)


def test_views_that_are_the_same_tell_nothing_about_one_another():
    depths, _ = views((0.1, 0.1, 0.1, 0.1))
    again = np.concatenate([depths, depths[:2]])
    ours = found(again, np.ones_like(again))
    np.testing.assert_allclose(ours[4:], ours[:2], rtol=1e-6)
    np.testing.assert_allclose(ours, np.median(ours), rtol=0.2)
    pair = np.concatenate([depths[:2], depths[:1]])  # two maps, one of them twice
    assert found(pair, np.ones_like(pair)) is None


def test_too_little_in_common_says_nothing():
    depths, weights = views((0.1, 0.1, 0.1))
    weights[0, :, 1:] = weights[0, 40:] = 0
    assert found(depths, weights) is None
    assert found(np.stack([SURFACE] * 3), np.ones((3, *SURFACE.shape), np.float32)) is None
    assert found(*views((0.1, 0.1))) is None


def test_units_of_noise_cancel():
    depths, weights = views((0.1, 0.2, 0.3))
    grown = found(depths, weights, DepthNoise(1.5, 2))  # the surface at twice the middle depth: four times the noise
    np.testing.assert_allclose(4 * grown, found(depths, weights), rtol=1e-5)


def test_a_view_between_two_biased_ones_is_no_better_than_its_neighbours():
    """d_ac = d_ab + d_bc: the sum of two squares would make b's noise imaginary, and its weight the largest."""
    depths, weights = views((0.01, 0.01, 0.01))
    depths += np.array([-0.1, 0.0, 0.1], np.float32)[:, None, None]
    ours = found(depths, weights)
    assert ours.max() < 2.1 * ours.min()
    depths[1] += 0.08  # b and c agree, a is off
    ours = found(depths, weights)
    assert ours[0] > 3 * ours[1:].max()
    assert ours[1:].max() < 2.1 * ours[1:].min()


def test_quantised_views_that_are_mostly_equal_are_alike():
    """Of a wall in steps of a sensor most pairs differ by nothing: not an error, and no weights."""
    depths, weights = views((0.004,) * 5)
    depths = (np.rint(depths / 0.05) * 0.05).astype(np.float32)
    depths[4] += 0.05
    depths[3, :, :60] += 0.05
    ours = found(depths, weights)
    assert ours is None or np.isfinite(ours).all()
