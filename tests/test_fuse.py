"""From views to a result: nothing is invented, what is known is said, and `auto` needs no parameter."""

import warnings
from functools import partial

import numpy as np
import pytest

from cfusion import (
    METHODS,
    Orthographic,
    Pinhole,
    Pose,
    Progress,
    Stack,
    Status,
    View,
    evaluate,
    fuse,
    fuse_every,
    fuse_many,
    fuse_stack,
    kernels,
    synthetic,
)
from cfusion.auto import cross_validation
from cfusion.auto import fit as fitting
from cfusion.errors import CFusionError, CFusionWarning, OutOfMemory
from cfusion.scene import in_time
from cfusion.solvers import PDHG
from cfusion.source import Posed, Registered

SHAPE = (48, 64)
OBJECT = synthetic.blob(80)


def bundle(noise, views=5, scale=0.1, seed=1, image=False):
    """The smooth object along the paper's orbit, small, and its true depth."""
    rng, camera = np.random.default_rng(seed), synthetic.PAPER_CAMERA.scaled(scale)
    return synthetic.object_bundle(OBJECT, synthetic.Laplace(noise), rng, views=views, camera=camera, image=image)


def test_views_may_come_one_after_the_other():
    views, _ = bundle(0.1, views=3)
    one, other = (fuse(given, "median", backend="numpy") for given in (views, (view for view in views)))
    np.testing.assert_array_equal(one.depth, other.depth)


def test_registered_maps_tell_what_views_from_one_place_tell():
    depths, camera = np.ones((4, 2, 3), np.float32), Pinhole(10.0, 10.0, 1.0, 0.5, 3, 2)
    for weights in (None, np.ones((4, 2, 3), np.float32)):
        views = [View(d, camera, Pose.identity(), confidence=None if weights is None else weights[0]) for d in depths]
        posed, registered = Posed.of(views, None, kernels.load("numpy")), Registered(Stack(depths, weights))
        assert (posed.n_views, posed.reference, posed.weighed) == (4, 2, weights is not None)
        assert (registered.n_views, registered.reference, registered.weighed) == (4, 2, weights is not None)
        assert len(set(posed.names)) == len(set(registered.names)) == 4


