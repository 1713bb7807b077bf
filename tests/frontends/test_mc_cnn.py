"""MC-CNN: the compiled loops compute what the definition says; the network is the real one where it is installed."""

import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests import mc_cnn_definition as defined

from cfusion.errors import BackendUnavailable, FileError, InputError, MissingDependency, OutOfMemory
from cfusion.frontends.mc_cnn import McCnn, network, on_device
from cfusion.frontends.mc_cnn.matcher import Curves, curve_cues
from cfusion.frontends.mc_cnn.onnx_file import tensors_of
from cfusion.frontends.mc_cnn.semi_global import Penalties, semi_global
from cfusion.frontends.stereo import MC_CNN_CHECKS, match, require_matcher

kernels = pytest.importorskip("cfusion.frontends.mc_cnn.kernels")
HEIGHT, WIDTH, COUNT = 9, 14, 6


@pytest.fixture(scope="module")
def volume() -> SimpleNamespace:
    """Features, images and costs of a small pair."""
    rng = np.random.default_rng(5)
    left, right = rng.normal(size=(2, 8, HEIGHT, WIDTH)).astype(np.float32)
    left /= np.linalg.norm(left, axis=0)
    right /= np.linalg.norm(right, axis=0)
    images = rng.random((2, HEIGHT, WIDTH)).astype(np.float32)
    return SimpleNamespace(left=left, right=right, images=images, cost=defined.cost_volume(left, right, COUNT))


def test_the_cost_of_alike_features_is_zero_and_of_opposite_ones_one(volume: SimpleNamespace) -> None:
    same = kernels.cost_volume(volume.left, volume.left, COUNT)
    np.testing.assert_allclose(same[:, :, 0], 0, atol=1e-6)
    np.testing.assert_allclose(kernels.cost_volume(volume.left, -volume.left, 1)[:, :, 0], 1, atol=1e-6)


def test_the_cost_volume_is_as_defined(volume: SimpleNamespace) -> None:
    np.testing.assert_allclose(kernels.cost_volume(volume.left, volume.right, COUNT), volume.cost, atol=1e-6)


@pytest.mark.parametrize(
    ("one_edge", "both_edges", "ground"), [(1.0, 1.0, 1.0), (3.0, 7.5, 1.0), (1.0, 1.0, 2.0), (2, 5, 3)]
)
def test_the_paths_are_as_defined(volume: SimpleNamespace, one_edge: float, both_edges: float, ground: float) -> None:
    penalties = Penalties(0.1, 0.3, one_edge, both_edges, ground, edge=0.4)
    cost = volume.cost.astype(np.float32)
    found = semi_global(kernels, cost, np.full_like(cost, 7), *volume.images, penalties)
    np.testing.assert_allclose(found, defined.semi_global(volume.cost, *volume.images, *penalties), atol=1e-5)


def test_a_step_of_just_the_edge_is_one(volume: SimpleNamespace) -> None:
    """Grey values in quarters, of which two neighbours often differ by exactly a quarter."""
    penalties = Penalties(0.1, 0.3, one_edge=3.0, both_edges=6.0, ground=1.5, edge=0.25)
    images = np.floor(4 * volume.images) / np.float32(4)
    cost = volume.cost.astype(np.float32)
    found = semi_global(kernels, cost, np.empty_like(cost), *images, penalties)
    np.testing.assert_allclose(found, defined.semi_global(volume.cost, *images, *penalties), atol=1e-5)


def test_paths_without_penalties_change_no_winner(volume: SimpleNamespace) -> None:
    free = Penalties(1e-9, 1e-9, 1.0, 1.0, 1.0, 0.1)
    cost = volume.cost.astype(np.float32)
    found = semi_global(kernels, cost, np.empty_like(cost), *volume.images, free)
    np.testing.assert_array_equal(found.argmin(axis=2), volume.cost.argmin(axis=2))


@pytest.mark.parametrize("downwards", [True, False])
def test_growing_downwards_is_cheaper_than_growing_upwards(downwards: bool) -> None:
    """A column whose middle says nothing between 1 above and 3 below (or the other way round): a ground is cheaper."""
    cost = np.ones((5, COUNT, COUNT), np.float32)
    ends = (0, 4) if downwards else (4, 0)
    cost[ends[0], :, 1] = cost[ends[1], :, 3] = 0
    cost[1:4] = 0.5
    flat = np.zeros(cost.shape[:2], np.float32)
    least = [
        semi_global(kernels, cost, np.empty_like(cost), flat, flat, Penalties(0.2, 9.0, 1, 1, ground, 0.1)).min(axis=2)[
            :, -1
        ]
        for ground in (1.0, 2.0)
    ]
    assert (least[1] < least[0] - 1e-3).any() == downwards
    assert (least[1] <= least[0] + 1e-6).all()


