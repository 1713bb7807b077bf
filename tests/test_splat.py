"""Splatting: analytic planes from other places, the nearest wins, nothing is invented."""

import numpy as np
import pytest

from cfusion.errors import InputError
from cfusion.geometry import Orthographic, Pinhole, Pose, View
from cfusion.kernels import cpu
from cfusion.kernels import numpy as reference
from cfusion.source import Splat, splat

BACKENDS = pytest.mark.parametrize("backend", [reference, cpu], ids=["numpy", "cpu"])
CAMERA = Pinhole(fx=60.0, fy=58.0, cx=31.5, cy=23.0, width=64, height=48)
FLAT = Orthographic(pixel_size=0.05, cx=31.5, cy=23.0, width=64, height=48)
NORMAL, OFFSET = np.array([0.15, -0.1, 1.0]), 3.0  # the plane NORMAL . point = OFFSET of the world


def turned(degrees_about_y, translation):
    angle = np.radians(degrees_about_y)
    c, s = np.cos(angle), np.sin(angle)
    return Pose(np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]), np.asarray(translation))


def plane_in(camera, world_from_camera):
    """The plane's depth in a view, what is affine in u and v (inverse depth, or depth), and its slopes."""
    normal = world_from_camera.rotation.T @ NORMAL
    offset = OFFSET - NORMAL @ world_from_camera.translation
    v, u = np.mgrid[: camera.height, : camera.width].astype(np.float64)
    if isinstance(camera, Pinhole):
        slope = normal[0] / camera.fx / offset, normal[1] / camera.fy / offset
        affine = normal[2] / offset + slope[0] * (u - camera.cx) + slope[1] * (v - camera.cy)
        return 1 / affine, affine, slope
    slope = -normal[0] * camera.pixel_size / normal[2], -normal[1] * camera.pixel_size / normal[2]
    affine = offset / normal[2] + slope[0] * (u - camera.cx) + slope[1] * (v - camera.cy)
    return affine, affine, slope


def plane_view(camera, world_from_camera, **extras):
    return View(plane_in(camera, world_from_camera)[0].astype(np.float32), camera, world_from_camera, **extras)


def speckled(rng, camera, world_from_camera, unknown=0.3, **extras):
    depth = rng.uniform(2, 4, camera.shape).astype(np.float32)
    depth[rng.random(camera.shape) < unknown] = np.nan
    return View(depth, camera, world_from_camera, **extras)


@BACKENDS
@pytest.mark.parametrize("camera", [CAMERA, FLAT], ids=["pinhole", "orthographic"])
def test_the_reference_lands_on_itself(backend, camera):
    rng = np.random.default_rng(0)
    far_away = turned(40, [1000.0, -200.0, 30.0])
    view = speckled(rng, camera, far_away, confidence=rng.uniform(0.1, 1, camera.shape), image=rng.random(camera.shape))
    stack = Splat(fill=False)([view], backend=backend)
    assert np.array_equal(stack.depths[0], view.depth, equal_nan=True)
    assert np.array_equal(stack.weights[0], np.where(np.isnan(view.depth), 0, view.confidence))
    assert np.array_equal(stack.image, view.image)
    assert stack.camera == camera
    assert stack.filled is None
    closed = Splat()([view], backend=backend)
    measured = ~np.isnan(view.depth)
    assert np.array_equal(closed.depths[0][measured], view.depth[measured])
    assert not closed.filled[0][measured].any()


