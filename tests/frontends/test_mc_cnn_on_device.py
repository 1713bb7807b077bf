"""MC-CNN's CUDA kernels, emulated by a C++ compiler or on a GPU, against the definition."""

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests import mc_cnn_definition as defined
from tests.emulation import Emulator

from cfusion import kernels
from cfusion.errors import BackendUnavailable
from cfusion.frontends import consistency, cues, refine
from cfusion.frontends.mc_cnn import Curves, McCnn, curve_cues, matcher, on_device
from cfusion.frontends.mc_cnn.matcher import MARGIN
from cfusion.frontends.mc_cnn.semi_global import Penalties
from cfusion.frontends.stereo import MATCHERS, MC_CNN_CHECKS, grey_bytes
from cfusion.kernels.stereo import DeviceStereo, Layer, Stage

HEIGHT, WIDTH, CHANNELS = 9, 41, 64


@pytest.fixture(scope="module", params=["emulated", "gpu"])
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if request.param == "emulated":
        return DeviceStereo(np, Emulator(tmp_path_factory.getbasetemp()).kernel)
    try:
        kernels.load("cuda")
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    return import_module("cfusion.kernels.cuda.stereo").stereo()


def host(array: Any) -> np.ndarray:
    return np.asarray(array.get() if hasattr(array, "get") else array)


@pytest.fixture(scope="module")
def pair() -> SimpleNamespace:
    """Features and images of a small pair, and their costs for few and for many disparities."""
    rng = np.random.default_rng(5)
    left, right = rng.normal(size=(2, CHANNELS, HEIGHT, WIDTH)).astype(np.float32)
    left /= np.linalg.norm(left, axis=0)
    right /= np.linalg.norm(right, axis=0)
    images = rng.random((2, HEIGHT, WIDTH)).astype(np.float32)
    return SimpleNamespace(left=left, right=right, images=images)


def random_layers(rng: np.random.Generator) -> list[Layer]:
    """A network whose numbers go through every stage."""
    ones = np.ones(64, np.float32)
    out = [Layer(*_random(rng, 1, 0.5), ones, Stage.PLAIN, 1.0, 1.0)]
    out.append(Layer(*_random(rng, 64, 0.1), ones, Stage.TO_BYTES, 1.0, 0.02))
    for stage in (Stage.BYTES, Stage.LAST):
        weights = rng.integers(-127, 128, (64, 9, 64)).astype(np.float32)
        bias, factor = rng.integers(-900, 900, 64).astype(np.float32), rng.uniform(1e-4, 9e-4, 64).astype(np.float32)
        out.append(Layer(weights, bias, factor, stage, 0.04, 0.012))
    return out


