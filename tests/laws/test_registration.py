"""A view a little out of place is moved back; noise, errors that views share, and what nothing tells move nobody."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

pytest.importorskip("embreex", reason="the scenes of these laws are ray-cast")

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.auto.registration import _beyond_rigid as beyond_rigid
from cfusion.auto.registration import register
from cfusion.auto.uncertainty import TOWARDS_MEAN, with_poses
from cfusion.geometry import Orthographic
from cfusion.source import Motions, Posed
from cfusion.synthetic import (
    PAPER_CAMERA,
    Gauss,
    Kinect,
    Laplace,
    Noise,
    Scene,
    blob,
    bundle,
    disturbed,
    object_bundle,
    orbit,
    room,
    sphere,
)

NUMPY = kernels.load("numpy")
CAMERA = PAPER_CAMERA.scaled(0.25)
NOISES: dict[str, Noise] = {
    "gauss": Gauss(0.01), "laplace": Laplace(0.1), "kinect": Kinect(focal=CAMERA.fx), "strong": Laplace(0.6),
}  # fmt: skip
OFF = Motions(np.array([[0.003, -0.002, 0.004, 0.002, -0.003, 0.003]]), 3.0).poses[0]  # 0.3 degrees


@cache
def seen(noise: str, count: int = 5) -> tuple[list[View], np.ndarray]:
    return object_bundle(room(), NOISES[noise], np.random.default_rng(5), count, camera=CAMERA, image=False)


def misplaced(views: list[View], motions: dict[int, Pose], reference: int | None = None) -> Posed:
    """The views with some moved, in the frame of the reference."""
    source = Posed.of(views, reference, NUMPY)
    frame = views[source.reference].pose
    moved = [
        replace(view, pose=frame @ motions[k] @ frame.inverse() @ view.pose) if k in motions else view
        for k, view in enumerate(views)
    ]
    return Posed.of(moved, reference, NUMPY)


def left(source: Posed, views: list[View], truth: np.ndarray) -> list[float]:
    """How far the surface of each view is from where it belongs, along its normal, root mean square."""
    frame = views[source.reference].pose
    rows, columns = np.indices(truth.shape)
    x, y = (columns - CAMERA.cx) / CAMERA.fx, (rows - CAMERA.cy) / CAMERA.fy
    point = np.stack([x, y, np.ones_like(x)], -1) * truth[..., None]
    normal = np.cross(np.gradient(point, axis=1), np.gradient(point, axis=0))
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    flat = np.abs(np.gradient(np.gradient(truth, axis=1), axis=1)) < 0.01
    out = []
    for moved, view in zip(source.views, views, strict=True):
        motion = frame.inverse() @ moved.pose @ view.pose.inverse() @ frame
        along = ((motion.apply(point.reshape(-1, 3)).reshape(point.shape) - point) * normal).sum(-1)[flat]
        out.append(float(np.sqrt(np.nanmean(along**2))))
    return out


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_views_out_of_place_are_moved_back_and_the_others_stay(backend):
    views, truth = seen("gauss")
    source = misplaced(views, {0: OFF, 3: OFF.inverse()})
    found = register(source, truth, kernels.load(backend))
    before, after = left(source, views, truth), left(found, views, truth)
    for k in (0, 3):
        assert before[k] > 0.005
        assert after[k] < 0.2 * before[k]
    assert max(after[k] for k in (1, 2, 4)) < 1e-12
    assert found.motions.degrees(0) == pytest.approx(0.309, abs=0.15)
    assert found.motions.distance(1) == 0


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**10])
def test_units_of_length_do_not_matter(scale):
    """In millimetres, or kilometres, the same views are moved by the same angles and shares of the depth."""
    views, truth = seen("gauss")
    source = misplaced(views, {0: OFF})
    scaled = [
        replace(
            view, depth=view.depth * np.float32(scale), pose=Pose(view.pose.rotation, view.pose.translation * scale)
        )
        for view in source.views
    ]
    one = register(source, truth, NUMPY)
    other = register(Posed.of(scaled, None, NUMPY), truth * np.float32(scale), NUMPY)
    np.testing.assert_allclose(other.motions.numbers, one.motions.numbers, rtol=1e-5)
    assert one.motions.numbers[0].any()


@pytest.mark.parametrize("noise", NOISES)
def test_noise_moves_nobody(noise):
    views, truth = seen(noise)
    source = Posed.of(views, None, NUMPY)
    assert register(source, truth, NUMPY) is source


@pytest.mark.parametrize("camera", [Orthographic(0.1, 31.5, 23.5, 64, 48), Pinhole(80, 80, 31.5, 23.5, 64, 48)])
def test_pixels_beside_the_place_are_no_motion(camera):
    """Views of an exact plane, fractions of a pixel beside: the nearest pixel is off by a part of the slope, alike."""
    rows, columns = np.indices(camera.shape).astype(np.float64)
    places = [np.array([0.05, 0.03, 0.0]) * k for k in range(5)]
    if isinstance(camera, Pinhole):  # z = 5 + 0.4 x + 0.2 y along the ray (a, b, 1)
        a, b = (columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy
        depths = [(5 + 0.4 * place[0] + 0.2 * place[1]) / (1 - 0.4 * a - 0.2 * b) for place in places]
    else:
        x, y = (columns - camera.cx) * camera.pixel_size, (rows - camera.cy) * camera.pixel_size
        depths = [5 + 0.4 * (x + place[0]) + 0.2 * (y + place[1]) for place in places]
    views = [View(d.astype(np.float32), camera, Pose(np.eye(3), p)) for d, p in zip(depths, places, strict=True)]
    source = Posed.of(views, 0, NUMPY)
    assert register(source, views[0].depth, NUMPY) is source


def test_what_all_others_share_moves_nobody():
    """A reference that measures too far contradicts all others alike: it is the reference."""
    views, truth = seen("gauss")
    biased = [replace(view, depth=view.depth + np.float32(0.01 * (k == 2))) for k, view in enumerate(views)]
    source = Posed.of(biased, None, NUMPY)
    assert register(source, truth + np.float32(0.01), NUMPY) is source


def test_everybody_off_is_moved_everybody_also_a_little():
    views, truth = seen("gauss", 7)
    rng = np.random.default_rng(2)
    off = Motions(0.003 * rng.normal(size=(7, 6)), 3.0).poses
    source = misplaced(views, {k: off[k] for k in range(7) if k != 3})
    before, after = (left(each, views, truth) for each in (source, register(source, truth, NUMPY)))
    assert np.median(before) > 0.005
    assert max(after) < 0.002


def test_far_views_are_moved_only_once_it_is_known_that_nobodys_pose_is_exact():
    """Eleven views of an object 5 degrees apart, one at 55: it stays, also if one of them is off; not if all are."""
    views, truth = object_bundle(blob(), Gauss(0.01), np.random.default_rng(5), 23, camera=CAMERA, image=False)
    near = {k: each for k, each in enumerate(Motions(0.003 * normal(11, 6), 3.0).poses) if k != 5}
    kept = [*views[6:17], views[22]]
    for others, moves in (({}, False), ({3: OFF}, False), (near, True)):
        given = misplaced(kept, {**others, 11: OFF}, 5).views
        found = register(Posed(given, 5), truth, NUMPY)
        assert moves == (found.motions is not None and bool(found.motions.numbers[11].any()))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).normal(size=shape)


def plane(tilt: float) -> tuple[Posed, np.ndarray]:
    """A plane before five cameras side by side, one of them shifted along it and away from it."""
    camera = Pinhole(120, 120, 59.5, 44.5, 120, 90)
    rng = np.random.default_rng(0)
    columns = np.indices(camera.shape)[1]
    views = []
    for k in range(5):
        ray = (columns - camera.cx) / camera.fx
        depth = (2 + tilt * 0.05 * (k - 2)) / (1 - tilt * ray) + 0.003 * rng.normal(size=camera.shape)
        shift = np.array([0.01, 0.015, 0.01]) * (k == 4)
        views.append(View(depth.astype(np.float32), camera, Pose(np.eye(3), np.array([0.05 * (k - 2), 0, 0]) + shift)))
    ray = (columns - camera.cx) / camera.fx
    return Posed.of(views, None, NUMPY), (2 / (1 - tilt * ray)).astype(np.float32)


@pytest.mark.parametrize("tilt", [0.0, 0.3])
def test_what_nothing_tells_moves_nobody(tilt):
    """Along a plane, and about its normal, no motion can be told: that along the normal is taken back, or scaled."""
    source, truth = plane(tilt)
    found = register(source, truth, NUMPY)
    normal = np.array([tilt, 0, -1]) / np.hypot(tilt, 1)
    turn, shift = found.motions.numbers[4, :3], found.motions.numbers[4, 3:6] * found.motions.depth
    grown = found.motions.numbers[4, 6] * np.array([0, 0, truth[24, 32]])
    assert (shift + grown) @ normal == pytest.approx(-np.array([0.01, 0.015, 0.01]) @ normal, rel=0.15)
    assert np.linalg.norm(shift - (shift @ normal) * normal) < 0.003
    assert abs(turn @ normal) < 1e-3


def test_a_view_far_off_is_not_a_little_out_of_place():
    views, truth = seen("gauss")
    far = Motions(np.array([[0.0, 0.05, 0.0, 0.05, 0.0, 0.05]]), 3.0).poses[0]
    source = misplaced(views, {1: far})
    assert register(source, truth, NUMPY) is source


def test_height_models_and_unknown_surfaces_are_left_alone():
    camera = Orthographic(0.1, 20, 15, 40, 30)
    rng = np.random.default_rng(1)
    ground = 5 + 0.2 * np.sin(np.arange(40) / 5)[None] + np.zeros((30, 1))
    views = [
        View((ground + 0.01 * rng.normal(size=(30, 40))).astype(np.float32), camera, Pose.identity()) for _ in range(3)
    ]
    source = Posed.of(views, None, NUMPY)
    assert register(source, ground.astype(np.float32), NUMPY) is source
    assert register(source, np.full((30, 40), np.nan, np.float32), NUMPY) is source
    flat = [View(np.full((30, 40), 5, np.float32), camera, Pose.identity()) for _ in range(3)]
    exact = Posed.of(flat, None, NUMPY)
    assert register(exact, flat[0].depth, NUMPY) is exact


def test_auto_moves_views_says_so_and_may_be_told_not_to():
    views, truth = seen("gauss")
    source = misplaced(views, {0: OFF, 3: OFF @ OFF})
    kept, moved = (
        fuse(source.views, "auto", refine_poses=refine, keep_views=True, min_confidence=0) for refine in (False, True)
    )
    errors = [np.abs(result.depth - truth) for result in (kept, moved)]
    both = np.isfinite(errors[0]) & np.isfinite(errors[1])
    assert np.median(errors[1][both]) < 0.7 * np.median(errors[0][both])
    assert "its pose was off by" in moved.views[0].sentence
    assert moved.views[0].turned == pytest.approx(0.309, abs=0.15)
    assert all(view.turned == view.shifted == 0 for view in kept.views)
    assert moved.views[2].turned == 0


@pytest.mark.parametrize("perspective", [True, False])
def test_sigma_contains_the_way_to_the_middle_of_all_poses(perspective):
    camera = Pinhole(50, 60, 19.5, 14.5, 40, 30) if perspective else Orthographic(0.02, 19.5, 14.5, 40, 30)
    f_x, f_y = (50, 60) if perspective else (50, 50)
    depth = (2 + 0.1 * np.random.default_rng(0).random((30, 40))).astype(np.float32)
    slope, sigma = np.full_like(depth, 0.02), np.full_like(depth, 0.001)
    turn, shift, growth = np.array([0.002, -0.001, 0.003]), np.array([0.004, 0.002, -0.003]), 0.005
    rows, columns = np.indices(depth.shape)
    far = depth if perspective else 1
    point = np.stack([(columns - 19.5) / f_x * far, (rows - 14.5) / f_y * far, depth], -1)
    change = TOWARDS_MEAN * (np.cross(turn, point) + shift)
    aside = change[..., :2] * [f_x, f_y] / (depth[..., None] if perspective else 1)
    motions = Motions(np.stack([[*turn, *shift / 2, each] for each in (growth, -growth)]), 2.0)
    assert growth < motions.scale_error < 1.3 * growth
    scale = motions.scale_error * depth
    squares = 0.001**2 + change[..., 2] ** 2 + scale**2 + (aside**2).sum(-1) * 0.02**2
    expected = np.sqrt(squares)
    found = with_poses(sigma, depth, slope, motions, camera.numbers)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (7, 1), (2, 2), (1, 300)])
def test_images_of_one_row_or_column_are_fused(shape: tuple[int, int]) -> None:
    """They have no normals to register to."""
    rng = np.random.default_rng(0)
    camera = Pinhole(fx=50.0, fy=50.0, cx=(shape[1] - 1) / 2, cy=(shape[0] - 1) / 2, width=shape[1], height=shape[0])
    views = [View((3 + rng.normal(0, 0.01, shape)).astype(np.float32), camera, Pose.identity()) for _ in range(3)]
    result = fuse(views, min_confidence=0.0)
    np.testing.assert_allclose(result.depth, 3.0, atol=0.05)


def box(low: tuple[float, float, float], high: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of an upright box."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = np.array([half for a, b, c, d in quads for half in ((a, b, c), (a, c, d))])
    return np.add(low, corners * np.subtract(high, low)), faces


def fence() -> Scene:
    """Nine slats on two rails, in one plane but for their thickness, and a ball behind."""
    ball = sphere(0.4, 30)
    parts = [box((x - 0.05, -0.7, -0.02), (x + 0.05, 0.7, 0.02)) for x in np.linspace(-0.9, 0.9, 9)]
    parts += [box((-0.9, y - 0.05, -0.06), (0.9, y + 0.05, -0.02)) for y in (-0.4, 0.4)]
    parts += [(np.add(ball.vertices, (0, 0, -0.8)), ball.faces)]
    first = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    return Scene(
        np.concatenate([vertices for vertices, _ in parts]),
        np.concatenate([faces + start for (_, faces), start in zip(parts, first, strict=False)]),
    )


@pytest.mark.parametrize("seed", range(2))
def test_views_of_almost_a_plane_change_no_scale(seed):
    """A step back looks like another scale: what little differs between the two is that of a surface yet too smooth."""
    rng = np.random.default_rng(seed)
    poses = [orbit()[k] for k in range(-5, 6)]
    views, truth = bundle(fence(), poses, PAPER_CAMERA.scaled(0.5), Gauss(0.01), rng, image=False)
    views = [view if k == 5 else disturbed(view, 0.2, 0.003, 3.0, rng) for k, view in enumerate(views)]
    result = fuse(views, backend="cpu", min_confidence=0.0, check=False)
    away = result.depth - truth
    assert abs(np.nanmedian(away)) < 1e-3
    assert (np.abs(away) < 1.96 * result.sigma)[np.isfinite(away)].mean() > 0.88


def test_a_scale_counts_as_far_as_no_rigid_motion_is_like_it():
    """Of effects with a known angle between the scale and a step along the axis; of nothing, nothing."""
    for angle in (0.0, 0.1, 1.0, np.pi / 2):
        effects = np.diag([100.0] * 7)
        effects[5:, 5:] = 100 * np.array([[1.0, np.cos(angle)], [0.0, np.sin(angle)]])
        assert beyond_rigid((effects.T @ effects)[None]) == pytest.approx(100 * np.sin(angle), abs=2)
    assert beyond_rigid(np.empty((0, 7, 7))) == 0