@BACKENDS
@pytest.mark.parametrize("onto", [CAMERA, FLAT], ids=["pinhole", "orthographic"])
@pytest.mark.parametrize("other", [CAMERA, FLAT], ids=["from-pinhole", "from-orthographic"])
def test_a_plane_seen_from_elsewhere_is_the_plane_within_half_a_pixel(backend, onto, other):
    world_from_reference, world_from_view = turned(4, [0.1, 0.0, -0.1]), turned(-6, [-0.2, 0.05, 0.1])
    views = [plane_view(onto, world_from_reference), plane_view(other, world_from_view)]
    seen = Splat(fill=False)(views, onto=0, backend=backend).depths[1].astype(np.float64)
    landed = ~np.isnan(seen)
    _, affine, slope = plane_in(onto, world_from_reference)
    value = 1 / seen if isinstance(onto, Pinhole) else seen
    assert landed.mean() > 0.4
    assert np.abs(value - affine)[landed].max() <= 0.5 * np.abs(slope).sum() + 1e-6


@BACKENDS
def test_the_surface_in_front_wins(backend):
    wall, box = plane_view(CAMERA, Pose.identity()), np.full(CAMERA.shape, np.nan, np.float32)
    box[20:30, 20:40] = 1.0
    side = turned(0, [0.1, 0.0, 0.0])
    both = View(np.where(np.isnan(box), wall.depth, box), CAMERA, side)
    seen = Splat(fill=False)([plane_view(CAMERA, Pose.identity()), both], onto=0, backend=backend).depths[1]
    shift = round(0.1 * CAMERA.fx)
    assert (seen[20:30, 20 + shift : 40 + shift] == 1.0).all()


@BACKENDS
def test_points_behind_a_pinhole_are_not_seen(backend):
    behind = View(np.ones(CAMERA.shape), CAMERA, turned(0, [0, 0, -10.0]))
    stack = Splat()([plane_view(CAMERA, Pose.identity()), behind], onto=0, backend=backend)
    assert np.isnan(stack.depths[1]).all()
    assert not stack.filled[1].any()


@BACKENDS
def test_fill_keeps_what_was_measured_and_stays_within_the_closing(backend):
    rng = np.random.default_rng(1)
    views = [speckled(rng, CAMERA, turned(step, [0.02 * step, 0, 0]), 0.6) for step in (-2, 0, 3)]
    plain, filled = Splat(fill=False)(views, backend=backend), Splat(radius=3)(views, backend=backend)
    for before, after, mask in zip(plain.depths, filled.depths, filled.filled, strict=True):
        measured = ~np.isnan(before)
        assert np.array_equal(after[measured], before[measured])
        assert np.array_equal(~np.isnan(after), reference.close_mask(measured, 3))
        assert np.array_equal(mask, ~np.isnan(after) & ~measured)
        assert mask.any()
    none = Splat(radius=0)(views, backend=backend)
    assert np.array_equal(none.depths, plain.depths, equal_nan=True)


@BACKENDS
def test_confidence_travels_with_its_point(backend):
    rng = np.random.default_rng(2)
    pose = turned(5, [0.1, 0.0, 0.0])
    depth = rng.uniform(2, 4, CAMERA.shape)
    tagged = View(depth, CAMERA, pose, confidence=depth)  # what arrives tells where it came from
    plain = plane_view(CAMERA, Pose.identity())
    stack = Splat(fill=False)([plain, tagged], onto=0, backend=backend)
    in_own_frame = pose.inverse().apply(CAMERA.back_project(stack.depths[1]))[..., 2]
    landed = stack.weights[1] > 0
    # Rounding to a pixel moves the point sideways by half of one, its depth by that times sin 5 degrees.
    assert np.abs(in_own_frame - stack.weights[1])[landed].max() < 0.5 / CAMERA.fx * 4 * np.sin(np.radians(5)) * 1.1
    assert np.array_equal(landed, ~np.isnan(stack.depths[1]))
    assert (stack.weights[0] == 1).all()
    closed = Splat()([plain, tagged], onto=0, backend=backend)
    assert np.array_equal(closed.weights > 0, ~np.isnan(closed.depths))
    assert Splat()([plain, plain], backend=backend).weights is None


