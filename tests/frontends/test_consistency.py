"""Checks between two disparity maps, on maps small enough to work out by hand."""

import numpy as np

from cfusion.frontends.consistency import agreeing, bridged, disagreement, without_holes, without_specks

NAN = np.nan


def row(*values: float) -> np.ndarray:
    return np.array([values], np.float32)


def test_disagreement_reads_the_other_map_where_the_disparity_points() -> None:
    left = row(NAN, 1, 2, 1, 3)
    right = row(2, 5, 1.5, NAN, NAN)
    # u = 1 points at 0: |2 - 1|; u = 2 at 0: |2 - 2|; u = 3 at 2: |1.5 - 1|; u = 4 at 1: |5 - 3|
    np.testing.assert_allclose(disagreement(left, right), row(NAN, 1, 0, 0.5, 2))


def test_disagreement_beyond_the_border_is_unknown() -> None:
    assert np.isnan(disagreement(row(1, 3, 1), row(1, 1, 1))[0, :2]).all()


def test_equal_planes_agree_and_others_do_not() -> None:
    left = np.full((4, 12), 3, np.float32)
    kept = agreeing(left, disagreement(left, left.copy()), 0.5)
    assert np.isfinite(kept[:, 3:]).all()
    assert np.isnan(kept[:, :3]).all()
    assert np.isnan(agreeing(left, disagreement(left, left + 1), 0.5)).all()


def test_specks_go_and_segments_stay() -> None:
    disparity = np.full((20, 30), NAN, np.float32)
    disparity[2:12, 2:12] = 5
    disparity[15:17, 20:23] = 9
    disparity[4:6, 4:6] = 25  # in the segment, yet another surface
    kept = without_specks(disparity, size=10, step=1)
    assert np.isnan(kept[15:17, 20:23]).all()
    assert np.isnan(kept[4:6, 4:6]).all()
    assert np.isfinite(kept).sum() == 100 - 4
    np.testing.assert_array_equal(without_specks(disparity, 0, 1), disparity)


def test_narrow_gaps_are_bridged_by_a_line_wide_ones_are_not() -> None:
    disparity = np.repeat(row(1, NAN, NAN, 4, NAN, NAN, NAN, 4), 9, axis=0)
    np.testing.assert_allclose(bridged(disparity, 2)[0], [1, 2, 3, 4, NAN, NAN, NAN, 4])
    np.testing.assert_array_equal(bridged(disparity, 0), disparity)


def test_a_gap_at_a_step_takes_the_farther_surface() -> None:
    disparity = np.repeat(row(20, NAN, 4), 9, axis=0)
    assert (bridged(disparity, 2)[:, 1] == 4).all()


def test_holes_take_the_farther_neighbour() -> None:
    disparity = np.array([[NAN, 4, NAN, 9], [NAN, NAN, NAN, NAN]], np.float32)
    np.testing.assert_array_equal(without_holes(disparity), [[4, 4, 4, 9], [4, 4, 4, 9]])
    np.testing.assert_array_equal(without_holes(np.full((2, 3), NAN, np.float32)), np.zeros((2, 3)))


def test_what_lies_at_infinity_is_no_speck() -> None:
    """A disparity of zero is known: it stays where enough of it is together, and goes where it is a speck."""
    disparity = np.full((20, 30), 9.0, np.float32)
    disparity[:, :12] = 0.0
    disparity[4:6, 20:22] = 0.0
    disparity[10, 5] = np.nan
    found = without_specks(disparity, 10, 1.0)
    assert (np.isnan(found) == ((disparity == 0) & (np.arange(30) > 15)) | np.isnan(disparity)).all()
    assert (found[:, :5] == 0).all()