def holey_stack(views=4):
    """A plane with a pixel, a small gap and a wide one that nobody saw, and pixels seen by some only."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    depths = (5 + 0.02 * x + 0.01 * y + rng.laplace(0, 0.05, (views, *SHAPE))).astype(np.float32)
    depths[0, :10] = np.nan
    depths[1, 5:15] = np.nan
    depths[:, 20, 20] = np.nan
    depths[:, 25:31, 8:14] = np.nan
    depths[:, 20:44, 30:58] = np.nan
    return Stack(depths, camera=Orthographic(0.1, 32, 24, 64, 48))


def assert_consistent(result):
    """Depth, provenance, confidence and sigma tell the same story."""
    known = ~np.isnan(result.depth)
    assert np.array_equal(result.provenance >= 0, known)
    assert result.provenance.min() >= -1
    assert (result.confidence[~known] == 0).all()
    observed = result.provenance > 0
    assert (result.confidence[observed] > 0).all()  # what was filled may be believed or not
    assert (result.confidence >= 0).all()
    assert np.isnan(result.sigma[~known]).all()
    assert (result.sigma[observed] >= 0).all()
    assert not np.isinf(result.depth).any()
    assert result.depth.dtype == np.float32
    assert result.provenance.dtype == np.int16


@pytest.mark.parametrize("method", ["mean", "median", "rof", "l1", "l1-adapt", "auto"])
@pytest.mark.parametrize("radius", [0, 3, 5])
def test_pixels_without_support_within_the_fill_radius_stay_unknown(method, radius):
    """Known is exactly what was observed or what a closing with the disc of that radius adds."""
    stack = holey_stack()
    result = fuse_stack(stack, method, fill_radius=radius)
    observed = stack.count > 0
    closed = kernels.load("numpy").close_mask(observed, radius) if radius else observed
    assert np.array_equal(~np.isnan(result.depth), closed)
    assert np.isnan(result.depth[28:36, 40:48]).all()
    assert_consistent(result)
    assert np.array_equal(result.provenance, np.where(closed, stack.count, -1))
    assert (result.provenance[closed & ~observed] == 0).all()


@pytest.mark.parametrize("method", ["mean", "median", "l1", "auto"])
def test_what_was_filled_lies_within_what_was_observed(method):
    stack = holey_stack()
    result = fuse_stack(stack, method, fill_radius=5)
    filled = result.provenance == 0
    assert filled.sum() > 30
    assert np.nanmin(stack.depths) <= result.depth[filled].min()
    assert result.depth[filled].max() <= np.nanmax(stack.depths)


@pytest.mark.parametrize("method", ["median", "l1"])
def test_provenance_of_views_counts_measurements_and_not_interpolations(method):
    """Two views from one place: the splat fills the gaps of each, and a pixel filled in both is not observed."""
    camera = Pinhole(40.0, 40.0, 31.5, 23.5, 64, 48)
    rng = np.random.default_rng(2)
    maps = np.full((2, *SHAPE), 4.0) + rng.normal(0, 0.01, (2, *SHAPE))
    maps[0, 10:12, 10:12] = np.nan  # in one view only
    maps[:, 20:22, 20:22] = np.nan  # in both: filled by interpolation
    maps[:, 26:46, 30:60] = np.nan  # too wide to fill
    views = [View(depth, camera, Pose.identity()) for depth in maps]
    result = fuse(views, method)
    assert_consistent(result)
    assert (result.provenance[10:12, 10:12] == 1).all()
    assert (result.provenance[20:22, 20:22] == 0).all()
    assert (result.provenance[34:38, 42:48] == -1).all()
    assert (result.provenance[0:8, 0:8] == 2).all()
    bare = fuse(views, method, fill=False)
    assert (bare.provenance[20:22, 20:22] == -1).all()
    assert np.isnan(bare.depth[20:22, 20:22]).all()


@pytest.mark.parametrize("method", ["input", "median", "l1", "l1-adapt", "auto"])
def test_result_of_views_is_whole(method):
    """Camera, pose, image and parameters of the reference come along."""
    views, truth = bundle(0.1, image=True)
    result = fuse(views, method, reference=1)
    assert_consistent(result)
    assert result.depth.shape == truth.shape
    assert result.camera is views[1].camera
    assert result.pose is views[1].pose
    assert result.image is views[1].image
    assert result.method == method
    assert result.seconds > 0
    assert isinstance(result.status, Status)
    assert result.status.value.endswith(".")
    assert result.iterations == sum(outer.iterations for outer in result.history)


def test_nothing_is_known_where_nothing_was_seen():
    """Away from the object every view is empty, and so is the result."""
    views, truth = bundle(0.3)
    corners = (slice(None, 6), slice(None, 6)), (slice(None, 6), slice(-6, None)), (slice(-4, None), slice(-6, None))
    for method in ("median", "l1", "auto"):
        known = ~np.isnan(fuse(views, method).depth)
        assert not any(known[corner].any() for corner in corners)
        assert (known & np.isnan(truth)).mean() < 0.2  # noise throws points beyond the outline, and not far


def test_reference_method_returns_the_map_as_it_came():
    views, _ = bundle(0.1)
    assert np.array_equal(fuse(views, "input", reference=3).depth, views[3].depth, equal_nan=True)
    assert np.array_equal(fuse(views, "input").depth, views[2].depth, equal_nan=True)
    stack = holey_stack()
    assert np.array_equal(fuse_stack(stack, "input").depth, stack.depths[2], equal_nan=True)


@pytest.mark.parametrize("method", ["l1", "l1-adapt", "auto"])
def test_progress_is_reported(method):
    seen: list[Progress] = []
    fuse(bundle(0.1)[0], method, progress=seen.append)
    assert seen
    assert all(0 <= progress.done <= 1 and progress.stage for progress in seen)


def test_gap_is_certified_where_there_is_a_convex_solve():
    views, _ = bundle(0.3)
    for method in ("rof", "l1", "tgv-fusion", "l1-adapt"):
        assert 0 <= fuse(views, method).gap < 0.01
    assert np.isnan(fuse(views, "median").gap)


@pytest.mark.parametrize("views", [3, 30])
@pytest.mark.parametrize("noise", [0.1, 0.6, 1.0])
def test_auto_beats_the_median_without_a_parameter(noise, views):
    """Few views or many, little noise or much: on a small image of 64 x 48."""
    given, truth = bundle(noise, views)
    auto, median = (evaluate(fuse(given, method).depth, truth) for method in ("auto", "median"))
    assert auto.rmse < 0.8 * median.rmse
    assert auto.plain_rmse < median.plain_rmse
    assert auto.density > 95


def test_auto_beats_every_other_row_on_a_larger_image():
    given, truth = bundle(0.6, views=11, scale=0.25)
    scores = {
        method: evaluate(fuse(given, method).depth, truth).rmse
        for method in ("mean", "median", "rof", "l1", "tgv-fusion", "auto")
    }
    assert min(scores, key=scores.__getitem__) == "auto"
    assert scores["auto"] < 0.5 * scores["median"]


def test_auto_runs_without_noise():
    """Nothing to remove: what it returns is a pixel's worth of surface away from the truth."""
    for views in (3, 11):
        given, truth = bundle(0.0, views)
        score = evaluate(fuse(given, "auto").depth, truth)
        assert score.plain_rmse < 0.1
        assert score.density > 90