@BACKENDS
def test_a_point_of_zero_confidence_hides_nothing(backend):
    wall = plane_view(CAMERA, Pose.identity())
    ghost = np.where(np.arange(CAMERA.width) < 20, np.float32(0.5), wall.depth)
    # Seen from the left, the ghost moves by six columns and the wall by one.
    view = View(ghost, CAMERA, turned(0, [0.05, 0.0, 0.0]), confidence=(ghost != 0.5).astype(np.float32))
    stack = Splat(fill=False)([wall, view], onto=0, backend=backend)
    assert np.nanmin(stack.depths[1]) > 1
    assert np.isfinite(stack.depths[1][:, 22:26]).all()
    assert np.array_equal(stack.weights[1] == 1, ~np.isnan(stack.depths[1]))


@BACKENDS
def test_cameras_of_different_size(backend):
    half = plane_view(CAMERA.scaled(0.5), turned(2, [0.05, 0.0, 0.0]))
    views = [half, plane_view(CAMERA, Pose.identity())]
    for onto in (0, 1):
        stack = Splat()(views, onto=onto, backend=backend)
        assert stack.depths.shape == (2, *views[onto].shape)
        inner = stack.depths[:, 8:-8, 8:-8]
        assert np.nanmax(np.abs(inner[0] / inner[1] - 1)) < 0.02
        assert np.isfinite(inner).all()


@BACKENDS
def test_the_unit_does_not_matter(backend):
    rng = np.random.default_rng(3)
    metres = [speckled(rng, CAMERA, turned(a, [0.02 * a, 0.01, 0])) for a in (-3, 0, 4)]
    millimetres = [
        View(view.depth * 1000, CAMERA, Pose(view.pose.rotation, view.pose.translation * 1000)) for view in metres
    ]
    np.testing.assert_allclose(
        Splat()(millimetres, backend=backend).depths,
        1000 * Splat()(metres, backend=backend).depths,
        rtol=1e-6,
    )


def test_the_middle_view_unless_told():
    rng = np.random.default_rng(4)
    views = [speckled(rng, CAMERA, turned(a, [0, 0, 0])) for a in (0, 10, 20, 30)]
    depths = Splat(fill=False)(views, backend=reference).depths
    assert np.array_equal(depths[2], views[2].depth, equal_nan=True)
    assert not np.array_equal(depths[1], views[1].depth, equal_nan=True)


def test_same_bits_for_any_number_of_threads(monkeypatch):
    rng = np.random.default_rng(5)
    views = [speckled(rng, CAMERA, turned(a, [0.02 * a, 0, 0]), 0.5) for a in range(-3, 4)]
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    many = Splat()(views, backend=cpu)
    monkeypatch.setattr(splat, "PIXELS_IN_FLIGHT", 0)
    one = Splat()(views, backend=cpu)
    assert np.array_equal(many.depths, one.depths, equal_nan=True)
    assert np.array_equal(many.filled, one.filled)


def test_backends_agree_bit_by_bit():
    rng = np.random.default_rng(6)
    views = [
        speckled(rng, CAMERA, turned(a, [0.02 * a, 0, 0]), 0.5, confidence=rng.random(CAMERA.shape)) for a in (-3, 0, 3)
    ]
    ours, defined = Splat()(views, backend=cpu), Splat()(views, backend=reference)
    assert np.array_equal(ours.depths, defined.depths, equal_nan=True)
    assert np.array_equal(ours.weights, defined.weights)


@pytest.mark.parametrize("onto", [-1, 2, 7])
def test_a_reference_outside_the_range_is_refused(onto):
    views = [plane_view(CAMERA, Pose.identity())] * 2
    with pytest.raises(InputError, match=rf"reference {onto} .* 0 to 1"):
        Splat()(views, onto=onto, backend=reference)


def test_no_views_and_no_radius_are_refused():
    with pytest.raises(InputError, match="no views"):
        Splat()([], backend=reference)
    with pytest.raises(InputError, match="radius is -1"):
        Splat(radius=-1)