def _random(rng: np.random.Generator, planes: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    weights, bias = rng.normal(0, size, (planes, 9, 64)), rng.normal(0, size, 64)
    return weights.astype(np.float32), bias.astype(np.float32)


def test_features_are_as_defined(device: DeviceStereo) -> None:
    """But for whole numbers that fall on the other side of a half."""
    rng = np.random.default_rng(2)
    layers, image = random_layers(rng), rng.normal(size=(15, 46)).astype(np.float32)
    found, wanted = host(device.features(image, layers)), defined.features(image, layers)
    assert found.shape == wanted.shape == (64, 7, 38)
    off = np.abs(found - wanted)
    assert (off < 1e-6).mean() > 0.99
    assert off.max() < 0.02
    assert np.linalg.norm(found, axis=0) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("count", [6, 37, 130])
def test_costs_and_their_mirror_image_are_as_defined(device: DeviceStereo, pair: SimpleNamespace, count: int) -> None:
    wanted = defined.cost_volume(pair.left, pair.right, count)
    cost = device.cost_volume(device.put(pair.left), device.put(pair.right), count)
    np.testing.assert_allclose(host(cost), wanted, atol=1e-6)
    out = device.put(np.full(wanted.shape, 77))
    device.mirror(cost, out)
    flipped = (np.ascontiguousarray(each[..., ::-1]) for each in (pair.right, pair.left))
    np.testing.assert_allclose(host(out), defined.cost_volume(*flipped, count), atol=1e-6)


def test_crosses_and_their_means_are_as_defined(device: DeviceStereo, pair: SimpleNamespace) -> None:
    cost = defined.cost_volume(pair.left, pair.right, 13)
    ours, theirs = (device.arms(image, 3, 0.3) for image in pair.images)
    for image, found in zip(pair.images, (ours, theirs), strict=True):
        np.testing.assert_array_equal(host(found), defined.arms(image, 3, 0.3))
    found = device.put(cost)
    device.aggregate(found, device.put(np.full(cost.shape, 77)), ours, theirs)
    np.testing.assert_allclose(host(found), defined.aggregate(cost, host(ours), host(theirs)), atol=1e-6)


@pytest.mark.parametrize("count", [6, 32, 40])
@pytest.mark.parametrize("penalties", [Penalties(0.1, 0.3, 1, 1, 1, 0.4), Penalties(0.1, 0.3, 2, 5, 3, 0.4)])
def test_the_paths_are_as_defined(
    device: DeviceStereo, pair: SimpleNamespace, count: int, penalties: Penalties
) -> None:
    cost = defined.cost_volume(pair.left, pair.right, count)
    total = device.put(np.full(cost.shape, 77))
    device.semi_global(device.put(cost), total, *pair.images, penalties.table(), penalties.ground, penalties.edge)
    np.testing.assert_allclose(host(total), defined.semi_global(cost, *pair.images, *penalties), atol=1e-5)


def test_winners_are_those_of_the_compiled_loops(device: DeviceStereo, pair: SimpleNamespace) -> None:
    loops = pytest.importorskip("cfusion.frontends.mc_cnn.kernels")
    total = defined.cost_volume(pair.left, pair.right, 40).astype(np.float32)
    total[:, :, 7] = total[:, :, 3]  # ties: the first one wins
    found = host(device.winners(device.put(total), device.put(1 - total)))
    wanted = loops.winners(total)
    assert Curves._fields == ("disparity", "best", "second", "plain")  # their order there
    np.testing.assert_allclose(found[:3], wanted, rtol=1e-5, atol=1e-6)
    at = np.rint(wanted[0]).astype(int)[..., None]
    np.testing.assert_array_equal(found[3], 1 - np.take_along_axis(total, at, 2)[..., 0])


def of_grey(image: np.ndarray) -> np.ndarray:
    """Unit features (64, H, W) of each grey value by itself, so that those of a mirrored image are mirrored."""
    angles = np.arange(1, 33)[:, None, None] * image
    found = np.concatenate([np.cos(angles), np.sin(angles)]) / np.sqrt(32)
    return found.astype(np.float32)


def test_the_mirrored_pair_has_the_right_images_disparity(
    device: DeviceStereo, pair: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the host too, where it is mirrored back."""
    pytest.importorskip("numba")
    monkeypatch.setattr(matcher, "features", of_grey)
    monkeypatch.setattr(
        on_device,
        "_cost_volume",
        lambda device, left, right, count: device.cost_volume(
            device.put(of_grey(left)), device.put(of_grey(right)), count
        ),
    )
    settings = McCnn(disparities=13, penalties=Penalties(0.1, 0.3, 2, 5, 3, 0.4), arm_tolerance=0.3)
    left, right = pair.images
    flipped = [np.ascontiguousarray(each[:, ::-1]) for each in (right, left)]
    ours, theirs = on_device.curves_on_device(device, left, right, settings)
    there, back = on_device.curves_on_device(device, *flipped, settings)
    np.testing.assert_allclose(host(theirs), host(there)[0], atol=1e-3)
    np.testing.assert_allclose(host(back), host(ours)[0], atol=1e-3)
    curves, other = matcher.mc_cnn_curves(left, right, settings)
    np.testing.assert_allclose(host(ours)[0], curves.disparity, atol=1e-3)
    np.testing.assert_allclose(host(theirs)[:, ::-1], other, atol=1e-3)


def test_the_whole_matcher_is_that_of_the_cpu(device: DeviceStereo, scenes: SimpleNamespace) -> None:
    """The real network; a board in front of a wall."""
    for needed in ("cv2", "numba", "onnxruntime", "mc_cnn"):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    frame, truth = scenes.step_pair()
    part = np.s_[:20, 40:150]
    left, right = (grey_bytes(each[part]).astype(np.float32) / 255 for each in (frame.left, frame.right))
    settings = McCnn(disparities=24)
    disparity, seen = (host(each) for each in on_device.matched(device, left, right, settings, MC_CNN_CHECKS))
    ours = MATCHERS["mc-cnn"].find(left, right, 24, "cpu")
    known = np.isfinite(disparity)
    assert (known == np.isfinite(ours.disparity)).mean() > 0.995
    assert (np.abs(disparity - ours.disparity)[known] < 0.02).mean() > 0.98
    assert np.abs(seen - ours.cues).mean() < 2e-3
    assert (np.abs(disparity - truth[part])[known] < 1).mean() > 0.95


def maps(seed: int, shape: tuple[int, int] = (37, 61)) -> tuple[np.ndarray, np.ndarray]:
    """A disparity map with steps and specks, and one of the other image that mostly agrees."""
    rng = np.random.default_rng(seed)
    v, u = np.mgrid[: shape[0], : shape[1]]
    disparity = 4 + 0.1 * v + 6 * (u > 30) + rng.normal(0, 0.2, shape)
    other = np.full(shape, 4 + 0.1 * v) + 6 * (u > 24) + rng.normal(0, 0.2, shape)
    strays = rng.random((2, *shape)) < 0.1
    disparity, other = np.where(strays, 12 * rng.random((2, *shape)), (disparity, other))
    return np.minimum(disparity, u).astype(np.float32), other.astype(np.float32)


def confirmed(seed: int) -> np.ndarray:
    """The disparities of `maps` that agree."""
    disparity, other = maps(seed)
    return consistency.agreeing(disparity, consistency.disagreement(disparity, other), 1.0)


def test_the_left_right_check_is_as_defined(device: DeviceStereo) -> None:
    disparity, other = maps(1)
    apart, found = device.checked(device.put(disparity), device.put(other[:, ::-1]), 1.0)
    wanted = consistency.disagreement(disparity, other)
    np.testing.assert_allclose(host(apart), wanted, atol=1e-5)
    np.testing.assert_array_equal(host(found), consistency.agreeing(disparity, wanted, 1.0))
    assert 0.2 < np.isnan(host(found)).mean() < 0.8


@pytest.mark.parametrize("size", [1, 4, 40, 5000])
def test_specks_are_those_of_the_host(device: DeviceStereo, size: int) -> None:
    pytest.importorskip("cv2")
    found = confirmed(2)
    there = device.put(found.copy())
    device.drop_specks(there, size, 0.5)
    wanted = consistency.without_specks(found, size, 0.5)
    np.testing.assert_array_equal(host(there), wanted)
    assert np.isnan(wanted).sum() > np.isnan(found).sum()


@pytest.mark.parametrize("shape", [(37, 61), (6, 5)])
def test_cues_are_those_of_the_host(device: DeviceStereo, shape: tuple[int, int]) -> None:
    pytest.importorskip("cv2")
    rng = np.random.default_rng(3)
    disparity, other = maps(3, shape)
    apart = consistency.disagreement(disparity, other)
    found = consistency.agreeing(disparity, apart, 1.0)
    curves, image = Curves(disparity, *rng.random((3, *shape)).astype(np.float32)), rng.random(shape).astype(np.float32)
    halves = (cues.JUMP, cues.TEXTURE, MARGIN)
    made = device.cues(*(device.put(each) for each in (found, apart)), image, device.put(np.stack(curves)), halves)
    np.testing.assert_allclose(
        host(made), np.concatenate([cues.pair_cues(found, apart, image), curve_cues(curves)]), atol=2e-6
    )


def test_filters_are_those_of_the_host(device: DeviceStereo) -> None:
    pytest.importorskip("cv2")
    found = confirmed(4)
    found[20:22] = np.nan  # rows without any
    found[:, 50:] = np.nan
    wanted = refine.refined(found, consistency.without_holes(found))
    made = host(device.refined(device.put(found), refine.RADIUS, refine.WIDTH, refine.STEP))
    np.testing.assert_allclose(made, wanted, rtol=1e-6)
