"""Matchers find what was rendered, know what they could not see, and say how sure they are."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Pinhole
from cfusion.datasets.kitti_bundle import open_bundle
from cfusion.errors import InputError, ShapeError
from cfusion.frontends.depth import depth_of
from cfusion.frontends.rig import Rig
from cfusion.frontends.stereo import ELAS_CHECKS, MC_CNN_CHECKS, SGM_CHECKS, Checks, Matching, _checked, _elas, match
from cfusion.metrics import fill_background, roc_auc

NETWORK = all(importlib.util.find_spec(name) for name in ("mc_cnn", "onnxruntime"))
needs_network = pytest.mark.skipif(not NETWORK, reason="needs the network's weights: pip install 'cfusion[mccnn]'")
MATCHERS = ("sgm", "elas", pytest.param("mc-cnn", marks=needs_network))


@pytest.mark.parametrize("matcher", MATCHERS)
def test_a_slanted_plane_is_found(matcher: str, scenes: SimpleNamespace) -> None:
    frame, truth = scenes.slanted_pair()
    found, confidence, *_ = match(frame.left, frame.right, matcher, disparities=32)
    error = np.abs(found - truth)
    visible = np.arange(truth.shape[1])[None, :] - truth > 8  # what the right image holds, but for its margin
    assert np.isfinite(found[visible]).mean() > 0.85
    assert np.nanmedian(error) < 0.15
    assert np.nanquantile(error, 0.95) < 1
    assert found.dtype == confidence.dtype == np.float32


def test_one_unknown_pixel_is_closed_by_elas_checks_alone() -> None:
    """The others leave holes to fusion, and mc-cnn's checks run on a GPU only without gaps to close."""
    found = np.full((60, 80), 7.0, np.float32)
    found[30, 40] = np.nan
    image = np.zeros((60, 80), np.uint8)
    for checks, closes in ((Checks(), False), (SGM_CHECKS, False), (MC_CNN_CHECKS, False), (ELAS_CHECKS, True)):
        whole = _checked(found, np.full((60, 80), 7.0, np.float32), checks, image).disparity
        assert np.isfinite(whole[30, 40]) == closes


@pytest.mark.parametrize("matcher", MATCHERS)
def test_confidence_is_zero_exactly_where_nothing_is_known(matcher: str, scenes: SimpleNamespace) -> None:
    frame, _ = scenes.step_pair()
    found, confidence, *_ = match(frame.left, frame.right, matcher, disparities=32)
    np.testing.assert_array_equal(confidence > 0, np.isfinite(found))
    assert confidence.max() <= 1


@pytest.mark.parametrize("matcher", MATCHERS)
def test_what_only_the_left_camera_sees_is_mostly_left_out(matcher: str, scenes: SimpleNamespace) -> None:
    frame, truth = scenes.step_pair(near=18, far=6)
    run = (
        _elas(frame.left, frame.right, 32, Checks(1.0, 400, 1.0))  # narrow gaps are left open
        if matcher == "elas"
        else match(frame.left, frame.right, matcher, 32)
    )
    hidden = np.isfinite(run.disparity[10:-10, 79:89])  # twelve columns left of the board at 90
    seen = np.isfinite(run.disparity[10:-10, 100:140])
    assert hidden.mean() < 0.35
    assert seen.mean() > 0.85
    assert np.nanmedian(np.abs(run.disparity - truth)) < 0.2


@pytest.mark.parametrize("matcher", MATCHERS)
def test_confidence_ranks_the_errors(matcher: str, scenes: SimpleNamespace) -> None:
    """A part of the right image shows something else: what is still matched there is wrong, and trusted less."""
    frame, truth = scenes.slanted_pair()
    spoilt = frame.right.copy()
    spoilt[:, 100:150] = np.random.default_rng(0).random((96, 50), dtype=np.float32)
    found, confidence, *_ = match(frame.left, spoilt, matcher, disparities=32)
    error = np.abs(found - truth)
    assert roc_auc(error, np.where(np.isfinite(found), confidence, np.nan), threshold=2.0) > 0.8


