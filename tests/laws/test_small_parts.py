"""Small parts stay: the wall behind a gap that several views see through, and a post that they see in front."""

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.auto.small_parts import restore
from cfusion.source import Posed

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(200.0, 200.0, 59.5, 44.5, 120, 90)
SHAPE = (90, 120)
NEAR, FAR, HALF = 2.0, 3.5, 0.025  # a plate with a square gap, four pixels wide, before a wall
NOISE, STEP = 0.05, 0.05  # of depth; between views


def through_a_gap(position: float, near: float = NEAR, far: float = FAR) -> np.ndarray:
    """The depth that a camera at this position along x sees: `far` through the gap of a plate at NEAR, else `near`."""
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    x, y = (columns - CAMERA.cx) / CAMERA.fx * NEAR + position, (rows - CAMERA.cy) / CAMERA.fy * NEAR
    return np.where((np.abs(x) < HALF) & (np.abs(y) < HALF), far, near).astype(np.float32)


def views_of(count: int, **depths: float) -> list[View]:
    rng = np.random.default_rng(1)
    places = STEP * np.arange(-(count // 2), count // 2 + 1)
    maps = [through_a_gap(float(place), **depths) + rng.normal(0, NOISE, SHAPE).astype(np.float32) for place in places]
    return [
        View(depth, CAMERA, Pose(np.eye(3), np.array([place, 0.0, 0.0])))
        for depth, place in zip(maps, places, strict=True)
    ]


def gap() -> np.ndarray:
    return through_a_gap(0.0) == FAR


@pytest.mark.parametrize("count", [3, 11])
def test_the_wall_behind_a_gap_stays(count: int) -> None:
    result = fuse(views_of(count), reference=count // 2, min_confidence=0.0, backend="numpy")
    error = np.abs(result.depth - through_a_gap(0.0))[gap()]
    assert np.mean(error < 0.3) > 0.7, error.round(2)


def test_a_part_is_restored_where_others_see_it() -> None:
    """Smoothed away, it comes back from the reference's measurements; a perfect surface is unchanged."""
    source = Posed.of(views_of(3), 1, NUMPY)
    truth, smooth = through_a_gap(0.0), np.full(SHAPE, NEAR, np.float32)
    restored = restore(source, smooth, NUMPY)
    assert np.abs(restored - truth)[gap()].max() < 6 * NOISE
    assert np.array_equal(restored[~gap()], smooth[~gap()])
    assert np.array_equal(restore(source, truth, NUMPY), truth)


def test_an_error_of_the_reference_is_not_restored() -> None:
    """The same measurements, but the others see the plate there."""
    views = views_of(3)
    whole = [
        np.full(SHAPE, NEAR, np.float32) + view.depth - through_a_gap(float(view.pose.translation[0])) for view in views
    ]
    wrong = [View(views[k].depth if k == 1 else whole[k], CAMERA, views[k].pose) for k in range(3)]
    smooth = np.full(SHAPE, NEAR, np.float32)
    assert np.array_equal(restore(Posed.of(wrong, 1, NUMPY), smooth, NUMPY), smooth)


def test_what_is_seen_again_from_the_same_place_is_no_evidence() -> None:
    """A sensor repeats its errors: views in whose images part and surface coincide do not vote."""
    views = views_of(3)
    still = [View(views[1].depth, CAMERA, Pose(np.eye(3), view.pose.translation / 100)) for view in views]
    smooth = np.full(SHAPE, NEAR, np.float32)
    assert np.array_equal(restore(Posed.of(still, 1, NUMPY), smooth, NUMPY), smooth)


@pytest.mark.parametrize("width", [1, 4])
def test_thin_parts_may_be_mixed_pixels(width: int) -> None:
    """A post that all views see in front of the plate is restored, but not if it is one pixel wide."""
    rng, smooth, post = np.random.default_rng(2), np.full(SHAPE, NEAR, np.float32), np.full(SHAPE, NEAR, np.float32)
    post[:, 60 : 60 + width] = 1.5
    views = []
    for place in (-0.06, 0.0, 0.06):
        seen = np.roll(post, round(-place * CAMERA.fx / 1.5), axis=1)  # 8 pixels to the side
        noisy = seen + rng.normal(0, 0.02, SHAPE).astype(np.float32)
        views.append(View(noisy, CAMERA, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    restored = restore(Posed.of(views, 1, NUMPY), smooth, NUMPY)
    assert np.array_equal(restored[:, :60], smooth[:, :60])
    assert np.mean(np.abs(restored - post)[:, 60 : 60 + width] < 0.2) == (0 if width == 1 else 1)
