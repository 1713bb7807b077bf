"""Small parts stay: the wall behind a gap that several views see through, and a post that they see in front."""

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.auto.first_surface import first_surface
from cfusion.auto.settings import Settings
from cfusion.auto.small_parts import restore
from cfusion.solvers import PDHG
from cfusion.source import Posed

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(200.0, 200.0, 59.5, 44.5, 120, 90)
SHAPE = (90, 120)
NEAR, FAR, PLATE, HALF = 2.0, 3.5, 0.57, 0.025  # a square plate before a wall, with a gap, four pixels wide
NOISE, STEP = 0.1, 0.05  # of depth; between views


def seen_from(position: float, *, whole: bool = False) -> np.ndarray:
    """The depth that a camera at this position along x sees: a plate before a wall, with a gap unless it is whole."""
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    x, y = (columns - CAMERA.cx) / CAMERA.fx * NEAR + position, (rows - CAMERA.cy) / CAMERA.fy * NEAR
    gap = (np.abs(x) < HALF) & (np.abs(y) < HALF) & (not whole)
    return np.where((np.abs(x) < PLATE) & (np.abs(y) < PLATE) & ~gap, NEAR, FAR).astype(np.float32)


def views_of(count: int) -> list[View]:
    rng = np.random.default_rng(1)
    places = STEP * np.arange(-(count // 2), count // 2 + 1)
    maps = [seen_from(float(place)) + rng.normal(0, NOISE, SHAPE).astype(np.float32) for place in places]
    return [
        View(depth, CAMERA, Pose(np.eye(3), np.array([place, 0.0, 0.0])))
        for depth, place in zip(maps, places, strict=True)
    ]


SMOOTH = seen_from(0.0, whole=True)


def gap() -> np.ndarray:
    return seen_from(0.0) != SMOOTH


@pytest.mark.parametrize("count", [3, 11])
def test_the_wall_behind_a_gap_stays(count: int) -> None:
    result = fuse(views_of(count), reference=count // 2, min_confidence=0.0, backend="numpy")
    error = np.abs(result.depth - seen_from(0.0))[gap()]
    assert np.mean(error < 0.3) > 0.7, error.round(2)


@pytest.mark.parametrize("count", [2, 3])
def test_a_part_is_restored_where_others_see_it(count: int) -> None:
    """Smoothed away, it comes back from the reference's measurements; a perfect surface is unchanged."""
    source = Posed.of(views_of(3)[:count], 1, NUMPY)
    truth = seen_from(0.0)
    restored = restore(source, SMOOTH, NUMPY)
    assert np.abs(restored - truth)[gap()].max() < 6 * NOISE
    assert np.array_equal(restored[~gap()], SMOOTH[~gap()])
    assert np.array_equal(restore(source, truth, NUMPY), truth)


def test_an_error_of_the_reference_is_not_restored() -> None:
    """The same measurements, but the others see the plate there."""
    views = views_of(3)
    places = [float(view.pose.translation[0]) for view in views]
    whole = [
        seen_from(place, whole=True) + view.depth - seen_from(place) for view, place in zip(views, places, strict=True)
    ]
    wrong = [View(views[k].depth if k == 1 else whole[k], CAMERA, views[k].pose) for k in range(3)]
    assert np.array_equal(restore(Posed.of(wrong, 1, NUMPY), SMOOTH, NUMPY), SMOOTH)


def test_what_is_seen_again_from_the_same_place_is_no_evidence() -> None:
    """A sensor repeats its errors: views in whose images part and surface coincide do not vote."""
    views = views_of(3)
    still = [View(views[1].depth, CAMERA, Pose(np.eye(3), view.pose.translation / 100)) for view in views]
    assert np.array_equal(restore(Posed.of(still, 1, NUMPY), SMOOTH, NUMPY), SMOOTH)


@pytest.mark.parametrize("beside", ["nothing", "its own surface"])
@pytest.mark.parametrize("width", [1, 4])
def test_thin_parts_may_be_mixed_pixels_of_an_outline(width: int, beside: str) -> None:
    """A post that all views see in front of the plate is restored; beside its own depth not if it is one pixel wide."""
    rng, smooth = np.random.default_rng(2), np.full(SHAPE, NEAR, np.float32)
    smooth[:, 40:60] = NEAR if beside == "nothing" else 1.5
    post = smooth.copy()
    post[:, 60 : 60 + width] = 1.5
    views = []
    for place in (-0.06, 0.0, 0.06):
        seen = np.roll(post, round(-place * CAMERA.fx / 1.5), axis=1)  # 8 pixels to the side
        noisy = seen + rng.normal(0, 0.02, SHAPE).astype(np.float32)
        views.append(View(noisy, CAMERA, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    restored = restore(Posed.of(views, 1, NUMPY), smooth, NUMPY)
    assert np.array_equal(restored[:, :60], smooth[:, :60])
    kept = not (width == 1 and beside == "its own surface")
    assert np.mean(np.abs(restored - post)[:, 60 : 60 + width] < 0.2) == kept


@pytest.mark.parametrize("others_see_it", [True, False])
def test_a_post_past_which_others_see_the_wall_stays(others_see_it: bool) -> None:
    """From the side a view sees both the post and the wall behind it; the reference sees the first on its ray."""
    rng, wall = np.random.default_rng(3), np.full(SHAPE, NEAR, np.float32)
    views = []
    for place in (-0.3, 0.0, 0.3):
        seen, column = wall.copy(), 60 - round(place * CAMERA.fx / 1.5)  # ten pixels from where the wall would be
        if others_see_it or place == 0:
            seen[:, column : column + 4] = 1.5
        noisy = seen + rng.normal(0, 0.02, SHAPE).astype(np.float32)
        views.append(View(noisy, CAMERA, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    restored = restore(Posed.of(views, 1, NUMPY), wall, NUMPY)
    assert np.array_equal(np.delete(restored, range(60, 64), 1), np.delete(wall, range(60, 64), 1))
    assert np.mean(np.abs(restored - 1.5)[:, 60:64] < 0.2) == (1 if others_see_it else 0)


def test_measurements_of_little_confidence_make_no_part() -> None:
    """Neither the reference's nor, as votes, those of the others."""
    views = views_of(3)
    for doubted in (1, 0):  # the reference; the others
        confidences = [
            np.where((k == 1) == (doubted == 1), np.where(view.depth > 3, 0.2, 1.0), 1.0)
            for k, view in enumerate(views)
        ]
        source = Posed.of(
            [
                View(view.depth, CAMERA, view.pose, confidence=each.astype(np.float32))
                for view, each in zip(views, confidences, strict=True)
            ],
            1,
            NUMPY,
        )
        assert np.array_equal(restore(source, SMOOTH, NUMPY), SMOOTH), doubted


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_grows_with_depth_is_no_part(seed: int) -> None:
    """Noise of disparities: the true road is unchanged, although far measurements are many median noises off."""
    rng, rows = np.random.default_rng(seed), np.mgrid[: SHAPE[0], : SHAPE[1]][0]
    road = (300 / np.maximum(rows - 10, 5)).astype(np.float32)  # 3.8 to 60 m, the same from the side
    views = [
        View((100 / (100 / road + rng.normal(0, 0.8, SHAPE)).clip(0.3)).astype(np.float32), CAMERA, pose)
        for pose in (Pose(np.eye(3), np.array([place, 0.0, 0.0])) for place in (-0.5, 0.0, 0.5))
    ]
    assert np.array_equal(restore(Posed.of(views, 1, NUMPY), road, NUMPY), road)


def test_views_that_see_nothing_of_it_have_no_vote() -> None:
    """Cameras that look the other way."""
    views = views_of(3)
    behind = [View(view.depth, CAMERA, Pose(np.diag([-1.0, 1.0, -1.0]), np.array([0.0, 0.0, -20.0]))) for view in views]
    source = Posed.of([behind[0], views[1], behind[2]], 1, NUMPY)
    assert np.array_equal(restore(source, SMOOTH, NUMPY), SMOOTH)


def test_part_of_a_plate_behind_which_others_do_not_see_is_not_restored() -> None:
    """Behind the surface a part has to be seen instead of it: views that see neither have no say."""
    views = views_of(3)
    depths = [view.depth.copy() for view in views]
    for k in (0, 2):
        depths[k][:] = NEAR - 0.4 + (depths[k] - seen_from(float(views[k].pose.translation[0])))  # 4 scales in front
    wrong = [View(depths[k], CAMERA, view.pose) for k, view in enumerate(views)]
    assert np.array_equal(restore(Posed.of(wrong, 1, NUMPY), SMOOTH, NUMPY), SMOOTH)


@pytest.mark.parametrize("seed", range(2))
def test_wide_baselines_do_not_blur_posts_where_errors_are_shared(seed: int) -> None:
    """Errors of neighbouring pixels are alike, as in stereo: the splat of eleven views alone loses an eighth."""
    camera, rng, views = Pinhole(90.0, 90.0, 59.5, 29.5, 120, 60), np.random.default_rng(seed), []

    def posts(place: float) -> np.ndarray:
        x = (np.arange(120) - camera.cx) / camera.fx * 2.5 + place
        near = (np.abs(x[:, None] - np.arange(-1.5, 1.6, 0.5)) < 0.05).any(axis=1)
        return np.where(near, 2.5, 4.0) + np.zeros((60, 1))

    for place in 0.3 * np.arange(-5, 6):
        white = rng.normal(size=(66, 126))
        alike = np.lib.stride_tricks.sliding_window_view(white, (7, 7)).mean(axis=(2, 3)) * 7 * 0.25
        measured = 15 / np.maximum(15 / posts(place) + alike, 0.5)
        views.append(View(measured.astype(np.float32), camera, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    surface, _ = first_surface(Posed.of(views, 5, NUMPY), [None] * len(views), Settings(), PDHG(), NUMPY)
    wrong = np.abs(surface - posts(0.0)) > 0.7
    assert wrong[posts(0.0) < 3].mean() < 0.06
    assert wrong.mean() < 0.03


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_outliers_of_one_depth_are_no_rods(seed: int) -> None:
    """A tenth of all pixels is at the nearest depth of the sensor: six of ten squares of nine pixels have one."""
    rng, views, camera = np.random.default_rng(seed), [], Pinhole(122.0, 122.0, 64.5, 49.5, 130, 100)
    for place in (-0.06, 0.0, 0.06):
        noisy = 4.2 * (1 + 0.01 * rng.normal(size=camera.shape))
        noisy[rng.random(camera.shape) < 0.1] = 1.0
        views.append(View(noisy.astype(np.float32), camera, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    wall = np.full(camera.shape, 4.2, np.float32)
    restored = restore(Posed.of(views, 1, NUMPY), wall, NUMPY)
    assert np.mean(restored < 4) < 0.01


@pytest.mark.parametrize("count", [3, 7])
@pytest.mark.parametrize(("step", "at"), [(0.35, 76.0), (0.35, 77.5), (0.6, 74.0)])
def test_a_post_that_is_outside_the_images_of_the_others_stays(count: int, step: float, at: float) -> None:
    """They see the wall behind it, which denies nothing; the single view showed it, and all together lost it."""
    camera, views, near, far = Pinhole(70.0, 70.0, 39.5, 29.5, 80, 60), [], 6.0, 40.0
    columns = (np.arange(80) - camera.cx) / camera.fx * near
    for k in range(count):
        place = step * (k - count + 1)
        post = np.abs(columns + place - (at - camera.cx) / camera.fx * near) < near / camera.fx
        truth = np.where(post, near, far) * np.ones((60, 1))
        noisy = truth + np.random.default_rng(k).normal(0, 0.1, truth.shape)
        views.append(View(noisy.astype(np.float32), camera, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    result = fuse(views, reference=count - 1, min_confidence=0.0)
    assert np.nanmax(np.abs(result.depth - truth)) < 1
    assert np.isfinite(result.depth).all()


def test_a_rod_far_in_front_of_a_wall_is_far_from_it_in_the_images_of_others() -> None:
    """Parallax at the wall is a six hundredth of that at the rod: taken for both, no view told them apart."""
    camera, views, near, far = Pinhole(70.0, 70.0, 39.5, 29.5, 80, 60), [], 6.0, 150.0
    for k in range(3):
        place = 0.4 * (k - 1)
        rod = np.arange(80) == 40 - round(place / near * camera.fx)
        truth = np.where(rod, near, far) * np.ones((60, 1))
        noisy = truth + np.random.default_rng(k).normal(0, 0.1, truth.shape)
        views.append(View(noisy.astype(np.float32), camera, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    surface = np.full((60, 80), far, np.float32)
    found = restore(Posed.of(views, 1, NUMPY), surface, NUMPY)
    assert (np.abs(found[:, 40] - near) < 1).all()
    assert (found[:, :40] == far).all()


def test_a_rod_stays_though_the_reference_has_blobs_of_outliers() -> None:
    """Pixels of a blob are wrong alike, but apart from them errors are those of single pixels."""
    camera, views, near, far = Pinhole(70.0, 70.0, 39.5, 29.5, 80, 60), [], 6.0, 8.0
    for k in range(3):
        rng, place = np.random.default_rng(k), 0.3 * (k - 1)
        rod = np.arange(80) == 40 - round(place / near * camera.fx)
        truth = np.where(rod, near, far) * np.ones((60, 1))
        noisy = truth + rng.normal(0, 0.02, truth.shape)
        for row, column in rng.integers(0, (56, 76), (60 * (k == 1), 2)):
            noisy[row : row + 4, column : column + 4] += rng.uniform(1, 3)
        views.append(View(noisy.astype(np.float32), camera, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    found = restore(Posed.of(views, 1, NUMPY), np.full((60, 80), far, np.float32), NUMPY)
    assert np.mean(np.abs(found[:, 40] - near) < 0.2) > 0.4
    assert np.mean(found[:, :38] != far) < 0.01


@pytest.mark.parametrize("count", [5, 9])
def test_holes_of_other_views_do_not_keep_what_the_reference_alone_measured(count: int) -> None:
    """Lines of wrong pixels stayed where both near views have no measurement, though these have some just beside."""
    camera, views, far = Pinhole(70.0, 70.0, 39.5, 29.5, 80, 60), [], 10.0
    rng, wrong = np.random.default_rng(0), np.zeros((60, 80), np.bool_)
    for row, column in rng.integers(4, 52, (12, 2)):
        wrong[row, column : column + 5] = True
    for k in range(count):
        depth = far + rng.normal(0, 0.03, wrong.shape)
        depth = (
            np.where(wrong, 0.75 * depth, depth)
            if k == 0
            else np.where(np.arange(60)[:, None] % 4 == k % 4, depth, np.nan)
        )
        views.append(View(depth.astype(np.float32), camera, Pose(np.eye(3), np.array([0.3 * k, 0.0, 0.0]))))
    away = np.abs(fuse(views, reference=0, min_confidence=0.0).depth - far)
    assert np.mean(away[wrong] > 1) < 0.3


def with_a_rod(seed: int, noise: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """A wall behind a rod of one pixel, as one view measures it, and the truth."""
    truth = np.full(SHAPE, FAR, np.float32)
    truth[:, 50] = NEAR
    return (truth + np.random.default_rng(seed).normal(0, noise, SHAPE)).astype(np.float32), truth


@pytest.mark.parametrize("seed", [0, 1])
def test_a_rod_that_a_single_view_measured_stays(seed: int) -> None:
    depth, truth = with_a_rod(seed)
    result = fuse([View(depth, CAMERA, Pose(np.eye(3), np.zeros(3)))], min_confidence=0.0, backend="numpy")
    assert np.mean(np.abs(result.depth - truth)[:, 50] < 0.1) > 0.95
    assert np.abs(result.depth - truth).mean() < 0.01


def test_neither_outliers_nor_blobs_nor_shared_errors_of_a_single_view_are_rods() -> None:
    rng = np.random.default_rng(0)
    wall = np.full(SHAPE, FAR, np.float32)
    salt, blob, shared = (wall + rng.normal(0, 0.01, SHAPE).astype(np.float32) for _ in range(3))
    salt = np.where(rng.random(SHAPE) < 0.02, rng.uniform(1, FAR, SHAPE), salt).astype(np.float32)
    blob[20:27, 30:37] = NEAR
    shared = (shared + np.kron(rng.normal(0, 0.05, (30, 40)), np.ones((3, 3)))).astype(np.float32)
    shared[:, 50] = NEAR
    for depth in (salt, blob, shared):
        source = Posed.of([View(depth, CAMERA, Pose(np.eye(3), np.zeros(3)))], 0, NUMPY)
        assert np.mean(restore(source, wall, NUMPY) != wall) < 2e-3


def test_a_rod_that_a_single_view_measured_and_the_surface_lost_is_not_believed() -> None:
    """In one view as in many: it may be there."""
    view = View(with_a_rod(0)[0], CAMERA, Pose(np.eye(3), np.zeros(3)))
    found = fuse([view], alpha=(20.0, 40.0), min_confidence=0.0, backend="numpy")
    lost = found.depth[:, 50] > (NEAR + FAR) / 2
    assert lost.mean() > 0.5
    assert (found.confidence[:, 50][lost] <= 0.5).mean() > 0.9
