"""Slopes that odometry descends along, against differences; grey values between pixels, scales of what remains."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cv2", reason="OpenCV makes the pyramid")

from cfusion import Pinhole
from cfusion.frontends import direct_odometry, odometry
from cfusion.frontends.direct_odometry import _level, _look_up, _student_scale
from cfusion.frontends.motion import exponential
from cfusion.frontends.rig import Rig

CAMERA = Pinhole(310.0, 330.0, 90.0, 61.5, 160, 128)
RIG = Rig(CAMERA, 0.4)
SMALL = 1e-6
TWISTS = SMALL * np.eye(6)


def points(count: int = 20) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([rng.uniform(-2, 2, count), rng.uniform(-1, 1, count), rng.uniform(4, 9, count)])


def test_slopes_of_reprojections() -> None:
    moved = points()
    found = odometry._slopes(moved[None], RIG)[0]
    for number, twist in enumerate(TWISTS):
        ahead, behind = (
            odometry._residuals(exponential(sign * twist)[None], moved[None], np.zeros((1, len(moved), 4)), RIG)[0][0]
            for sign in (1, -1)
        )
        np.testing.assert_allclose(found[..., number], (ahead - behind) / (2 * SMALL), rtol=1e-5, atol=1e-5)


def test_slopes_of_grey_values() -> None:
    """Of an image that rises by so much a pixel, at points that move."""
    at, along, down = points(), 3.0, -2.0
    found = direct_odometry._slopes(at, np.full(20, along * CAMERA.fx), np.full(20, down * CAMERA.fy))
    for number, twist in enumerate(TWISTS):
        motion = exponential(twist)
        (u, v, _), (u0, v0, _) = CAMERA.project(at @ motion[:3, :3].T + motion[:3, 3]), CAMERA.project(at)
        np.testing.assert_allclose(found[:, number], (along * (u - u0) + down * (v - v0)) / SMALL, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_level_of_the_pyramid_is_the_same_scene_in_larger_pixels(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points lie where they lay, grey values of a ramp stay, and its slope in grey values per motion does too."""
    rows, columns = np.indices(CAMERA.shape)
    image = (0.75 * columns + 0.5 * rows).astype(np.float32)
    depth = np.where(columns < 100, 5.0, np.nan).astype(np.float32)
    monkeypatch.setattr(direct_odometry, "LEAST_SLOPE", 0.5)
    made = _level(image, depth, image + 7, CAMERA, level)
    assert made is not None
    assert made.current.shape == made.camera.shape == (128 >> level, 160 >> level)
    np.testing.assert_allclose(made.points[:, 2], 5.0, rtol=1e-5)
    assert made.points[:, 0].max() == pytest.approx((99 - CAMERA.cx) / CAMERA.fx * 5, abs=5 * 2**level / CAMERA.fx)
    u, v, _ = CAMERA.project(made.points)
    inner = (u > 8) & (v > 8) & (v < 119)
    np.testing.assert_allclose(made.value[inner], (0.75 * u + 0.5 * v)[inner], atol=1e-3)
    slopes = direct_odometry._slopes(made.points, *(np.full(len(u), s) for s in (0.75 * CAMERA.fx, 0.5 * CAMERA.fy)))
    np.testing.assert_allclose(made.slopes[inner], slopes[inner], rtol=1e-3, atol=1e-2)
    seen, inside = _look_up(made, np.eye(4))
    np.testing.assert_allclose(seen, made.value[inside] + 7, atol=1e-3)


def test_too_small_or_too_flat_is_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = np.indices(CAMERA.shape)[1]
    image, depth = (3.0 * columns).astype(np.float32), np.full(CAMERA.shape, 5, np.float32)
    for gentle, level, made in (
        (4.0, 3, True),
        (4.0, 4, False),
        (2.9, 0, True),
        (3.1, 0, False),
    ):  # level 4: eight rows
        monkeypatch.setattr(direct_odometry, "LEAST_SLOPE", gentle)
        assert (_level(image, depth, image, CAMERA, level) is not None) == made
    monkeypatch.setattr(direct_odometry, "LEAST_SLOPE", 1.0)
    monkeypatch.setattr(direct_odometry, "MOST_PIXELS", 500)
    made = _level(image, depth, image, CAMERA, 0)
    assert made is not None
    assert 400 <= len(made.value) <= 500


