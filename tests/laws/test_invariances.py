"""What must not change the answer: the unit, the order of the views, the side of the image, a constant, a ramp."""

import numpy as np
import pytest

from cfusion import METHODS, Pinhole, Pose, Stack, View, evaluate, fuse, fuse_stack, synthetic
from cfusion.confidence import Given

NOISE = 0.2
EPSILON = float(np.finfo(np.float32).eps)
# the parameters that carry a unit of depth: the weight of squared errors, and Huber's corner
UNIT_OF = {"rof": lambda unit: {"lam": 1 / unit}, "tgv-fusion": lambda unit: {"delta": 0.05 * unit}}
METHODS_TRIED = pytest.mark.parametrize("method", ["median", "rof", "l1", "tgv-fusion", "auto"])


def depths(views=5, shape=(30, 40), seed=0):
    """Two planes with a step between them, Laplace noise, a hole in all and more in each; and the truth."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: shape[0], : shape[1]]
    truth = 5 + 0.03 * x - 0.02 * y + (x > shape[1] // 2)
    observed = truth + rng.laplace(0, NOISE, (views, *shape))
    observed[rng.random(observed.shape) < 0.1] = np.nan
    observed[:, 8:12, 6:10] = np.nan
    return observed.astype(np.float32), truth


def rms(error):
    return float(np.sqrt(np.nanmean(np.asarray(error, float) ** 2)))


def same_pixels(one, other):
    return np.array_equal(np.isnan(one), np.isnan(other))


@pytest.fixture(scope="module")
def scenes():
    """Seven noisy views of the object and of the city, with the truth and the noise."""
    pytest.importorskip("embreex", reason="rendering the scenes needs embreex")
    camera = synthetic.PAPER_CAMERA.scaled(0.12)
    rng = np.random.default_rng(0)
    shape = synthetic.blob(50)
    return {
        "object": (
            *synthetic.object_bundle(shape, synthetic.Laplace(0.3), rng, views=7, camera=camera, image=False),
            0.3,
        ),
        "city": (
            *synthetic.city_bundle(None, synthetic.Laplace(3.0), rng, views=7, camera=camera, image=False),
            3.0,
        ),
    }


@METHODS_TRIED
def test_unit_of_depth_of_a_stack(method):
    """In units of 1/1024 the same bits, shifted; in millimetres the same up to the rounding of the input."""
    given, _ = depths()
    metres = fuse_stack(Stack(given), method)
    for unit in (1024.0, 1000.0):
        named = UNIT_OF.get(method, lambda unit: {})(unit)
        scaled = fuse_stack(Stack(given * np.float32(unit)), method, **named)
        assert scaled.iterations == metres.iterations
        assert scaled.status is metres.status
        if unit == 1024.0:
            assert np.array_equal(scaled.depth, metres.depth * np.float32(unit), equal_nan=True)
            assert np.array_equal(scaled.sigma, metres.sigma * np.float32(unit), equal_nan=True)
        np.testing.assert_allclose(scaled.depth / unit, metres.depth, atol=1e-3 * NOISE)
        if method not in UNIT_OF:
            chosen = [{**result.parameters, "margins": None} for result in (scaled, metres)]  # those are measured
            assert chosen[0] == chosen[1]
            np.testing.assert_allclose(scaled.confidence, metres.confidence, rtol=1e-2)


@pytest.mark.parametrize("method", ["median", "l1", "auto"])
@pytest.mark.parametrize("scene", ["object", "city"])
def test_unit_of_length_of_views(scenes, scene, method):
    """Depths and poses together, through the association; `auto` without a word about it."""
    views, _, noise = scenes[scene]

    def in_unit(view, unit):
        pose = Pose(view.pose.rotation, unit * view.pose.translation)
        return View(view.depth * np.float32(unit), view.camera, pose)

    metres = fuse(views, method)
    exact = fuse([in_unit(view, 1024.0) for view in views], method)
    assert np.array_equal(exact.depth, metres.depth * np.float32(1024), equal_nan=True)
    millimetres = fuse([in_unit(view, 1000.0) for view in views], method)
    assert same_pixels(millimetres.depth, metres.depth)
    away = np.abs(millimetres.depth / 1000 - metres.depth)[np.isfinite(metres.depth)]
    assert np.quantile(away, 0.999) < 2e-3 * noise  # rounding may decide otherwise about a pixel
    assert away.max() < 2e-2 * noise


@pytest.mark.parametrize("method", ["mean", "median", "rof", "l1", "l1-adapt", "auto"])
@pytest.mark.parametrize("scene", ["object", "city"])
def test_order_of_the_views(scenes, scene, method):
    """With the same reference; `auto` too, which leaves views out to choose its weights, but not by their number."""
    views, _, noise = scenes[scene]
    middle = fuse(views, method)
    for order in ([6, 5, 4, 3, 2, 1, 0], [2, 0, 6, 3, 5, 1, 4]):
        permuted = fuse([views[k] for k in order], method)
        assert same_pixels(permuted.depth, middle.depth)
        np.testing.assert_allclose(permuted.depth, middle.depth, atol=1e-3 * noise)


@pytest.mark.parametrize("method", ["l1", "auto"])
def test_place_of_the_reference_among_the_views(scenes, method):
    views, _, noise = scenes["city"]
    middle = fuse(views, method)
    moved = fuse([views[k] for k in [3, 0, 1, 2, 4, 5, 6]], method, reference=0)
    assert same_pixels(moved.depth, middle.depth)
    np.testing.assert_allclose(moved.depth, middle.depth, atol=1e-3 * noise)


@METHODS_TRIED
def test_transposed_image(method):
    """Rows and columns are treated alike, to rounding."""
    given, _ = depths()
    one = fuse_stack(Stack(given), method)
    other = fuse_stack(Stack(np.ascontiguousarray(given.transpose(0, 2, 1))), method)
    np.testing.assert_allclose(other.depth.T, one.depth, atol=1e-3 * NOISE)


@METHODS_TRIED
@pytest.mark.parametrize("axis", [1, 2], ids=["upside down", "left to right"])
def test_flipped_image(method, axis):
    """Pointwise exactly; with a regulariser nearly, as forward differences look one way only.

    |(dx, dy)| pairs a difference to the right with one below, flipped the one to the left: at edges and corners the
    two answers differ. They differ by a tenth of the noise, half the error of either, and are equally far from the
    truth and equally low.
    """
    given, truth = depths()
    one = fuse_stack(Stack(given), method)
    flipped = fuse_stack(Stack(np.ascontiguousarray(np.flip(given, axis))), method)
    back = np.flip(flipped.depth, axis - 1)
    assert same_pixels(back, one.depth)
    if method == "median":
        np.testing.assert_allclose(back, one.depth, atol=4 * EPSILON)
        return
    assert rms(back - one.depth) < 0.1 * NOISE
    assert rms(back - one.depth) < 0.7 * rms(one.depth - truth)
    assert rms(back - truth) == pytest.approx(rms(one.depth - truth), rel=0.15)
    assert flipped.energies["total"] == pytest.approx(one.energies["total"], rel=0.01)


@pytest.mark.parametrize("method", ["l1", "auto"])
@pytest.mark.parametrize("scene", ["object", "city"])
def test_mirrored_world(scenes, scene, method):
    """Images, cameras and poses mirrored: the same surface, mirrored, as nearly."""
    views, truth, noise = scenes[scene]
    mirror = np.diag([-1.0, 1.0, 1.0])

    def mirrored(view):
        seen = view.camera
        camera = Pinhole(seen.fx, seen.fy, seen.width - 1 - seen.cx, seen.cy, seen.width, seen.height)
        pose = Pose(mirror @ view.pose.rotation @ mirror, mirror @ view.pose.translation)
        return View(view.depth[:, ::-1], camera, pose)

    known = {"min_confidence": 0.0} if method == "auto" else {}  # a pixel may lie on either side of a threshold
    one = fuse(views, method, **known)
    back = fuse([mirrored(view) for view in views], method, **known).depth[:, ::-1]
    assert same_pixels(back, one.depth)
    assert rms(back - one.depth) < 0.15 * noise
    # the discretisation is not its own mirror image, and `auto` may stop a step of its search earlier: 13 % here
    assert evaluate(back, truth).rmse == pytest.approx(evaluate(one.depth, truth).rmse, rel=0.15)


@METHODS_TRIED
def test_a_constant_is_carried_through(method):
    """Differences do not see it; 64 costs float32 as many digits."""
    given, _ = depths()
    one, other = fuse_stack(Stack(given), method), fuse_stack(Stack(given + np.float32(64)), method)
    np.testing.assert_allclose(other.depth - 64, one.depth, atol=32 * 70 * EPSILON)
    assert other.energies["total"] == pytest.approx(one.energies["total"], rel=1e-5)


@pytest.mark.parametrize("method", ["l1", "tgv-fusion", "auto"])
def test_a_ramp_is_carried_through_from_order_two(method):
    """The minimisers are the same, so the answers are to what the tolerance leaves; and order 1 does see it."""
    given, _ = depths()
    y, x = np.mgrid[: given.shape[1], : given.shape[2]]
    ramp = (0.25 * x - 0.125 * y).astype(np.float32)
    one = fuse_stack(Stack(given), method, tolerance=1e-4)
    other = fuse_stack(Stack(given + ramp), method, tolerance=1e-4)
    assert rms(other.depth - ramp - one.depth) < 0.01 * NOISE
    assert other.energies["total"] == pytest.approx(one.energies["total"], rel=2e-4)
    if method == "l1":
        flat, steep = (fuse_stack(Stack(each), "l1", order=1) for each in (given, given + ramp))
        assert rms(steep.depth - ramp - flat.depth) > 0.1 * NOISE


@pytest.mark.parametrize("method", ["mean", "median", "rof", "l1", "tgv-fusion", "auto"])
def test_a_view_twice_is_a_weight_doubled(method):
    """Three ways to say it, the same energy and the same answer, to what the tolerance leaves."""
    given, _ = depths()
    weighed = METHODS[method] if method == "auto" else METHODS[method].replace(confidence=Given())
    doubled = np.ones_like(given)
    doubled[2] = 2
    twice = np.concatenate([given, given[2:3]])
    tight = {} if method in ("mean", "median") else {"tolerance": 1e-4}
    as_weight = fuse_stack(Stack(given, doubled), weighed, **tight)
    for stack in (Stack(twice), Stack(twice, np.ones_like(twice))):
        as_view = fuse_stack(stack, weighed, **tight)
        assert as_view.energies["total"] == pytest.approx(as_weight.energies["total"], rel=1e-4)
        assert rms(as_view.depth - as_weight.depth) < 5e-3 * NOISE


def test_the_scale_of_confidences():
    """Confidences that are all a sixteenth, or sixteen times, say the same: only their ratios count."""
    camera, rng = Pinhole(60, 60, 40, 30, 80, 60), np.random.default_rng(0)
    truth = 60 / (1.5 + 0.1 * np.mgrid[:60, :80][0])  # a ground plane whose noise grows as stereo's
    maps = [(truth + 0.004 * truth**2 * rng.normal(size=truth.shape)).astype(np.float32) for _ in range(5)]
    trust = rng.uniform(0.5, 1, (5, *truth.shape)).astype(np.float32)
    one, *others = (
        fuse([View(each, camera, Pose.identity(), confidence=c * w) for each, w in zip(maps, trust, strict=True)])
        for c in np.float32([1, 1 / 16, 16])
    )
    assert one.parameters["inverse"]
    for other in others:
        assert {**other.parameters, "alpha": 0, "margins": 0} == {**one.parameters, "alpha": 0, "margins": 0}
        np.testing.assert_allclose(other.depth, one.depth, rtol=1e-5)
        np.testing.assert_allclose(other.confidence, one.confidence, atol=1e-3)
        np.testing.assert_allclose(other.sigma, one.sigma, rtol=1e-2)
