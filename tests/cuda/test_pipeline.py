"""Whole calls on the device against the definition, and arrays that are lent and given back without a copy."""

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Stack, View, fuse, fuse_many, fuse_stack, kernels
from cfusion.errors import InputError, OutOfMemory
from cfusion.experiments import Store
from cfusion.experiments.conditions import OnTrack
from cfusion.experiments.models import Model
from cfusion.experiments.plan import Job
from cfusion.experiments.work import work

pytestmark = pytest.mark.cuda
CAMERA = Pinhole(60.0, 62.0, 20.3, 15.1, 42, 31)
reference = kernels.load("numpy")


def views(seed=0, count=5):
    """A slope with a step seen from a moving camera, with noise and holes."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:31, :42]
    out = []
    for k in range(count):
        depth = 3 + 0.01 * x + 0.3 * (x > 20) - 0.01 * y + rng.laplace(0, 0.05, (31, 42))
        depth[rng.random(depth.shape) < 0.1] = np.nan
        confidence = rng.uniform(0.5, 1, depth.shape) if seed else None
        pose = Pose(np.eye(3), np.array([0.05 * (k - 2), 0.0, 0.02 * k]))
        out.append(View(depth.astype(np.float32), CAMERA, pose, confidence=confidence))
    return out


def stack_of(given):
    return Stack(np.stack([view.depth for view in given]), camera=CAMERA)


def same(ours, defined):
    """To rounding; where that made one check end earlier than the other, to what the tolerance leaves open."""
    as_long = ours.iterations == defined.iterations
    assert np.array_equal(np.isnan(ours.depth), np.isnan(defined.depth))
    np.testing.assert_allclose(ours.depth, defined.depth, atol=2e-5 if as_long else 1e-2)
    np.testing.assert_allclose(ours.sigma, defined.sigma, atol=2e-5 if as_long else 1e-2)
    np.testing.assert_allclose(ours.confidence, defined.confidence, rtol=2e-3 if as_long else 0.1, atol=1e-4)
    assert np.array_equal(ours.provenance, defined.provenance)
    assert ours.status is defined.status
    if not np.isnan(defined.gap):
        assert ours.energies["total"] == pytest.approx(defined.energies["total"], rel=1e-5 if as_long else 1e-3)
        assert ours.gap <= 1e-3


@pytest.mark.parametrize("seed", [0, 1], ids=["plain", "confident"])
@pytest.mark.parametrize("method", ["median", "l1", "adapt-hprior", "rof-adapt", "auto"])
def test_fuse_is_the_definition_s(cuda, method, seed):
    given = views(seed)
    ours = fuse(given, method, backend="cuda")
    assert all(isinstance(each, np.ndarray) for each in (ours.depth, ours.confidence, ours.sigma, ours.provenance))
    defined = fuse(given, method, backend="numpy")
    if method == "auto":
        for choice in ("inverse", "local"):
            assert ours.parameters[choice] == defined.parameters[choice]
        assert ours.parameters["alpha"] == pytest.approx(defined.parameters["alpha"], rel=1e-5)
    same(ours, defined)


def test_views_of_several_shapes_come_back_in_their_order(cuda):
    given = views(1)
    camera = Pinhole(50.0, 51.0, 16.0, 12.0, 33, 25)
    given[1] = View(given[1].depth[:25, :33], camera, given[1].pose)
    same(fuse(given, "l1", backend="cuda"), fuse(given, "l1", backend="numpy"))
    ours, defined = fuse(given, "auto", backend="cuda"), fuse(given, "auto", backend="numpy")
    assert ours.parameters["alpha"] == pytest.approx(defined.parameters["alpha"], rel=1e-5)


def test_cosines_and_points_are_the_definition_s(cuda):
    for given in views():
        depth, numbers = given.depth, CAMERA.numbers
        np.testing.assert_allclose(
            cuda.cosines(depth[None], numbers), reference.cosines(depth[None], numbers), atol=1e-6
        )
        motion = given.pose.matrix()[:3]
        for ours, defined in zip(
            cuda.reproject(depth, numbers, numbers, motion),
            reference.reproject(depth, numbers, numbers, motion),
            strict=True,
        ):
            np.testing.assert_allclose(ours, defined, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["l1", "adapt-hprior", "auto"])
def test_a_stack_on_the_device_gives_a_result_there(cuda, method):
    import cupy

    stack = stack_of(views())
    lent = cupy.asarray(stack.depths)
    there = Stack(lent, camera=CAMERA)
    assert there.depths.data.ptr == lent.data.ptr
    ours, on_host = fuse_stack(there, method, backend="cuda"), fuse_stack(stack, method, backend="cuda")
    for name in ("depth", "confidence", "sigma", "provenance"):
        assert isinstance(getattr(ours, name), cupy.ndarray)
        assert np.array_equal(getattr(ours, name).get(), getattr(on_host, name), equal_nan=True)
    assert np.array_equal(lent.get(), stack.depths, equal_nan=True)  # what was lent is as it was
    with pytest.raises(InputError, match="pass backend='cuda'"):
        fuse_stack(there, method, backend="numpy")


def test_a_tensor_comes_in_and_goes_out_without_a_copy(cuda):
    torch = pytest.importorskip("torch")
    stack = stack_of(views())
    tensor = torch.from_numpy(stack.depths.copy()).cuda()
    weights = torch.ones_like(tensor)
    there = Stack(tensor, weights, camera=CAMERA)
    assert there.depths.data.ptr == tensor.data_ptr()
    depth = fuse_stack(there, "l1", backend="cuda").depth
    out = torch.from_dlpack(depth)
    assert out.is_cuda
    assert out.data_ptr() == depth.data.ptr


def test_a_sequence_is_one_after_the_other(cuda):
    bundles = [views(seed) for seed in range(5)]
    for ours, given in zip(fuse_many(bundles, "adapt-hprior", backend="cuda"), bundles, strict=True):
        assert np.array_equal(ours.depth, fuse(given, "adapt-hprior", backend="cuda").depth, equal_nan=True)


def test_out_of_memory_is_a_sentence_and_not_the_end(cuda):
    import cupy

    pool = cupy.get_default_memory_pool()
    before, stack = pool.get_limit(), Stack(np.tile(stack_of(views()).depths, (1, 10, 10)))
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + (1 << 20))
    try:
        with pytest.raises(OutOfMemory, match="5 maps of 420 x 310 pixels need about"):
            fuse_stack(stack, "l1", backend="cuda")
    finally:
        pool.set_limit(size=before)
    assert np.isfinite(fuse_stack(stack, "l1", backend="cuda").gap)


@pytest.mark.parametrize("method", ["l1", "auto"])
def test_too_little_memory_is_fused_in_tiles(cuda, method):
    import cupy

    pool = cupy.get_default_memory_pool()
    stack = Stack(np.tile(stack_of(views()).depths, (1, 20, 20)))
    whole = fuse_stack(stack, method, backend="cuda")
    needed, before = pool.total_bytes(), pool.get_limit()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + needed // 2)
    try:
        found = fuse_stack(stack, method, backend="cuda")
    finally:
        pool.set_limit(size=before)
    assert found.parameters["tiles"] > 1
    # a part estimates the noise by itself: two of the 1302 repeated pixels have a view for them in one of both
    assert (np.isnan(found.depth) != np.isnan(whole.depth)).mean() < 2e-3
    assert np.nanmean(abs(found.depth - whole.depth)) < 0.1 * np.nanmean(abs(stack.depths - whole.depth))


@pytest.mark.parametrize("method", ["mean", "l1"])
def test_an_experiment_s_splat_is_made_on_the_device(cuda, method, tmp_path):
    pytest.importorskip("embreex")
    pytest.importorskip("trimesh")
    condition = OnTrack(Model("city", "city"), "nadir", 3, 1, ("laplace", 6.0), 4.0, 0.1)
    ours, defined = (work(Job(condition, method, backend=name), Store(tmp_path))[1] for name in ("cuda", "numpy"))
    assert isinstance(ours["depth"], np.ndarray)
    np.testing.assert_allclose(ours["depth"], defined["depth"], atol=0.05)
