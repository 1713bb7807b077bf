"""Laws of confidence and sigma: a probability from who agrees, and a standard deviation in the unit of depth."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

pytest.importorskip("embreex", reason="the scenes of these laws are ray-cast")

from cfusion import Orthographic, Pinhole, Pose, Result, Stack, View, fuse, fuse_stack, kernels
from cfusion.auto import belief
from cfusion.auto.belief import confidence, shares_of_surface
from cfusion.auto.evidence import Evidence, Placed, collect
from cfusion.auto.folds import in_groups, most_alike
from cfusion.auto.pooling import pooled_mean
from cfusion.auto.uncertainty import autocorrelation, shared_with_neighbours
from cfusion.errors import InputError
from cfusion.kernels.depth_noise import CONSTANT
from cfusion.source import Frame, Reading
from cfusion.synthetic import PAPER_CAMERA, Blobs, Gauss, blob, disturbed, object_bundle, room

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(40.0, 40.0, 15.5, 15.5, 32, 32)
SHAPE = (40, 48)


@lru_cache(1)
def bundle() -> tuple[tuple[View, ...], np.ndarray]:
    views, truth = object_bundle(blob(), Gauss(0.05), np.random.default_rng(3), 7, camera=PAPER_CAMERA.scaled(0.25))
    return tuple(views), truth


@lru_cache(1)
def fused() -> Result:
    return fuse(bundle()[0], backend="cpu", min_confidence=0.0)


def told(supporting: int, contradicting: int) -> float:
    """Confidence of an image all of whose pixels have so many views for and against them."""
    views = supporting + contradicting
    support = np.zeros((max(views, 1), 9, 9), np.bool_)
    against = support.copy()
    support[:supporting], against[supporting:views] = True, True
    weights = (support | against).astype(np.float32)
    evidence = Evidence(support, against, np.zeros(support.shape, np.float32), weights)
    flat = np.ones((9, 9), np.float32)
    return float(confidence(evidence, flat, 0.01 * flat, flat, NUMPY)[4, 4])


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_step_that_noise_may_hide_is_less_sure_but_neither_a_slope_nor_a_flat_place(backend: str) -> None:
    """A fit blurs a step of few noise scales, and no view contradicts what is between."""
    x = np.mgrid[:40, :40][1].astype(np.float32)
    blurred, slope = np.clip((x - 18) / 4, 0, 1).astype(np.float32), x / 8
    support = np.ones((5, 40, 40), np.bool_)
    evidence = Evidence(support, ~support, np.zeros(support.shape, np.float32), support.astype(np.float32))
    noise, sigma = np.full(x.shape, 0.5, np.float32), np.full(x.shape, 0.01, np.float32)

    def odds(depth: np.ndarray, *, perspective: bool = True) -> np.ndarray:
        found = confidence(evidence, depth, noise, sigma, kernels.load(backend), perspective=perspective)
        return np.log(found / (1 - found))[10:30, 10:30]

    flat = odds(np.full(x.shape, 4, np.float32))
    assert np.allclose(odds(4 + slope), flat, atol=1e-3)
    lost = flat - odds(4 + blurred)
    assert lost[:, 10].min() == pytest.approx(np.log((4 * 1.0 - 1.0) / 3 / (0.03 * 4.5)), abs=0.35)
    assert np.abs(lost[:, :4]).max() < 1e-3
    assert np.allclose(odds(4 + blurred, perspective=False), flat, atol=1e-3)  # a height over which ground?


@pytest.mark.parametrize(("edge", "believed"), [(True, False), (False, True)])
def test_beside_an_edge_one_view_of_many_is_not_believed_and_two_are(edge: bool, believed: bool) -> None:
    """On a slope as steep as the step it is: only what exceeds the slope around it is an edge."""
    x = np.mgrid[:24, :24][1].astype(np.float32)
    depth = 4 + (np.where(x < 12, 0, 1) if edge else x).astype(np.float32)
    support = np.ones((5, 24, 24), np.bool_)
    support[1:, :, 11:13] = False  # the reference alone measured there
    weights = support.astype(np.float32)
    evidence = Evidence(support, ~support & False, np.zeros(support.shape, np.float32), weights)
    noise = np.full(depth.shape, 0.1, np.float32)
    alone = confidence(evidence, depth, noise, noise, NUMPY)
    assert ((alone[8:16, 11:13] > 0.5) == believed).all()
    assert (alone[:, :9] > 0.5).all()
    support[1], weights[1] = True, 1  # a second one
    assert (confidence(evidence, depth, noise, noise, NUMPY) > 0.5).all()
    nobody = Evidence(0 * support > 0, 0 * support > 0, evidence.residual, 0 * weights)  # interpolated: as any
    interpolated = confidence(nobody, depth, noise, noise, NUMPY)
    assert (np.delete(interpolated, [11, 12] if edge else [], 1) > 0.5).all()  # but for the step's own two pixels


def test_a_hole_hides_no_step() -> None:
    """One view alone is not believed beside another surface, though nobody measured between the two."""
    noise, support = np.full((24, 32), 0.01, np.float32), np.ones((3, 24, 32), bool)
    support[1:, :, 13] = False
    evidence = Evidence(support, ~support & False, np.zeros(support.shape, np.float32), support.astype(np.float32))
    apart, alike = np.full((24, 32), 3.0, np.float32), np.full((24, 32), 3.0, np.float32)
    apart[:, 17:] = 4.0
    apart[:, 14:17] = alike[:, 14:17] = np.nan
    assert (confidence(evidence, apart, noise, noise, NUMPY)[4:20, 13] <= 0.5).all()
    assert (confidence(evidence, alike, noise, noise, NUMPY)[4:20, 13] > 0.5).all()


def test_beside_misplaced_outlines_larger_steps_are_less_sure() -> None:
    """The odds fall as the 0.4th power of the step over six noise scales; a slope is no step."""
    near = np.full((24, 24), 4.0, np.float32)
    support = np.ones((5, 24, 24), np.bool_)
    evidence = Evidence(support, ~support, np.zeros(support.shape, np.float32), support.astype(np.float32))
    noise, odds = np.full_like(near, 0.01), {}
    for size, misplaced in ((0.12, True), (1.2, True), (0.12, False), (1.2, False)):
        depth = near + np.where(np.arange(24) < 12, 0, np.float32(size))
        p = confidence(evidence, depth, noise, noise, NUMPY, misplaced=misplaced)[12].astype(float)
        odds[size, misplaced] = p / (1 - p)
    np.testing.assert_allclose(odds[0.12, True][10] / odds[1.2, True][10], 10**0.4, rtol=1e-3)
    np.testing.assert_allclose(odds[0.12, False][10] / odds[0.12, True][10], 2**0.4, rtol=1e-3)
    largest = confidence(evidence, near + (np.arange(24) >= 12) * np.float32(50), noise, noise, NUMPY, misplaced=True)
    np.testing.assert_allclose(largest[12, 10] / (1 - largest[12, 10]), odds[1.2, False][10] / 20**0.4, rtol=1e-3)
    np.testing.assert_array_equal(odds[1.2, False][[9, 10, 13, 14]], odds[0.12, False][[9, 10, 13, 14]])
    np.testing.assert_array_equal(odds[1.2, True][:9], odds[1.2, False][:9])
    slope = near + 0.1 * np.arange(24, dtype=np.float32)
    steep = [confidence(evidence, slope, noise, noise, NUMPY, misplaced=each) for each in (True, False)]
    np.testing.assert_array_equal(*steep)


def test_what_is_beside_an_edge_is_less_sure_and_so_is_what_has_a_large_error_bar() -> None:
    """Two pixels on either side of the step; and where the error bar is larger than usual. A smaller one is surer."""
    depth = np.where(np.arange(24) < 12, 4, 5)[None].repeat(24, 0).astype(np.float32)
    support = np.ones((5, 24, 24), np.bool_)
    evidence = Evidence(support, ~support, np.zeros(support.shape, np.float32), support.astype(np.float32))
    noise, unsure = np.full_like(depth, 0.01), np.full_like(depth, 0.002)
    inside = confidence(evidence, 0 * depth + 4, noise, unsure, NUMPY)
    found = confidence(evidence, depth, noise, unsure, NUMPY)
    assert (found[:, 9:14] < inside[:, 9:14]).all()
    np.testing.assert_array_equal(np.delete(found, range(8, 16), 1), np.delete(inside, range(8, 16), 1))
    alone = Evidence(*(each[:1] for each in (support, ~support, evidence.residual, evidence.weights)))
    few = [confidence(alone, each, noise, unsure, NUMPY) for each in (depth, 0 * depth + 4)]
    np.testing.assert_array_equal(*few)  # one map: nobody knows that it is out of place
    unsure[5, 5], unsure[7, 7], unsure[9, 9] = 0.02, 0.0002, np.nan
    told_apart = confidence(evidence, 0 * depth + 4, noise, unsure, NUMPY)
    assert told_apart[5, 5] < inside[5, 5] < told_apart[7, 7]
    told_apart[[5, 7], [5, 7]] = inside[[5, 7], [5, 7]]
    np.testing.assert_array_equal(told_apart, inside)  # unknown is as usual


def test_errors_that_views_share_are_told_from_noise_and_from_poses() -> None:
    rng = np.random.default_rng(5)
    white = rng.standard_normal((4, 60, 80)).astype(np.float32)
    assert shared_with_neighbours(white) == 0
    assert shared_with_neighbours(white + 3 * rng.standard_normal((4, 1, 1))) == 0  # each view as a whole: its pose
    spread = sum(np.roll(white, (i, j), (1, 2)) for i in range(4) for j in range(4))
    assert 0.3 < shared_with_neighbours(spread) < 1.7


def test_views_that_drift_are_halved_where_they_are() -> None:
    """Neighbours in time err alike: one half has the earlier ones; copies of a map stay together."""
    rng = np.random.default_rng(6)
    order = rng.permutation(8)
    stack = Stack((heights(rng, 8) + 0.2 * order[:, None, None]).astype(np.float32))
    _, distances = in_groups(stack, NUMPY)
    half = most_alike([[k] for k in range(8)], distances)
    assert sorted(order[half]) in ([0, 1, 2, 3], [4, 5, 6, 7])
    together = most_alike([[0, 1], *([k] for k in range(2, 8))], distances)
    assert together[0] == together[1]
    assert 0 < together.sum() <= 4


def test_confidence_rises_with_every_view_that_agrees_and_falls_with_every_one_that_does_not() -> None:
    for against in range(4):
        agreeing = [told(n, against) for n in range(12)]
        assert all(a < b for a, b in zip(agreeing, agreeing[1:], strict=False))
    for supporting in range(4):
        contradicting = [told(supporting, n) for n in range(12)]
        assert all(a > b for a, b in zip(contradicting, contradicting[1:], strict=False))
    assert 0 < told(0, 11) < 0.1
    assert 0.9 < told(11, 0) < 1


def test_confidence_is_a_probability_and_zero_where_nothing_is_known() -> None:
    result = fused()
    known = np.isfinite(result.depth)
    assert (result.confidence[known] > 0).all()
    assert (result.confidence <= 1).all()
    assert (result.confidence[~known] == 0).all()
    assert np.isnan(result.sigma[~known]).all()
    assert np.isnan(result.sigma[result.provenance == 0]).all()  # nobody measured what was filled


def test_sigma_covers_the_errors_it_says_it_covers() -> None:
    result, truth = fused(), bundle()[1]
    error = np.abs(result.depth - truth)
    known = np.isfinite(error) & np.isfinite(result.sigma)
    ratio = error[known] / result.sigma[known]
    assert 0.55 < np.mean(ratio < 1) < 0.93  # 68 % of a Gaussian
    assert 0.88 < np.mean(ratio < 1.96) <= 1.0  # 95 %


def test_the_order_of_the_views_does_not_matter() -> None:
    views = list(bundle()[0])
    turned = fuse(views[::-1], backend="cpu", min_confidence=0.0)  # the middle one stays the reference
    np.testing.assert_allclose(turned.sigma, fused().sigma, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(turned.confidence, fused().confidence, atol=2e-3)


def heights(rng: np.random.Generator, maps: int = 6) -> np.ndarray:
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    return (10 + 0.02 * rows + 0.01 * columns + 0.1 * rng.standard_normal((maps, *SHAPE))).astype(np.float32)


@pytest.mark.parametrize("unit", [1e-3, 1000.0])
def test_sigma_has_the_unit_of_depth_and_confidence_has_none(unit: float) -> None:
    depths = heights(np.random.default_rng(0))
    one = fuse_stack(Stack(depths), backend="cpu")
    other = fuse_stack(Stack(depths * np.float32(unit)), backend="cpu")
    np.testing.assert_allclose(other.sigma / unit, one.sigma, rtol=3e-2)
    np.testing.assert_allclose(other.confidence, one.confidence, atol=1e-3)


def test_a_pixel_seen_once_is_less_sure_than_its_neighbours() -> None:
    depths = heights(np.random.default_rng(1), 8)
    depths[1:, 20:23, 20:23] = np.nan
    result = fuse_stack(Stack(depths), backend="cpu", min_confidence=0.0)
    assert (result.provenance[20:23, 20:23] == 1).all()
    around = np.r_[result.sigma[10:18, 10:38].ravel(), result.sigma[25:34, 10:38].ravel()]
    assert result.sigma[20:23, 20:23].min() > 2 * around.max()
    assert result.confidence[21, 21] < result.confidence[10:18, 10:38].min()


def test_a_single_map_has_error_bars_too() -> None:
    truth = 10 + 0.02 * np.mgrid[: SHAPE[0], : SHAPE[1]][0]
    result = fuse_stack(Stack(heights(np.random.default_rng(2), 1)), backend="cpu")
    assert np.isfinite(result.sigma).all()
    assert (result.sigma > 0).all()
    assert np.median(result.sigma) < 0.1 * 3
    assert truth.shape == result.depth.shape


def beside() -> tuple[View, list[Placed]]:
    """A reference, and a view a little to its right."""
    reference = View(np.full((32, 32), 4.0, np.float32), CAMERA, Pose.identity())
    moved = np.eye(4)
    moved[0, 3] = 0.5
    view_from_reference = np.linalg.inv(moved)[:3]
    return reference, [Placed(CAMERA.numbers, np.eye(4)[:3]), Placed(CAMERA.numbers, view_from_reference)]


def evidence_of(surface: np.ndarray, second: np.ndarray) -> Evidence:
    """What a reference that measured the surface and a view that measured `second` at it say."""
    reference, places = beside()
    depths = np.stack([surface, second]).astype(np.float32)
    reading = Reading(depths, np.isfinite(depths).astype(np.float32), np.isfinite(depths))
    frame = Frame((32, 32), CAMERA, reference.pose, None)
    return collect(reading, surface.astype(np.float32), [0.01, 0.01], CONSTANT, frame, places, NUMPY)


def test_a_view_that_sees_through_contradicts_and_one_that_sees_something_floating_does() -> None:
    plane = np.full((32, 32), 4.0)
    assert evidence_of(plane, plane).support.all()
    for measured in (6.0, 2.5):  # behind it, and in front of it where the reference sees nothing
        found = evidence_of(plane, np.full((32, 32), measured))
        assert found.contradiction[1, 8:24, 8:24].all()
        assert not found.support[1].any()
    silent = evidence_of(plane, np.full((32, 32), np.nan))
    assert not silent.contradiction.any()
    assert not silent.support[1].any()


def test_an_occluder_that_the_surface_explains_is_silent() -> None:
    surface = np.full((32, 32), 4.0)
    surface[:, :16] = 2.0  # a near half before a far one
    second = np.where(np.arange(32)[None, :] >= 16, 2.0, np.nan) * np.ones((32, 1))
    found = evidence_of(surface, second)
    # what the view measured at depth 2 on its ray through a far pixel, the reference sees so many columns further
    moved = 0.5 * 40.0 * (1 / 2.0 - 1 / 4.0)
    hidden = np.arange(32)[None, :] + moved < 16  # lands on the near half
    floats = (np.arange(32)[None, :] + moved >= 16.5) & (np.arange(32)[None, :] + moved < 31)
    far = np.arange(32)[None, :] >= 16
    assert found.contradiction[1][np.broadcast_to(far & floats, (32, 32))].all()
    assert not found.contradiction[1][np.broadcast_to(far & hidden, (32, 32))].any()


def test_disputed_pixels_are_left_unknown_where_asked() -> None:
    depths = heights(np.random.default_rng(4), 6)
    depths[:3, 10:20, 10:20] += 5.0  # half of the maps see something else
    all_of_it = fuse_stack(Stack(depths), backend="cpu", min_confidence=0.0)
    sure = fuse_stack(Stack(depths), backend="cpu", min_confidence=0.9)
    assert np.isfinite(all_of_it.depth).all()
    assert np.isnan(sure.depth[14:16, 14:16]).all()
    assert np.isfinite(sure.depth[25:]).all()
    np.testing.assert_array_equal(np.isnan(sure.depth), all_of_it.confidence < np.float32(0.9))
    assert (sure.provenance[np.isnan(sure.depth)] == -1).all()
    with pytest.raises(InputError, match="probability"):
        fuse_stack(Stack(depths), min_confidence=1.5)


@pytest.mark.parametrize("seed", [0, 1])
def test_of_two_views_that_contradict_each_other_neither_is_believed(seed: int) -> None:
    """Blobs of wrong depth in both: 1.6 to 1.7 % of the pixels are wrong and kept; without bends 4.9 to 5.4."""
    noise, camera = Gauss(0.01) + Blobs(0.08, 6.0), PAPER_CAMERA.scaled(0.25)
    views, truth = object_bundle(room(blob()), noise, np.random.default_rng(seed), 2, camera=camera)
    result = fuse(views, reference=1)
    known = np.isfinite(result.depth)
    wrong = np.abs(result.depth - truth) > 0.05 * truth
    assert wrong[known].mean() < 0.025
    assert known.mean() > 0.8


def test_the_view_that_is_off_is_named() -> None:
    views = [replace(view, name=f"frame {k}") for k, view in enumerate(bundle()[0])]
    views[1] = replace(views[1], depth=views[1].depth * 1.05)
    result = fuse(views, backend="cpu", keep_views=True)
    assert [bool(view.sentence) for view in result.views] == [k == 1 for k in range(7)]
    assert result.views[1].sentence.startswith("frame 1: its depths are")
    assert result.views[1].scale_factor == pytest.approx(1.05, abs=0.015)
    assert result.views[3].support.shape == result.depth.shape
    assert all(view.effect > 0 and 0 <= view.share_kept <= 1 for view in result.views)


@pytest.mark.parametrize(("factor", "words"), [(1.01, "1.0 % too large"), (0.99, "1.0 % too small")])
def test_a_scale_that_is_a_little_off_is_not_called_a_pose(factor: float, words: str) -> None:
    """Moving the view makes up for it; that its depths are off explains as much, and says where to look."""
    clean, _ = object_bundle(blob(), Gauss(0.01), np.random.default_rng(3), 7, camera=PAPER_CAMERA.scaled(0.25))
    views = [replace(view, name=f"frame {k}") for k, view in enumerate(clean)]
    views[1] = replace(views[1], depth=views[1].depth * np.float32(factor))
    found = fuse(views, backend="cpu", keep_views=True).views
    assert found[1].sentence == f"frame 1: its depths are {words}; it was scaled and moved to make up for that"
    assert found[1].scale_factor == pytest.approx(factor, abs=0.001)
    assert found[1].rescaled


@pytest.mark.parametrize(("noise", "along"), [(0.01, 0.0), (0.003, 0.02), (0.001, 0.02), (0.001, 0.01)])
def test_a_pose_that_is_off_is_not_called_a_scale(noise: float, along: float) -> None:
    """Also if the view is pushed along its own axis: what a scale leaves of its residuals is more."""
    clean, _ = object_bundle(blob(), Gauss(noise), np.random.default_rng(3), 7, camera=PAPER_CAMERA.scaled(0.25))
    views = list(clean)
    pushed = Pose(views[1].pose.rotation, views[1].pose.translation + along * views[1].pose.rotation[:, 2])
    turned = disturbed(views[1], 0.2, 0.003, 3.0, np.random.default_rng(1))
    views[1] = replace(views[1], pose=pushed) if along else turned
    found = fuse(views, backend="cpu", keep_views=True).views
    assert "its pose was off by" in found[1].sentence
    assert not found[1].rescaled


def test_the_papers_methods_keep_lam() -> None:
    stack = Stack(heights(np.random.default_rng(5), 3))
    result = fuse_stack(stack, "l1", backend="cpu")
    assert (result.confidence == 1).all()
    assert result.views == ()


def test_pooling_keeps_constants_and_relief_finds_steps() -> None:
    ones = np.ones((20, 30), np.float32)
    np.testing.assert_allclose(pooled_mean(7 * ones, ones, 3, NUMPY), 7, rtol=1e-6)
    step = np.where(np.arange(30) < 15, 1.0, 3.0) * ones
    found = NUMPY.local_depth_range(step.astype(np.float32), 2)
    assert (found[:, 13:17] == 2).all()
    assert (found[:, :12] == 0).all()
    assert (found[:, 18:] == 0).all()


def test_independent_noise_is_not_alike_and_smooth_noise_is() -> None:
    noise = np.random.default_rng(6).standard_normal((3, 60, 60))
    assert autocorrelation(noise) < 0.05
    smooth = np.cumsum(np.cumsum(noise, axis=1), axis=2)
    assert autocorrelation(smooth - smooth.mean(axis=(1, 2), keepdims=True)) > 0.7


def noisy(views: int, scale: float = 0.05, shape: tuple[int, int] = (36, 48), seed: int = 0) -> np.ndarray:
    """Maps of a wall at depth 4."""
    return (4 + scale * np.random.default_rng(seed).standard_normal((views, *shape))).astype(np.float32)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(np.square(values, dtype=np.float64))))


def test_where_one_map_alone_measured_sigma_is_no_smaller_than_the_error() -> None:
    for views in (1, 5):
        depths = noisy(views, shape=(36, 96))
        depths[1:, :, 50:] = np.nan
        result = fuse_stack(Stack(depths), backend="cpu")
        assert rms(result.sigma[:, 75:]) > 0.5 * rms(result.depth[:, 75:] - 4)


def test_a_map_far_off_widens_sigma_by_what_it_does_and_maps_that_say_nothing_do_not() -> None:
    """One of six pulls a median by a part of the noise: sigma says so, and no more than twice that.

    Over six draws: a wall is off by a shift and a tilt, a few numbers by chance.
    """
    draws = [noisy(5, seed=seed) for seed in range(6)]
    for far, most in ((None, 1.4), (noisy(1, 1.0) + 5, 2.0)):
        stacks = [Stack(each if far is None else np.concatenate([each, far])) for each in draws]
        fused = [fuse_stack(each, backend="cpu") for each in stacks]
        sigma, error = (
            rms(np.stack(each)) for each in zip(*((one.sigma, one.depth - 4) for one in fused), strict=True)
        )
        assert 0.75 < sigma / error < most
    good = draws[0]
    alone = fuse_stack(Stack(good), backend="cpu")
    silent = fuse_stack(Stack(np.concatenate([good, np.full_like(good, np.nan)])), backend="cpu")
    assert rms(silent.sigma) < 1.1 * rms(alone.sigma)


def test_what_has_no_weight_is_no_observation() -> None:
    depths, weights = noisy(5), np.ones((5, 36, 48), np.float32)
    weights[1:] = 0
    known = np.where(weights > 0, depths, np.nan)
    one, other = (fuse_stack(Stack(each, weights), backend="cpu") for each in (depths, known))
    assert np.array_equal(one.depth, other.depth, equal_nan=True)


def test_heights_across_zero_have_error_bars() -> None:
    ramp = np.rint(np.linspace(-3, 10, 48) * 4) / 4 * np.ones((36, 1))
    depths = ramp + 0.02 * np.abs(ramp) * np.random.default_rng(0).standard_normal((5, 36, 48))
    result = fuse_stack(Stack(depths.astype(np.float32)), backend="cpu", min_confidence=0)
    assert np.isfinite(result.sigma).all()


def test_a_reference_that_measured_nothing_is_fused_from_the_others() -> None:
    camera = Pinhole(48.0, 48.0, 23.5, 17.5, 48, 36)
    views = [View(each, camera, Pose(np.eye(3), np.array([0.1 * k, 0, 0]))) for k, each in enumerate(noisy(5))]
    views[2] = View(np.full((36, 48), np.nan), camera, views[2].pose)
    assert rms(fuse(views, backend="cpu").depth - 4) < 0.05


def test_views_that_look_at_other_surfaces_support_nothing_and_are_not_called_noisy() -> None:
    """A ring of right cameras around a ball in a room: a quarter of a turn away they see its other walls."""
    camera = Pinhole(75.0, 75.0, 39.5, 29.5, 80, 60)
    low, high, rng, count = np.array([-3, -2, -4.0]), np.array([3, 1.2, 2.0]), np.random.default_rng(0), 12

    def seen_from(angle: float) -> View:
        ahead = np.array([-np.cos(angle), 0, -np.sin(angle)])
        turn, centre = np.stack([np.cross([0, 1, 0], ahead), [0, 1, 0], ahead], 1), -1.6 * ahead
        rays = camera.back_project(np.ones((60, 80), np.float32)) @ turn.T
        wall = np.maximum((low - centre) / rays, (high - centre) / rays).min(-1)
        away, square = centre - [0.2, 0.5, 0.0], (rays * rays).sum(-1)
        root = (rays @ away) ** 2 - square * (away @ away - 0.49)
        ball = np.where(root > 0, (-(rays @ away) - np.sqrt(np.maximum(root, 0))) / square, np.inf)
        depth = np.where(ball > 0, np.minimum(ball, wall), wall)
        return View((depth + rng.normal(0, 0.01, depth.shape)).astype(np.float32), camera, Pose(turn, centre))

    views = [seen_from(2 * np.pi * k / count) for k in range(count)]
    result = fuse(views, reference=count // 2, keep_views=True)
    near = [abs(k - count // 2) <= 2 for k in range(count)]
    shares = [float(view.support.mean()) for view in result.views]
    assert min(share for share, each in zip(shares, near, strict=True) if each) > 0.1
    assert max(share for share, each in zip(shares, near, strict=True) if not each) < 0.02
    assert not any(word in view.sentence for view in result.views for word in ("times as noisy", "too ", "pose"))


def slats(places: np.ndarray, missed: float, seed: int = 0) -> list[View]:
    """Slats at depth 3 before nothing, with gaps of five pixels, from places along x; some pixels are missed."""
    rng, camera = np.random.default_rng(seed), Pinhole(60.0, 60.0, 39.5, 29.5, 80, 60)
    column, views = np.arange(80) - 39.5, []
    for x in places:
        solid = (3 * column / 60 + x) % 0.75 < 0.5
        depth = np.where(solid, 3 + rng.normal(0, 0.01, (60, 80)), np.nan)
        depth[rng.random(depth.shape) < missed] = np.nan
        views.append(View(depth.astype(np.float32), camera, Pose(np.eye(3), np.array([x, 0.0, 0.0]))))
    return views


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("missed", [0.0, 0.03])
def test_gaps_that_nobody_saw_anything_in_stay_open(count: int, missed: float) -> None:
    """They lie within one surface, as holes of a sensor do, but views do not miss the same places by chance."""
    views = slats(0.1 * (np.arange(count) - count // 2), missed)
    result = fuse(views, backend="cpu", check=False)
    solid = (3 * (np.arange(80) - 39.5) / 60) % 0.75 < 0.5
    assert np.isfinite(result.depth[:, solid]).mean() > 0.97
    assert np.isfinite(result.depth[:, ~solid]).mean() < 0.03


def test_holes_of_one_place_and_by_chance_are_filled() -> None:
    """One camera misses the same places again, and three views that miss a third of the pixels miss some together."""
    still = fuse(slats(np.zeros(3), 0.0), backend="cpu", check=False)
    assert np.isfinite(still.depth).mean() > 0.9
    views = slats(0.1 * np.arange(-1, 2), 0.0)
    rng = np.random.default_rng(1)
    walls = []
    for view in views:
        depth = np.where(rng.random(view.shape) < 0.35, np.nan, 3 + rng.normal(0, 0.01, view.shape))
        walls.append(replace(view, depth=depth.astype(np.float32)))
    result = fuse(walls, backend="cpu", check=False)
    filled = result.provenance == 0
    assert filled.sum() > 50
    assert np.isfinite(result.depth[5:-5, 10:-10]).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("step", [0.0, 3.0])
def test_registered_maps_of_zeros_stay_known_whatever_their_camera(step: float) -> None:
    """They are of any sign: a step relative to the depth says nothing about those that are not ahead of the camera."""
    maps = np.where(np.arange(30) < 15, 0.0, step) + np.zeros((5, 20, 1))
    for camera in (None, Pinhole(50, 50, 14.5, 9.5, 30, 20), Orthographic(0.1, 14.5, 9.5, 30, 20)):
        assert np.isfinite(fuse_stack(Stack(maps.astype(np.float32), camera=camera), backend="cpu").depth).all()


@pytest.mark.parametrize("shape", [(40, 50), (5, 50), (50, 3), (2, 3), (1, 20), (1, 1)])
@pytest.mark.parametrize("slope", [(0.0, 0.1), (0.1, 0.0), (-0.08, 0.08)])
def test_a_plane_hides_no_step_beside_the_border_either(shape: tuple[int, int], slope: tuple[float, float]) -> None:
    """The image's border ends the wider range first: there it is fewer times that of the pixels around."""
    backend, (row, column) = kernels.load("cpu"), np.indices(shape)
    depth = (8 + slope[0] * row + slope[1] * column).astype(np.float32)
    depth[:, shape[1] // 2 + 12 :] += 1.0  # what a step of any plane is, far enough from it
    ranges = [backend.local_depth_range(depth, radius) for radius in (belief.REACH, belief.FURTHER * belief.REACH)]
    hidden = belief._hidden(np.zeros(shape, np.bool_), *ranges, depth)
    assert hidden.dtype == np.float32
    beside = abs(np.arange(shape[1]) + 0.5 - (shape[1] // 2 + 12)) < belief.FURTHER * belief.REACH
    assert np.abs(hidden[:, ~beside]).max(initial=0.0) == 0
    if shape == (40, 50):
        assert hidden[:, shape[1] // 2 + 11].min() > 0.3


@pytest.mark.parametrize(("apart", "filled"), [(0.002, True), (0.08, False)])
@pytest.mark.parametrize("distance", [3.0, 300.0])
def test_the_distance_of_parallel_cameras_is_no_other_place(apart: float, filled: bool, distance: float) -> None:
    """Their depth has no zero: wherever a camera stands along its rays, only the directions of these differ."""
    rng, camera = np.random.default_rng(0), Orthographic(0.05, 39.5, 29.5, 80, 60)
    x, views = 0.05 * (np.arange(80) - 39.5), []
    for angle in apart * np.arange(-3, 4):
        turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
        depth = np.where(x / np.cos(angle) % 0.75 < 0.5, distance + np.tan(angle) * x, np.nan)
        depth = depth + rng.normal(0, 0.01, (60, 80))
        depth[rng.random(depth.shape) < 0.03] = np.nan
        views.append(View(depth.astype(np.float32), camera, Pose(turn, -distance * turn[:, 2])))
    known = np.isfinite(fuse(views, backend="cpu", check=False).depth)
    assert known[:, x % 0.75 < 0.5].mean() > 0.97
    assert known[:, x % 0.75 >= 0.5].mean() == pytest.approx(1.0 if filled else 0.0, abs=0.03)


def test_the_share_of_holes_that_is_surface_is_that_of_measured_pixels_seen_as_often() -> None:
    """Of none, by Chao's estimate of the unseen: 20 pixels seen once and 9 twice say 19."""
    shares = shares_of_surface([4, 40, 3, 8, 0], [7, 20, 9, 4, 1000])
    assert shares == pytest.approx([1.0, 20.5 / 40.5, 1.0, 4.5 / 8.5, 1.0])
    assert shares_of_surface([38, 0, 0], [0, 20, 9])[0] == pytest.approx(19.5 / 38.5)
    assert 0 < shares_of_surface([1000, 0, 0], [0, 0, 1000])[0] < 1e-3