@pytest.mark.parametrize("matcher", MATCHERS)
def test_a_pair_without_texture_has_no_disparity_to_trust(matcher: str) -> None:
    flat = np.full((60, 100), 0.5, np.float32)
    found, confidence, *_ = match(flat, flat, matcher, disparities=32)
    if matcher == "mc-cnn":  # features of nothing are alike everywhere: whatever is found, it is not trusted
        assert np.nanmax(confidence, initial=0) < 0.5
    else:
        assert np.isnan(found).all() if matcher == "elas" else np.nanmax(found, initial=0) < 1
    assert np.isfinite(confidence).all()


def test_brightness_hardly_matters(scenes: SimpleNamespace) -> None:
    frame, truth = scenes.slanted_pair()
    found = match(frame.left, 0.8 * frame.right + 0.1, "elas", 32).disparity
    assert np.nanmedian(np.abs(found - truth)) < 0.2


def test_colour_is_matched_as_grey(scenes: SimpleNamespace) -> None:
    frame, _ = scenes.slanted_pair()
    grey = match(frame.left, frame.right, "sgm", 32).disparity
    colour = match(*(np.repeat(each[..., None], 3, axis=2) for each in (frame.left, frame.right)), "sgm", 32).disparity
    np.testing.assert_allclose(grey, colour, atol=0.07)


def test_mistakes_are_named() -> None:
    image = np.zeros((20, 30), np.float32)
    with pytest.raises(ShapeError, match="rectify"):
        match(image, image[:, :-1])
    with pytest.raises(InputError, match="between 16 and"):
        match(image, image, disparities=4)
    with pytest.raises(InputError, match=r"outside \[0, 1\]"):
        match(image, image + 2)
    with pytest.raises(InputError, match="did you mean 'elas'"):
        match(image, image, "elass")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("matcher", "bundle", "density", "outliers"),
    [
        *(("sgm", 27, 92, 4.0), ("sgm", 74, 65, 12.0), ("elas", 27, 90, 10.5), ("elas", 74, 85, 8.5)),
        pytest.param("mc-cnn", 27, 95, 3.0, marks=needs_network),
        pytest.param("mc-cnn", 74, 95, 5.0, marks=needs_network),
    ],
)
def test_figures_on_kitti(kitti: Path, matcher: str, bundle: int, density: float, outliers: float) -> None:
    """At least this dense, at most that many off by more than three pixels (ELAS as published: 93 and 11.5 %)."""
    opened = open_bundle(kitti, bundle)
    found = match(opened.left(10), opened.right(10), matcher).disparity
    truth = opened.truth(occluded=False)
    known = np.isfinite(truth)
    assert 100 * np.isfinite(found[known]).mean() > density
    assert 100 * np.mean(np.abs(fill_background(found)[known] - truth[known]) > 3) < outliers


def test_depth_and_its_sigma_are_those_of_the_disparity() -> None:
    """z = f B / (d + doffs); a little more disparity, and the depth changes by sigma_z / sigma_d times as much."""
    rig = Rig(Pinhole(200.0, 200.0, 2.0, 1.0, 4, 1), baseline=0.5, doffs=3.0)
    disparity = np.array([[7.0, 22.0, 47.0, 0.0]], np.float32)
    confidence, weight = (np.full((1, 4), value, np.float32) for value in (0.9, 0.6))
    sigma = np.array([[0.5, 1.0, 2.0, 1.0]], np.float32)
    found = depth_of(Matching(disparity, confidence, sigma, weight), rig, farthest=20.0)
    np.testing.assert_allclose(found.depth, [[10.0, 4.0, 2.0, np.nan]], rtol=1e-6)
    slope = (100 / (disparity - 0.01 + 3) - 100 / (disparity + 0.01 + 3)) / 0.02
    np.testing.assert_allclose(found.sigma[:, :3], (slope * sigma)[:, :3], rtol=1e-3)
    assert np.isnan(found.sigma[0, 3])
    np.testing.assert_array_equal(found.confidence, np.array([[0.9, 0.9, 0.9, 0]], np.float32))
    np.testing.assert_array_equal(found.weight, np.array([[0.6, 0.6, 0.6, 0]], np.float32))
