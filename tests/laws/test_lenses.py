"""A camera behind a lens: projecting is the inverse of back-projecting, and every backend bends rays alike."""

import dataclasses

import numpy as np
import pytest

from cfusion import BrownConrady, Pinhole, Pose, View, fuse, kernels
from cfusion.datasets import read, write_views
from cfusion.errors import CameraError, InputError
from cfusion.source import Posed

LENS = BrownConrady(60.0, 61.0, 31.2, 23.9, 64, 48, k1=-0.28, k2=0.09, p1=0.003, p2=-0.002, k3=-0.01)
STRAIGHT = Pinhole(60.0, 61.0, 31.2, 23.9, 64, 48)
NUMPY = kernels.load("numpy")


def ramp(camera: Pinhole, pose: Pose) -> np.ndarray:
    """Depth of the plane 0.2 X - 0.1 Y + Z = 4 of the world, pixel by pixel."""
    normal = np.array([0.2, -0.1, 1.0])
    rays = camera.back_project(np.ones(camera.shape)) @ pose.rotation.T
    return (4 - normal @ pose.translation) / (rays @ normal)


def test_projecting_undoes_back_projecting() -> None:
    depth = np.random.default_rng(0).uniform(1, 5, LENS.shape)
    u, v, z = LENS.project(LENS.back_project(depth))
    columns, rows = np.meshgrid(np.arange(64), np.arange(48))
    np.testing.assert_allclose(u, columns, atol=1e-6)
    np.testing.assert_allclose(v, rows, atol=1e-6)
    np.testing.assert_allclose(z, depth)
    half = LENS.scaled(0.5)
    np.testing.assert_allclose(half.project(LENS.back_project(depth))[0] + 0.5, (u + 0.5) / 2, atol=1e-6)


def test_without_coefficients_it_is_the_pinhole() -> None:
    plain = BrownConrady(*dataclasses.astuple(STRAIGHT))
    depth = np.random.default_rng(0).uniform(1, 5, LENS.shape)
    assert np.array_equal(plain.back_project(depth), STRAIGHT.back_project(depth))
    assert np.array_equal(plain.numbers, STRAIGHT.numbers)


def test_barrel_and_pincushion() -> None:
    """k1 < 0 draws what is far from the axis towards the middle of the image, k1 > 0 away from it."""
    corner = STRAIGHT.back_project(np.ones(STRAIGHT.shape))[0, 0]
    barrel, pincushion = (dataclasses.replace(BrownConrady(*dataclasses.astuple(STRAIGHT)), k1=k) for k in (-0.1, 0.1))
    assert barrel.project(corner)[0] > 0 > pincushion.project(corner)[0]


def test_backends_bend_alike(every_backend) -> None:
    rng = np.random.default_rng(1)
    depth = rng.uniform(2, 5, LENS.shape).astype(np.float32)
    motion = Pose.identity().matrix()[:3] + rng.normal(0, 0.02, (3, 4))
    for pair in ((LENS, STRAIGHT), (STRAIGHT, LENS), (LENS, LENS)):
        numbers = [camera.numbers for camera in pair]
        for ours, defined in zip(
            every_backend.reproject(depth, *numbers, motion), NUMPY.reproject(depth, *numbers, motion), strict=True
        ):
            np.testing.assert_allclose(ours, defined, rtol=1e-9, atol=1e-9)
        surface, nothing = np.full(LENS.shape, 3.0, np.float32), np.empty((0, 0), np.float32)
        read_by = [each.read_view(surface, *numbers, motion, depth, nothing, 0.4) for each in (every_backend, NUMPY)]
        for ours, defined in zip(*read_by, strict=True):
            np.testing.assert_allclose(ours, defined, rtol=1e-5)
    smooth = ramp(LENS, Pose.identity()).astype(np.float32)[None]
    ours, defined = (each.cosines(smooth, LENS.numbers) for each in (every_backend, NUMPY))
    np.testing.assert_allclose(ours, defined, rtol=1e-5)


