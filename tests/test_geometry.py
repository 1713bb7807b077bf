"""Cameras, views, stacks and normals."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cfusion.errors import CameraError, InputError, PoseError, ShapeError
from cfusion.geometry import Camera, Orthographic, Pinhole, Pose, Stack, View, normals
from cfusion.geometry.quaternion import quaternion_of, rotation_of
from cfusion.geometry.view import _maps

PINHOLE = Pinhole(50.0, 60.0, 15.3, 11.8, 32, 24)
ORTHOGRAPHIC = Orthographic(0.2, 15.3, 11.8, 32, 24)
CAMERAS = [PINHOLE, ORTHOGRAPHIC]


def depth_map(seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).uniform(1.0, 4.0, PINHOLE.shape)


@pytest.mark.parametrize("camera", CAMERAS, ids=["pinhole", "orthographic"])
def test_projection_inverts_back_projection(camera: Camera) -> None:
    depth = depth_map()
    u, v, z = camera.project(camera.back_project(depth))
    rows, columns = np.indices(camera.shape)
    np.testing.assert_allclose(u, columns, atol=1e-10)
    np.testing.assert_allclose(v, rows, atol=1e-10)
    np.testing.assert_allclose(z, depth)


@pytest.mark.parametrize("camera", CAMERAS, ids=["pinhole", "orthographic"])
def test_points_lie_on_their_rays(camera: Camera) -> None:
    at_one, at_three = (camera.back_project(np.full(camera.shape, z)) for z in (1.0, 3.0))
    rays = camera.rays()
    np.testing.assert_allclose(np.linalg.norm(rays, axis=-1), 1.0)
    np.testing.assert_allclose(np.cross(at_three - at_one, rays), 0.0, atol=1e-12)
    assert (rays[..., 2] > 0).all()


@pytest.mark.parametrize("camera", CAMERAS, ids=["pinhole", "orthographic"])
def test_unknown_depth_gives_unknown_points(camera: Camera) -> None:
    depth = depth_map()
    depth[3, 4] = np.nan
    points = camera.back_project(depth)
    assert np.isnan(points[3, 4]).all()
    assert np.isnan(points).sum() == 3


@pytest.mark.parametrize("camera", CAMERAS, ids=["pinhole", "orthographic"])
def test_a_scaled_camera_sees_the_same_corners(camera: Camera) -> None:
    half = camera.scaled(0.5)
    assert half.shape == (12, 16)
    point = np.array([0.3, -0.2, 2.0])
    u, v, _ = camera.project(point)
    u_half, v_half, _ = half.project(point)
    assert (u_half + 0.5, v_half + 0.5) == pytest.approx((0.5 * (u + 0.5), 0.5 * (v + 0.5)))


def test_pinhole_matrix_projects() -> None:
    point = np.array([0.3, -0.2, 2.0])
    x, y, w = PINHOLE.matrix @ point
    u, v, _ = PINHOLE.project(point)
    assert (u, v) == pytest.approx((x / w, y / w))


def test_points_behind_a_pinhole_have_no_pixel() -> None:
    u, v, z = PINHOLE.project([[0.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    assert np.isnan(u).all()
    assert np.isnan(v).all()
    assert z.tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("camera", CAMERAS, ids=["pinhole", "orthographic"])
def test_the_normals_of_a_plane_are_its_normal(camera: Camera) -> None:
    normal, offset = np.array([0.2, -0.3, -1.0]), -3.0  # normal . P = offset
    rays = camera.rays() / camera.rays()[..., 2:]
    if isinstance(camera, Pinhole):
        depth = offset / (rays @ normal)
    else:
        ground = camera.back_project(np.zeros(camera.shape))
        depth = (offset - ground @ normal) / normal[2]
    found = normals(depth, camera)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.broadcast_to(normal / np.linalg.norm(normal), found.shape), atol=1e-6)


def test_normals_look_at_the_camera_and_skip_holes() -> None:
    depth = depth_map()
    depth[5, 5] = np.nan
    depth[10:, :] = np.nan
    depth[12, 7] = 2.0  # no neighbour at all
    found = normals(depth, PINHOLE)
    assert np.isnan(found[12, 7]).all()
    assert np.isnan(found[5, 5]).all()
    assert np.isfinite(found[5, 4]).all()  # backward difference along the row
    assert np.isfinite(found[9, :]).all()  # backward difference along the column
    known = np.isfinite(found).all(axis=-1)
    assert known.sum() == 10 * 32 - 1
    assert ((found * PINHOLE.rays()).sum(axis=-1)[known] <= 1e-6).all()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("fx", 0.0, "fx is 0.0"),
        ("fy", -5.0, "fy is -5.0"),
        ("fx", np.nan, "fx is nan"),
        ("cx", np.inf, "principal point"),
        ("width", 0, "width is 0"),
        ("height", 2.5, "height is 2.5"),
    ],
)
def test_impossible_intrinsics_are_refused(field: str, value: float, says: str) -> None:
    values = {"fx": 50.0, "fy": 50.0, "cx": 16.0, "cy": 12.0, "width": 32, "height": 24} | {field: value}
    with pytest.raises(CameraError, match=says):
        Pinhole(**values)  # type: ignore[arg-type]


def test_an_orthographic_camera_needs_a_pixel_size() -> None:
    with pytest.raises(CameraError, match="pixel_size is 0"):
        Orthographic(0.0, 1.0, 1.0, 3, 3)
    with pytest.raises(CameraError, match="resize"):
        ORTHOGRAPHIC.scaled(0.0)


def broken(at: float) -> NDArray[Any]:
    depth = depth_map()
    depth[0, :3] = at
    return depth


@pytest.mark.parametrize(
    ("depth", "says"),
    [
        (broken(0.0), "zero or negative at 3 of 768 pixels; use NaN"),
        (broken(-1.0), "zero or negative at 3"),
        (broken(np.inf), "infinite at 3 of 768 pixels; use NaN"),
        (depth_map().T, r"depth is \(32, 24\), its camera sees \(24, 32\)"),
    ],
)
def test_a_view_refuses_depths_that_cannot_be(depth: NDArray[Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        View(depth, PINHOLE, Pose.identity())


def test_a_view_checks_what_comes_along() -> None:
    depth, here = depth_map(), Pose.identity()
    with pytest.raises(InputError, match="confidence is negative or not finite at 768"):
        View(depth, PINHOLE, here, confidence=-np.ones_like(depth))
    with pytest.raises(ShapeError, match="confidence is"):
        View(depth, PINHOLE, here, confidence=np.ones(3, np.float32))
    with pytest.raises(ShapeError, match="image is"):
        View(depth, PINHOLE, here, image=np.zeros((3, 3), np.float32))
    with pytest.raises(InputError, match="uint8"):
        View(depth, PINHOLE, here, image=np.zeros(depth.shape, np.uint8))
    with pytest.raises(InputError, match="runs from 0 to 255"):
        View(depth, PINHOLE, here, image=np.linspace(0, 255, depth.size, dtype=np.float32).reshape(depth.shape))


def test_a_view_owns_its_arrays() -> None:
    depth, confidence = depth_map(), np.ones(PINHOLE.shape, np.float32)
    depth[0, 0] = np.nan
    view = View(depth, PINHOLE, Pose.identity(), np.zeros((*depth.shape, 3)), confidence, "a")
    depth[1, 1] = confidence[1, 1] = 9.0
    assert view.depth.dtype == np.float32
    assert view.depth[1, 1] != 9.0
    assert view.confidence is not None
    assert view.confidence[1, 1] == 1.0
    assert view.confidence[0, 0] == 0.0  # nothing is known there
    with pytest.raises(ValueError, match="read-only"):
        view.depth[0, 0] = 1.0


def test_a_stack_counts_observations() -> None:
    depths = np.stack([depth_map(k) for k in range(3)]).astype(np.float32)
    depths[0, 0, 0] = np.nan
    assert Stack(depths).count[0, :2].tolist() == [2, 3]
    weights = np.ones_like(depths)
    weights[1, 0, 0] = 0.0
    stack = Stack(depths, weights, PINHOLE)
    assert stack.count[0, :2].tolist() == [1, 3]
    assert stack.weights is not None
    assert stack.weights[0, 0, 0] == 0.0
    assert weights[0, 0, 0] == 1.0  # the caller's array is left alone
    assert (stack.views, stack.shape) == (3, (24, 32))


def test_a_stack_takes_heights_below_zero_without_a_copy() -> None:
    depths = np.full((2, 3, 4), -1.5, np.float32)
    assert np.shares_memory(Stack(depths).depths, depths)
    assert depths.flags.writeable


@pytest.mark.parametrize(
    ("depths", "says"),
    [
        (np.zeros((0, 3, 4)), "no depth maps"),
        (np.zeros((2, 0, 4)), "give maps with pixels"),
        (np.full((2, 3, 4), np.nan), "every depth in the stack is NaN"),
        (np.full((2, 3, 4), np.inf), "infinite at 24"),
        (np.zeros((3, 4)), r"a stack is \(3, 4\); give \(K, H, W\)"),
    ],
)
def test_a_stack_refuses_what_cannot_be_fused(depths: NDArray[Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Stack(depths)


def test_a_stack_checks_what_comes_along() -> None:
    depths = np.ones((2, 3, 4), np.float32)
    with pytest.raises(ShapeError, match="weights is"):
        Stack(depths, np.ones((3, 4), np.float32))
    with pytest.raises(InputError, match="weights is negative or not finite at 24"):
        Stack(depths, np.full((2, 3, 4), np.nan, np.float32))
    with pytest.raises(ShapeError, match="their camera sees"):
        Stack(depths, camera=PINHOLE)
    with pytest.raises(ShapeError, match="filled is"):
        Stack(depths, filled=np.zeros((3, 4), bool))


def test_a_stack_holds_arrays_of_its_types_that_nobody_writes_to() -> None:
    """Whatever they were given as."""
    stack = Stack([[[1.0, 2.0]]], [[[1.0, 2.0]]], image=[[0.0, 1.0]], filled=[[[False, True]]])
    held = {"depths": np.float32, "weights": np.float32, "image": np.float32, "filled": np.bool_}
    for name, dtype in held.items():
        array = getattr(stack, name)
        assert array.dtype == dtype
        assert not array.flags.writeable


def test_a_rotation_and_its_quaternion_are_one() -> None:
    """Half turns about each axis have w = 0; of the two quaternions of a rotation, that with w >= 0 is given."""
    turns = [*np.eye(4), *np.random.default_rng(4).normal(size=(20, 4))]
    for given in (each / np.linalg.norm(each) for each in turns):
        found = np.array(quaternion_of(rotation_of(*given)))
        assert found[0] >= 0
        assert abs(found @ given) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("norm", [0.49, 0.51, 1.99, 2.01])
def test_a_quaternion_of_a_file_has_about_the_norm_of_one(norm: float) -> None:
    """Other columns of the file have another norm, as a rule; a few digits of rounding do no harm."""
    if 0.5 < norm < 2:
        np.testing.assert_allclose(rotation_of(0.6 * norm, 0, 0.8 * norm, 0), rotation_of(0.6, 0, 0.8, 0), atol=1e-12)
    else:
        with pytest.raises(PoseError, match=f"norm {norm:.2g} instead of 1"):
            rotation_of(0.6 * norm, 0, 0.8 * norm, 0)


def test_a_stack_is_looked_at_map_by_map() -> None:
    """Masks of all maps at once would need as much memory as the stack; rows one by one would take for ever."""
    for shape in ((5, 7), (3, 5, 7)):
        assert [each.shape for each in _maps(np.zeros(shape, np.float32))] == [(1, 5, 7)] * (3 if len(shape) > 2 else 1)
