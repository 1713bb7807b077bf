"""Scores against numbers worked out by hand, and the paper's noisy reference row."""

import os
from math import nan, pi, sqrt
from pathlib import Path

import numpy as np
import pytest

from cfusion.errors import CameraError, InputError, ShapeError
from cfusion.geometry import Orthographic, Pinhole
from cfusion.metrics import arithmetic_mean, ause, evaluate, fill_background, geometric_mean, roc_auc

CAMERA = Pinhole(10.0, 10.0, 1.0, 1.0, 3, 2)
DATA = Path(os.environ.get("CFUSION_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def test_depth_errors_by_hand() -> None:
    truth = np.array([[1.0, 2.0, 3.0], [4.0, nan, 5.0]])
    depth = truth + np.array([[1.0, 1.0, 2.0], [4.0, 0.0, nan]])
    scores = evaluate(depth, truth)
    # errors 1, 1, 2, 4: mean 2, median 1.5
    assert scores.rmse == pytest.approx(sqrt((1 + 1 + 0 + 4) / 4))
    assert scores.zmae == pytest.approx((0.5 + 0.5 + 0.5 + 2.5) / 4)
    assert scores.plain_rmse == pytest.approx(sqrt((1 + 1 + 4 + 16) / 4))
    assert scores.plain_mae == pytest.approx(2.0)
    assert scores.bias == pytest.approx(2.0)
    assert scores.density == pytest.approx(80.0)
    assert all(np.isnan([scores.nmae, scores.z_avg, scores.d_avg, scores.out(3)]))


def test_a_constant_offset_is_forgiven_but_not_by_the_plain_scores() -> None:
    truth = np.array([[1.0, 2.0, 3.0], [4.0, 6.0, 5.0]])
    scores = evaluate(truth - 0.5, truth)
    assert (scores.rmse, scores.zmae) == pytest.approx((0.0, 0.0))
    assert (scores.plain_rmse, scores.plain_mae, scores.bias) == pytest.approx((0.5, 0.5, -0.5))


def test_the_angle_between_two_planes() -> None:
    camera = Pinhole(50.0, 50.0, 15.5, 11.5, 32, 24)
    x = camera.rays()[..., 0] / camera.rays()[..., 2]
    angle = 0.3
    tilted = 3.0 / (1.0 - np.tan(angle) * x)  # z = 3 + tan(angle) x
    flat = np.full(camera.shape, 3.0)
    scores = evaluate(tilted, flat, camera)
    assert scores.nmae == pytest.approx(angle, abs=1e-6)
    assert scores.z_avg == pytest.approx((scores.rmse * scores.zmae * angle) ** (1 / 3), rel=1e-5)
    assert evaluate(flat, flat, camera).nmae == 0.0


def test_holes_take_the_smaller_neighbour_along_the_row_then_the_column() -> None:
    disparity = np.array(
        [
            [nan, nan, nan, nan],
            [nan, 5.0, nan, 3.0],
            [nan, nan, nan, nan],
            [2.0, nan, nan, 9.0],
            [nan, nan, nan, nan],
        ]
    )
    filled = [[5.0, 5.0, 3.0, 3.0]] * 2 + [[2.0, 2.0, 2.0, 3.0]] + [[2.0, 2.0, 2.0, 9.0]] * 2
    np.testing.assert_array_equal(fill_background(disparity), filled)
    assert np.isnan(fill_background(np.full((2, 3), nan))).all()


def test_disparity_scores_by_hand() -> None:
    # fx baseline = 60: true disparities 60, 30, 20 / 30, 15, none
    truth = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, nan]])
    # found 60, hole, 24 / 30, 12, 60: the hole takes min(60, 24)
    depth = np.array([[1.0, nan, 2.5], [2.0, 5.0, 1.0]])
    scores = evaluate(depth, truth, CAMERA, baseline=6.0)
    # errors 0, 6, 4, 0, 3
    assert scores.d_avg == pytest.approx(13 / 5)
    assert [scores.out(n) for n in (1, 2, 3, 4, 5)] == pytest.approx([60.0, 60.0, 40.0, 20.0, 20.0])
    assert scores.density == pytest.approx(80.0)


def test_depths_no_disparity_map_can_hold_are_holes() -> None:
    truth = np.full((2, 3), 2.0)  # disparity 30
    depth = truth.copy()
    depth[0, 0], depth[1, 1] = 1e-6, -1.0
    assert evaluate(depth, truth, CAMERA, baseline=6.0).d_avg == 0.0
    near = evaluate(np.full((2, 3), 0.1), np.full((2, 3), 0.1), CAMERA, baseline=6.0)  # disparity 600
    assert near.d_avg == 0.0


def test_nothing_estimated_is_all_wrong() -> None:
    scores = evaluate(np.full((2, 3), nan), np.ones((2, 3)), CAMERA, baseline=1.0)
    assert scores.density == 0.0
    assert scores.out(3) == 100.0
    assert np.isnan([scores.rmse, scores.zmae, scores.nmae, scores.d_avg, scores.bias]).all()