def test_every_pixel_counts_where_there_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of a ramp as are allowed, and one more than that."""
    image = (3.0 * np.indices(CAMERA.shape)[1]).astype(np.float32)
    depth = np.full(CAMERA.shape, 5, np.float32)
    steep = 128 * (160 - 2)  # flat at its ends, where it is mirrored
    monkeypatch.setattr(direct_odometry, "LEAST_SLOPE", 2.9)
    for most, taken in ((steep, steep), (steep - 1, -(-steep // 2))):
        monkeypatch.setattr(direct_odometry, "MOST_PIXELS", most)
        made = _level(image, depth, image, CAMERA, 0)
        assert made is not None
        assert len(made.value) == taken


def test_steps_are_taken_until_all_of_one_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A motion along one axis: the other five components are small from the first step on."""
    rows, columns = np.indices(CAMERA.shape)
    image = (40 * (np.sin(columns / 9) + np.cos(rows / 7)) + 100).astype(np.float32)
    taken: list[float] = []

    def step(twist: np.ndarray) -> np.ndarray:
        taken.append(float(np.abs(twist).max()))
        return exponential(twist)

    monkeypatch.setattr(direct_odometry, "exponential", step)
    for name, value in (("ITERATIONS", 40), ("LEAST_SLOPE", 0.5), ("CONVERGED", 1e-5)):
        monkeypatch.setattr(direct_odometry, name, value)
    made = _level(image, np.full(CAMERA.shape, 5, np.float32), np.roll(image, 1, axis=1), CAMERA, 0)
    assert made is not None
    direct_odometry._align(made, np.eye(4), np.array([1.0, 0.0]))
    assert 2 < len(taken) < 40
    assert taken[-1] < 1e-5
    assert min(taken[:-1]) >= 1e-5


def test_grey_values_are_read_between_pixels_and_inside_only() -> None:
    camera = Pinhole(10.0, 10.0, 0.0, 0.0, 6, 5)
    rows, columns = np.indices(camera.shape)
    image = (rows * columns + columns).astype(np.float32)  # bilinear: u v + u between pixels too
    u, v = (each.ravel() for each in np.meshgrid(np.linspace(-0.5, 6, 14), np.linspace(-0.5, 5, 12)))
    level = SimpleNamespace(points=np.column_stack([u / 10, v / 10, np.ones_like(u)]), camera=camera, current=image)
    seen, inside = _look_up(level, np.eye(4))  # type: ignore[arg-type]
    np.testing.assert_array_equal(inside, (u >= 0) & (v >= 0) & (u < 5) & (v < 4))
    np.testing.assert_allclose(seen, (u * v + u)[inside], atol=1e-5)
    assert not _look_up(level, np.diag([1.0, 1, -1, 1]))[1].any()  # type: ignore[arg-type]  # behind


def test_the_scale_is_that_of_students_t() -> None:
    drawn = 3.0 * np.random.default_rng(1).standard_t(5, 20_000)
    assert _student_scale(drawn) == pytest.approx(3.0, rel=0.03)
    assert _student_scale(np.zeros(10)) == pytest.approx(1e-3)  # never none


def test_features_count_less_the_farther_they_are_from_the_middle_column() -> None:
    """1 / (|u - cx| / cx + 0.05): twenty in the middle, hardly one at the border."""
    columns = np.array([CAMERA.cx, 0.0, 2 * CAMERA.cx, 1.5 * CAMERA.cx])
    found = odometry._weights(np.column_stack([columns] * 4), RIG)
    np.testing.assert_allclose(found, [20.0, 1 / 1.05, 1 / 1.05, 1 / 0.55])


def test_errors_are_those_of_the_worse_image_and_infinite_behind() -> None:
    at = points(3)
    seen = odometry._residuals(np.eye(4)[None], at[None], np.zeros((1, 3, 4)), RIG)[0][0]
    seen[0] += [3, 4, 0, 0]
    seen[1] += [0, 1, 6, 8]
    at[2, 2] = -5
    np.testing.assert_allclose(odometry._errors(np.eye(4), at, seen, RIG), [5, 10, np.inf])