def test_crosses_and_their_means_are_as_defined(volume: SimpleNamespace) -> None:
    ours, theirs = (kernels.arms(image, 3, 0.3) for image in volume.images)
    np.testing.assert_array_equal(ours, defined.arms(volume.images[0], 3, 0.3))
    found = volume.cost.astype(np.float32)
    kernels.aggregate(found, np.empty_like(found), ours, theirs)
    np.testing.assert_allclose(found, defined.aggregate(volume.cost, ours, theirs), atol=1e-5)


def test_the_mirrored_pair_has_the_same_costs_and_crosses(volume: SimpleNamespace) -> None:
    """Aggregated and mirrored is mirrored and aggregated: one volume serves both images."""
    cost = volume.cost.astype(np.float32)
    crosses = [kernels.arms(image, 3, 0.3) for image in volume.images]
    kernels.aggregate(cost, np.empty_like(cost), *crosses)
    found = np.empty_like(cost)
    kernels.mirror(cost, found)
    right, left = (np.ascontiguousarray(each[..., ::-1]) for each in (volume.right, volume.left))
    expected = kernels.cost_volume(right, left, COUNT)
    flipped = [kernels.arms(np.ascontiguousarray(image[:, ::-1]), 3, 0.3) for image in volume.images[::-1]]
    kernels.aggregate(expected, np.empty_like(expected), *flipped)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_winners_are_the_least_costs_and_the_vertex_of_their_parabola() -> None:
    d = np.arange(COUNT, dtype=np.float32)
    cost = np.broadcast_to((d - 2.3) ** 2, (HEIGHT, WIDTH, COUNT)).copy()
    disparity, best, second = kernels.winners(cost)
    np.testing.assert_allclose(disparity[:, COUNT:], 2.3, atol=1e-5)
    np.testing.assert_allclose(best[:, COUNT:], 0.09, atol=1e-5)
    np.testing.assert_allclose(second[:, COUNT:], min(cost[0, 0, 0], cost[0, 0, 4]), atol=1e-5)
    assert (disparity <= np.arange(WIDTH)).all()  # never outside the other image


def test_the_steps_are_those_of_the_paper() -> None:
    """pi_1, pi_2, Q_1, Q_2, V and D of the fast network on KITTI 2012; costs and steps are half of theirs."""
    pi_1, pi_2, q_1, q_2, v, d = 4.0, 55.72, 3.0, 2.5, 1.5, 0.02
    assert McCnn().penalties == Penalties(pi_1 / 2, pi_2 / 2, q_1, q_1 * q_2, v, d)


def test_mistakes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="small <= large"):
        McCnn(penalties=Penalties(2.0, 1.0, 1.0, 1.0, 1.0, 0.1))
    with pytest.raises(InputError, match="one_edge <= both_edges"):
        McCnn(penalties=Penalties(1.0, 2.0, 3.0, 2.0, 1.0, 0.1))
    with pytest.raises(InputError, match="arm"):
        McCnn(arm=0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"cfusion\[mccnn\]"):
        network.weights_file()