def test_views_without_a_confidence_count_fully_beside_those_with_one() -> None:
    """Uploaded together; of zero confidence is no observation; shapes stay apart."""
    from cfusion.source.upload import upload

    small, large = Pinhole(5.0, 5.0, 1.0, 1.0, 3, 2), Pinhole(5.0, 5.0, 1.0, 1.0, 4, 3)
    trust = np.array([[0.5, 0.0, 1.0]] * 2, np.float32)
    views = [
        View(np.full((2, 3), 2.0), small, Pose.identity(), confidence=trust),
        View(np.full((3, 4), 3.0), large, Pose.identity()),
        View(np.full((2, 3), 4.0), small, Pose.identity()),
    ]
    first, second = upload(views, reference)
    assert (list(first.indices), list(second.indices)) == ([0, 2], [1])
    np.testing.assert_array_equal(first.confidences, [trust, np.ones((2, 3))])
    np.testing.assert_array_equal(first.depths[0], [[2, np.nan, 2]] * 2)
    assert (first.depths[1] == 4).all()
    assert (second.confidences == 1).all()
    assert upload(views[1:], reference)[0].confidences is None


def test_some_of_uploaded_views_are_numbered_anew_and_keep_what_they_are() -> None:
    from cfusion.source.upload import parts_of, upload

    camera = Pinhole(5.0, 5.0, 1.0, 1.0, 3, 2)
    poses = [Pose(np.eye(3), np.array([float(k), 0.0, 0.0])) for k in range(5)]
    for trust in (None, np.full((2, 3), 0.5, np.float32)):
        views = [View(np.full((2, 3), 1.0 + k), camera, pose, confidence=trust) for k, pose in enumerate(poses)]
        uploads = upload(views, reference)
        for chosen in ([1, 2, 3], [4, 0, 2], [3]):
            (part,) = parts_of(uploads, chosen)
            np.testing.assert_array_equal(sorted(part.indices), range(len(chosen)))
            for place, number in enumerate(part.indices):
                assert (part.depths[place] == 1 + chosen[number]).all()
                assert part.poses[place] is poses[chosen[number]]
            assert np.shares_memory(part.depths, uploads[0].depths) == (chosen != [4, 0, 2])  # no copy of a run
            assert (part.confidences is None) == (trust is None)
            assert part.confidences is None or part.confidences.shape == part.depths.shape
        assert parts_of(uploads, []) == []


def test_uploaded_views_move_with_their_views() -> None:
    """Of two shapes: poses and depths of what is on a device are those of the views that would be uploaded anew."""
    from cfusion.source import Motions, Posed, upload

    rng = np.random.default_rng(3)
    small, large = Pinhole(5.0, 5.0, 1.0, 1.0, 3, 2), Pinhole(5.0, 5.0, 1.0, 1.0, 4, 3)
    places = [Pose(np.eye(3), np.array([0.1 * k, 0.0, 0.0])) for k in range(4)]
    cameras = (small, large, large, small)
    views = [View(rng.uniform(1, 2, c.shape), c, pose) for c, pose in zip(cameras, places, strict=True)]
    numbers = rng.normal(0, 0.01, (4, 7))
    numbers[[1, 2, 3], 6] = 0  # the depths of one shape stay, and of one view of the other
    moved = Posed(views, 1, upload(views, reference)).moved(Motions(numbers, 1.5))
    assert moved.uploads is not None
    for ours, anew in zip(moved.uploads, upload(moved.views, reference), strict=True):
        np.testing.assert_array_equal(ours.depths, anew.depths)
        for one, other in zip(ours.poses, anew.poses, strict=True):
            np.testing.assert_array_equal(one.matrix(), other.matrix())
    factors = [float(np.median(after.depth / before.depth)) for before, after in zip(views, moved.views, strict=True)]
    assert factors == pytest.approx(1 + numbers[:, 6])