@pytest.mark.parametrize("factor", [1000, 1024])
def test_auto_in_millimetres_is_auto_in_metres(factor):
    """But for rounding, which decides about single observations; a factor of two has none."""
    given, _ = bundle(0.6)
    scaled = [View(factor * v.depth, v.camera, Pose(v.pose.rotation, factor * v.pose.translation)) for v in given]
    metres, millimetres = fuse(given, "auto"), fuse(scaled, "auto")
    if factor == 1024:
        np.testing.assert_array_equal(millimetres.depth / factor, metres.depth)
        np.testing.assert_array_equal(millimetres.sigma / factor, metres.sigma)
    assert millimetres.parameters["alpha"] == pytest.approx(metres.parameters["alpha"], rel=1e-3)
    off = np.abs(millimetres.depth / factor - metres.depth)
    assert np.nanmedian(off) < 1e-3
    assert np.nanmax(off / metres.sigma) < 0.5


def test_auto_takes_orthographic_views_too():
    """A height map from above, from three tracks with an offset."""
    rng = np.random.default_rng(0)
    camera = Orthographic(0.5, 31.5, 23.5, 64, 48)
    truth = synthetic.render(synthetic.city(), Orthographic(2.0, 31.5, 23.5, 64, 48), synthetic.nadir(1)[0])
    views = [View(truth + rng.laplace(0, 2.0, truth.shape), camera, Pose(np.eye(3), np.zeros(3))) for _ in range(5)]
    auto, median = (evaluate(fuse(views, method).depth, truth).rmse for method in ("auto", "median"))
    assert auto < median


def test_every_method_of_the_table_fuses_a_bundle():
    """By the definition, which needs no compiling."""
    views, truth = bundle(0.3, scale=0.05, image=True)
    spread = evaluate(fuse(views, "input").depth, truth).rmse
    for method in METHODS:
        short = {name: n for name, n in (("iterations", 72), ("outer", 2)) if name in METHODS[method].parameters()}
        result = fuse(views, method, backend="numpy", **short)
        assert_consistent(result)
        if method != "input":
            assert evaluate(result.depth, truth).rmse < 0.8 * spread, method


def test_many_bundles_are_fused_one_by_one():
    bundles = [bundle(0.1, views=3, scale=0.05, seed=seed)[0] for seed in range(5)]
    for one, views in zip(fuse_many(bundles, "median", backend="numpy"), bundles, strict=True):
        assert np.array_equal(one.depth, fuse(views, "median", backend="numpy").depth, equal_nan=True)


