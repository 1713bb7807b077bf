"""Motions of views: what is told about them is what their poses do."""

import numpy as np
import pytest

from cfusion.source import Motions

NUMBERS = np.array(
    [[0.0] * 7, [0.01, -0.02, 0.02, 0.1, -0.2, 0.3, 0.02], [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0], [0.03] + [0.0] * 6]
)
MOTIONS = Motions(NUMBERS, 4.0)


def test_who_moves():
    assert MOTIONS.any()
    still = Motions.none(3)
    assert not still.any()
    assert len(still.poses) == 3
    points = np.random.default_rng(0).normal(size=(5, 3))
    assert all(np.array_equal(pose.apply(points), points) for pose in still.poses)
    assert all(still.degrees(k) == still.distance(k) == 0 for k in range(3))


def test_a_view_is_turned_about_the_camera_and_then_shifted():
    """To first order by w x X + t, t in units of the usual depth."""
    points = np.random.default_rng(1).normal(size=(5, 3))
    for pose, each in zip(Motions(1e-6 * NUMBERS, 4.0).poses, NUMBERS, strict=True):
        moved = (pose.apply(points) - points) * 1e6
        np.testing.assert_allclose(moved, np.cross(each[:3], points) + 4 * each[3:6], atol=1e-5)


def test_how_far_is_told_in_degrees_and_in_units_of_depth_where_the_reference_looks():
    assert MOTIONS.degrees(1) == pytest.approx(np.degrees(0.03))
    assert MOTIONS.degrees(2) == 0
    assert MOTIONS.distance(2) == pytest.approx(2.0)
    assert MOTIONS.distance(3) == pytest.approx(2 * 4 * np.sin(0.015))  # the chord of that angle
    turn, shift = MOTIONS.mean
    np.testing.assert_allclose(turn, NUMBERS[:, :3].mean(axis=0))
    np.testing.assert_allclose(shift, 4 * NUMBERS[:, 3:6].mean(axis=0))
    assert MOTIONS.scale_error == pytest.approx(1.2533 * 0.02 / 3)  # of 0.02 among three that moved
    assert MOTIONS.factors == [1, 1.02, 1, 1]


def test_the_error_of_the_scale_is_that_of_the_median_in_many_draws():
    rng = np.random.default_rng(2)
    draws = [Motions(np.concatenate([np.ones((11, 6)), rng.normal(0, 0.01, (11, 1))], 1), 4.0) for _ in range(400)]
    off = np.std([np.median(each.numbers[:, 6]) for each in draws])
    assert np.mean([each.scale_error for each in draws]) == pytest.approx(off, rel=0.1)
    assert Motions.none(3).scale_error == 0