def test_averages() -> None:
    truth = np.array([[1.0, 2.0, 3.0], [4.0, 6.0, 5.0]])
    error = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]])
    one, four = (evaluate(truth + scale * error + 1, truth, CAMERA, 1.0) for scale in (0.1, 0.4))
    assert geometric_mean([one, four]).rmse == pytest.approx(0.2)
    assert arithmetic_mean([one, four]).rmse == pytest.approx(0.25)
    assert geometric_mean([one, four]).bias == pytest.approx(1.0)
    assert geometric_mean([one, four]).z_avg == pytest.approx(sqrt(one.z_avg * four.z_avg))
    assert arithmetic_mean([one, four]).out(1) == pytest.approx(0.5 * (one.out(1) + four.out(1)))
    assert arithmetic_mean([one]) == one
    with pytest.raises(InputError, match="no scores"):
        geometric_mean([])


def test_perfect_and_reversed_rankings() -> None:
    error = np.random.default_rng(0).laplace(size=(30, 40))
    assert ause(error, -np.abs(error)) == pytest.approx(0.0, abs=1e-12)
    assert roc_auc(error, -np.abs(error), 1.0) == 1.0
    assert roc_auc(error, np.abs(error), 1.0) == 0.0
    assert ause(error, np.abs(error)) > ause(error, np.zeros_like(error)) > 0.0


def test_confidence_that_knows_nothing() -> None:
    rng = np.random.default_rng(0)
    error = rng.laplace(size=(100, 100))
    assert roc_auc(error, rng.uniform(size=error.shape), 1.0) == pytest.approx(0.5, abs=0.02)
    assert roc_auc(error, np.ones_like(error), 1.0) == 0.5
    assert ause(error, rng.uniform(size=error.shape)) == pytest.approx(ause(error, np.ones_like(error)), abs=0.02)


def test_ause_and_auc_by_hand() -> None:
    error, confidence = np.array([1.0, -3.0, 2.0, nan]), np.array([1.0, 2.0, 3.0, 4.0])
    # removed 1, 3, 2: means 2, 2.5, 2; the oracle removes 3, 2, 1: means 2, 1.5, 1; mean error 2
    assert ause(error, confidence) == pytest.approx((0.0 + 1.0 + 1.0) / 3 / 2)
    # within 1.5: {1}; beyond: {3, 2}, both trusted more
    assert roc_auc(error, confidence, 1.5) == 0.0
    # within 2.5: trust 1 and 3, beyond: trust 2
    assert roc_auc(error, confidence, 2.5) == 0.5
    assert np.isnan(roc_auc(error, confidence, 10.0))
    assert ause(np.zeros(3), np.ones(3)) == 0.0


def test_bad_input() -> None:
    with pytest.raises(ShapeError, match=r"depth is \(2, 3\), the truth is \(3, 2\)"):
        evaluate(np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(InputError, match="NaN everywhere"):
        evaluate(np.ones((2, 3)), np.full((2, 3), nan))
    with pytest.raises(CameraError, match="without a pinhole camera"):
        evaluate(np.ones((2, 3)), np.ones((2, 3)), None, 1.0)
    with pytest.raises(InputError, match="baseline is -1"):
        evaluate(np.ones((2, 3)), np.ones((2, 3)), CAMERA, -1.0)
    with pytest.raises(InputError, match=r"out\(7\) is not available; choose one of 1, 2, 3, 4, 5"):
        evaluate(np.ones((2, 3)), np.ones((2, 3))).out(7)
    with pytest.raises(ShapeError, match="error is"):
        ause(np.ones(3), np.ones(4))
    with pytest.raises(InputError, match="no pixel"):
        roc_auc(np.full(3, nan), np.ones(3), 1.0)


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "stanford" / "bunny.ply").exists(), reason="the bunny is not here")
def test_the_paper_protocol_gives_its_noisy_reference_row() -> None:
    pytest.importorskip("embreex")
    from cfusion.synthetic import ORBIT_BASELINE, PAPER_CAMERA, Laplace, load_mesh, orbit, render

    bunny = load_mesh(DATA / "stanford" / "bunny.ply").centred().scaled_to(2.0)
    truth = render(bunny, PAPER_CAMERA, orbit()[35])
    noisy = Laplace(0.6)(truth, np.random.default_rng(0))
    scores = evaluate(noisy, truth, PAPER_CAMERA, ORBIT_BASELINE)
    found = (scores.rmse, scores.zmae, scores.nmae, scores.out(3), scores.d_avg)
    assert found == pytest.approx((0.817, 0.587, 1.556, 60.0, 7.65), rel=0.03)
    assert scores.nmae < pi / 2  # normals of noise are at right angles to the truth


@pytest.mark.parametrize("depth", [0.0, -1.0])
def test_a_truth_that_no_perspective_camera_sees_is_refused(depth: float) -> None:
    truth = np.full((4, 6), 2.0)
    truth[1, 2] = depth
    camera = Pinhole(50.0, 50.0, 2.5, 1.5, 6, 4)
    for baseline in (None, 0.5):
        with pytest.raises(InputError, match="the truth is zero or negative at 1 of 24 pixels; use NaN for unknown"):
            evaluate(np.full((4, 6), 2.0), truth, camera, baseline)
    assert evaluate(np.full((4, 6), 2.0), truth, Orthographic(1.0, 2.5, 1.5, 6, 4)).density == 100
    assert evaluate(np.full((4, 6), 2.0), truth).bias == pytest.approx((2 - depth) / 24)