def test_normals_of_a_plane_are_seen_at_its_angle() -> None:
    cosine = NUMPY.cosines(ramp(LENS, Pose.identity()).astype(np.float32)[None], LENS.numbers)[0]
    normal = np.array([0.2, -0.1, 1.0]) / np.linalg.norm([0.2, -0.1, 1.0])
    np.testing.assert_allclose(cosine, np.abs(LENS.rays() @ normal), atol=2e-3)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_plane_seen_through_lenses_is_read_where_it_is(backend: str) -> None:
    """Three views of one plane, two of them through the lens: every reading is the plane, to a thousandth."""
    loaded = kernels.load(backend)
    poses = [Pose(np.eye(3), np.array([0.1 * k, -0.05 * k, 0.0])) for k in (-1, 0, 1)]
    cameras = [LENS, LENS, STRAIGHT]
    views = [View(ramp(camera, pose), camera, pose) for camera, pose in zip(cameras, poses, strict=True)]
    surface = views[1].depth
    reading = Posed.of(views, 1, loaded).at(surface, [1.0] * 3, loaded)
    inner = (slice(None), slice(6, -6), slice(8, -8))
    np.testing.assert_allclose(reading.depths[inner], np.broadcast_to(surface, reading.depths.shape)[inner], atol=4e-3)
    fused = fuse(views, "median", backend=backend).depth
    np.testing.assert_allclose(fused[6:-6, 8:-8], surface[6:-6, 8:-8], atol=0.05)


def test_a_lens_that_folds_the_image_over_is_refused() -> None:
    with pytest.raises(CameraError, match="folds the image inside its corners"):
        dataclasses.replace(LENS, k1=-4.0)
    with pytest.raises(CameraError, match="have to be finite"):
        dataclasses.replace(LENS, p1=float("nan"))


def test_a_lens_may_fold_the_image_over_beyond_its_corners() -> None:
    """The outermost radius of k1 < 0 is 2 / (3 sqrt(-3 k1)): a thirtieth outside of a corner, or inside of it."""
    corner = np.sqrt(2) * 50 / 100

    def lens(outermost: float) -> BrownConrady:
        return BrownConrady(100, 100, 50, 50, 101, 101, k1=-((2 / (3 * outermost)) ** 2) / 3)

    assert np.isfinite(lens(corner * (1 + 1 / 30)).back_project(np.ones((101, 101)))).all()
    with pytest.raises(CameraError, match="folds the image inside its corners"):
        lens(corner * (1 - 1 / 30))


def test_a_bundle_keeps_the_lens_and_other_formats_say_that_they_do_not(tmp_path) -> None:
    view = View(ramp(LENS, Pose.identity()), LENS, Pose.identity())
    write_views([view], tmp_path / "bundle")
    assert read(tmp_path / "bundle")[0].camera == LENS
    with pytest.raises(InputError, match="cannot store lens distortion"):
        write_views([view], tmp_path / "colmap", "colmap")


@pytest.mark.parametrize("which", range(5), ids=["k1", "k2", "p1", "p2", "k3"])
def test_every_coefficient_alone_bends(which: int) -> None:
    """The compiled cameras against the definition, with one coefficient at a time."""
    numba = pytest.importorskip("numba")
    from cfusion.kernels.cpu import cameras as compiled
    from cfusion.kernels.numpy import cameras as definition

    numbers = np.array([0.0, 50.0, 50.0, 20.0, 15.0, *(0.02 * (k == which) for k in range(5))])
    assert compiled.is_bent.py_func(numbers)
    x, y = definition.slopes(numbers, np.array([35.0]), np.array([28.0]))
    assert (float(x[0]), float(y[0])) != ((35.0 - 20) / 50, (28.0 - 15) / 50)
    of_pixel = numba.njit(lambda camera, u, v: compiled.slopes(camera, u, v))
    assert of_pixel(numbers, 35.0, 28.0) == pytest.approx((float(x[0]), float(y[0])), abs=1e-12)
    assert not compiled.is_bent.py_func(np.zeros(10))


@pytest.mark.parametrize(("width", "height"), [(200, 20), (20, 200)])
def test_a_lens_may_fold_where_a_narrow_image_does_not_reach(width: int, height: int) -> None:
    """It is asked in the image's own corners: here up to a slope of 0.6, while it folds at 0.86."""
    middle = (width - 1) / 2, (height - 1) / 2
    camera = BrownConrady(160.0, 160.0, *middle, width, height, k1=-0.2)
    assert camera.shape == (height, width)
    with pytest.raises(CameraError, match="folds the image"):
        BrownConrady(70.0, 70.0, *middle, width, height, k1=-0.2)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("end", [0, 1])
def test_a_lens_that_folds_in_one_corner_folds(axis: int, end: int) -> None:
    """Its middle lies beside the opposite end: the corner is at a slope of 1.2."""
    size, middle = [60, 60], [29.5, 29.5]
    size[axis], middle[axis] = 200, 190.0 if end == 0 else 9.0
    with pytest.raises(CameraError, match="folds the image"):
        BrownConrady(160.0, 160.0, *middle, *size, k1=-0.2)
    assert BrownConrady(260.0, 260.0, *middle, *size, k1=-0.2).width == size[0]