def test_out_of_memory_says_how_much_is_needed(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(kernels.load("numpy"), "sort_observations", full)
    with pytest.raises(OutOfMemory, match=r"4 maps of 64 x 48 pixels need about 0\.\d+ GB .* 'numpy'"):
        fuse_stack(holey_stack(), "median", backend="numpy")


def test_depths_of_any_sign_are_not_inverted():
    rng = np.random.default_rng(0)
    camera = Pinhole(50.0, 50.0, 31.5, 23.5, 64, 48)
    depth = np.linspace(2, 20, 64) * np.ones((48, 1))
    depths = (depth + rng.laplace(0, 0.01 * depth**2, (4, 48, 64))).astype(np.float32)  # as stereo's noise grows
    assert fuse_stack(Stack(np.abs(depths) + np.float32(0.01), camera=camera)).parameters["inverse"]
    depths[1, 20, 30] = -1.0
    assert not fuse_stack(Stack(depths, camera=camera)).parameters["inverse"]


@pytest.mark.parametrize("views", [2, 3, 5])
def test_a_map_given_twice_does_not_look_quiet(views):
    """Its twin agrees with it, which says nothing about its noise."""
    rng = np.random.default_rng(views)
    camera = Pinhole(60.0, 60.0, 31.5, 23.5, 64, 48)
    y, x = np.mgrid[:48, :64]
    truth = 3 + 0.3 * np.sin(x / 9) + 0.01 * y
    given = [View(truth + rng.laplace(0, 0.1, truth.shape), camera, Pose.identity()) for _ in range(views)]
    once, twice = (np.sqrt(np.mean((fuse(each).depth - truth) ** 2)) for each in (given, [*given, given[0]]))
    assert twice < 1.5 * once


def test_auto_compares_precisely_enough_to_choose_as_if_it_were_exact(monkeypatch):
    """In five cases of six at least: a gain of just two standard errors may fall on either side."""

    def choices():
        found = [fuse(bundle(0.3, seed=seed)[0]).parameters for seed in range(6)]
        return [(*np.round(np.log2(each["alpha"]), 2), each["inverse"], each["local"]) for each in found]

    usual = choices()
    for module in (cross_validation, fitting):
        monkeypatch.setattr(module, "ROUGH", PDHG(tolerance=1e-5, iterations=3000, certify=False))
    assert sum(one == other for one, other in zip(usual, choices(), strict=True)) >= 5


def test_of_many_bundles_the_first_that_fails_is_told_in_its_turn() -> None:
    good = [View(np.full((4, 5), 2.0), Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4), Pose.identity())] * 2
    results = fuse_many([good, [], good], "median", backend="numpy")
    assert (next(results).depth == 2).all()
    with pytest.raises(CFusionError):
        next(results)


def inverted(views):
    return [View(view.depth, view.camera, view.pose.inverse()) for view in views]


def test_wrong_conventions_are_told_once_and_only_if_asked():
    """The result of inverted poses is smooth, sure and wrong: nothing else would reveal them."""
    views, _ = bundle(0.02, views=5, scale=0.15)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CFusionWarning)
        fuse(views, "median", backend="numpy")
        fuse(inverted(views), "median", backend="numpy", check=False)
        list(fuse_many([inverted(views)], "median", backend="numpy", check=False))
        assert not told
        fuse(inverted(views), "median", backend="numpy")
    (only,) = told
    assert "poses inverted" in str(only.message)
    assert only.filename == __file__


def told_by(run) -> list[warnings.WarningMessage]:
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CFusionWarning)
        run()
    return told


def test_of_many_groups_wrong_conventions_are_told_once():
    """Not for every group, at a quarter of a second each, and not by a group of one pose, which cannot tell."""
    views = inverted(bundle(0.02, views=5, scale=0.15)[0])
    still = [views[0]] * 3
    run = partial(fuse_many, method="median", backend="numpy")
    (only,) = told_by(lambda: list(run([still, iter(views), views, views])))
    assert "poses inverted" in str(only.message)
    assert only.filename == __file__
    assert not told_by(lambda: list(run([views], check=False)))


def test_of_many_groups_the_check_takes_no_more_than_one():
    views, _ = bundle(0.02, views=3, scale=0.1)
    taken = []
    groups = (taken.append(k) or iter(views) for k in range(3))
    results = fuse_many(groups, "median", backend="numpy")
    next(results)
    assert taken == [0]
    assert sum(1 for _ in results) == 2


@pytest.mark.parametrize("neighbours", [2, in_time(5, 5)])
def test_of_every_view_of_a_scene_wrong_conventions_are_told_once(neighbours):
    views = inverted(bundle(0.02, views=5, scale=0.15)[0])
    run = partial(fuse_every, views, "median", neighbours=neighbours, backend="numpy")
    (only,) = told_by(lambda: list(run()))
    assert "poses inverted" in str(only.message)
    assert only.filename == __file__
    assert not told_by(lambda: list(run(check=False)))