def test_mean_and_contrast_of_an_image_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the network is given of an image is the same after any change of exposure; of a flat one it is zero."""
    monkeypatch.setattr(network, "weights_file", lambda: "weights")
    monkeypatch.setattr(network, "_session", lambda _: SimpleNamespace(run=lambda outputs, given: [given["input"]]))
    image = np.random.default_rng(6).random((HEIGHT, WIDTH)).astype(np.float32)
    given = network.features(image)
    np.testing.assert_allclose(network.features(0.3 * image + 0.5), given, atol=1e-4)
    inner = given[network.RADIUS : -network.RADIUS, network.RADIUS : -network.RADIUS]
    assert (float(inner.mean()), float(inner.std())) == pytest.approx((0.0, 1.0), abs=1e-5)
    assert not network.features(np.full((HEIGHT, WIDTH), 0.5, np.float32)).any()


def test_a_missing_runtime_is_said_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "weights_file", lambda: None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingDependency, match="pip install"):
        network.require_network()


def field(number: int, kind: int, value: bytes) -> bytes:
    """A field of a protocol buffer; `value` as it stands behind its key."""
    return bytes([number << 3 | kind]) + value


def sized(number: int, value: bytes) -> bytes:
    assert len(value) < 128
    return field(number, 2, bytes([len(value)]) + value)


def test_the_numbers_of_an_onnx_file_are_read(tmp_path: Path) -> None:
    """Laid by hand: floats as bytes, a scalar as a varint (-5 has ten bytes), fields in between that nobody needs."""
    floats = field(1, 0, b"\x02") + field(1, 0, b"\x01") + field(2, 0, b"\x01") + sized(8, b"a")
    floats += sized(9, np.array([1.5, -2], "<f4").tobytes())
    whole = field(2, 0, b"\x06") + sized(5, b"\xfb" + 8 * b"\xff" + b"\x01") + sized(8, b"b") + field(7, 1, bytes(8))
    graph = sized(1, b"a node") + sized(5, floats) + sized(5, whole)
    file = tmp_path / "net.onnx"
    file.write_bytes(field(1, 0, b"\xac\x02") + field(12, 5, bytes(4)) + sized(7, graph))
    found = tensors_of(file)
    np.testing.assert_array_equal(found["a"], np.array([[1.5], [-2]], np.float32))
    assert (found["b"].shape, int(found["b"])) == ((), -5)
    for broken in (file.read_bytes()[:-3], b"\xff", sized(7, sized(5, floats[:-1] + b"\x00\x00"))):
        file.write_bytes(broken)
        with pytest.raises(FileError, match="cannot be read as an ONNX file"):
            tensors_of(file)


def test_the_networks_numbers_are_those_of_its_file() -> None:
    """Its features by the definition are those of onnxruntime, but for whole numbers that fall on the other side."""
    for needed in ("onnxruntime", "mc_cnn"):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    image = np.random.default_rng(8).random((12, 17)).astype(np.float32)
    off = np.abs(defined.features(network.padded(image), network.layers()) - network.features(image))
    assert (off < 1e-5).mean() > 0.98
    assert off.max() < 0.05


def test_a_network_of_another_kind_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    monkeypatch.setattr(network, "weights_file", lambda: tmp_path / "net.onnx")
    with pytest.raises(FileError, match=r"holds no 'conv_blocks\.0\.weight'"):
        network.layers.__wrapped__()


def test_backends_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for best in ("cuda", "cpu"):
        monkeypatch.setattr("cfusion.kernels.available", lambda best=best: [best, "numpy"])
        assert on_device.uses_device("auto") == (best == "cuda")
    assert (on_device.uses_device("cpu"), on_device.uses_device("cuda")) == (False, True)
    with pytest.raises(BackendUnavailable, match="no backend 'numpy'; choose one of"):
        on_device.uses_device("numpy")


def test_a_matcher_says_where_it_runs() -> None:
    image = np.zeros((20, 30), np.float32)
    for name, backend in (("sgm", "cuda"), ("elas", "numpy"), ("mc-cnn", "numpy")):
        with pytest.raises(BackendUnavailable, match=f"this matcher has no backend '{backend}'; choose one of: auto"):
            match(image, image, name, 16, backend=backend)
        with pytest.raises(BackendUnavailable, match="choose one of"):
            require_matcher(name, backend)  # before anything is read


def test_a_gpu_without_room_is_said_or_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` then matches on the CPU, `cuda` says how much it needs."""

    def no_room(*_: object) -> None:
        raise MemoryError

    device = SimpleNamespace(stream=nullcontext, to_host=np.asarray, stereo=lambda: None)
    monkeypatch.setattr("cfusion.kernels.load", lambda _: device)
    monkeypatch.setattr("importlib.import_module", lambda _: device)
    monkeypatch.setattr(on_device, "matched", no_room)
    image = np.zeros((375, 1242), np.float32)
    given = image, image, McCnn(disparities=192), MC_CNN_CHECKS
    assert on_device.match_on_device(*given, "auto") is None
    with pytest.raises(OutOfMemory, match=r"192 disparities of 1242 x 375 pixels need about 1\.1 GB"):
        on_device.match_on_device(*given, "cuda")


def test_cues_of_the_curves_are_shares() -> None:
    costs = np.array([[-0.2, 0.5, 1.7]], np.float32)
    curves = Curves(costs, costs, costs + np.array([[-1, 0, 5]], np.float32), costs)
    unsure, unlike = curve_cues(curves)
    np.testing.assert_array_equal(unlike, [[0, 0.5, 1]])
    np.testing.assert_array_equal(unsure[0, :2], 1)  # no margin to the second best
    assert 0 < unsure[0, 2] < 0.5
