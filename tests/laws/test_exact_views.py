"""Views without noise: the result is the reference's own map, with every thin thing in it; nothing is smoothed."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.auto import Auto
from cfusion.auto.occlusion import observe
from cfusion.auto.settings import Settings
from cfusion.source import Posed

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(75.0, 75.0, 39.5, 29.5, 80, 60)
RODS = ((-0.7, 2.0, 0.02), (-0.2, 2.6, 0.06), (0.35, 3.1, 0.03), (0.5, 1.8, 0.012))  # place, depth and width
COUNT, MIDDLE, STEP = 5, 2, 0.05


def depth_from(across: float) -> np.ndarray:
    """Rods down to half a pixel before a slanted wall, on a floor, seen by a camera that moved to the right."""
    y, x = np.mgrid[:60, :80]
    x, y = (x - CAMERA.cx) / CAMERA.fx, (y - CAMERA.cy) / CAMERA.fy
    wall = (4.5 - 0.3 * across) / (1 + 0.3 * x)
    depth = np.where(y > 0, np.minimum(wall, 1.1 / np.maximum(y, 1e-9)), wall)
    for at, near, width in RODS:
        depth = np.where(np.abs(near * x + across - at) < width / 2, np.minimum(depth, near), depth)
    return depth


def views_of(*, noise: tuple[float, ...] = (0.0,) * COUNT, still: bool = False, decimals: int = 9) -> list[View]:
    """The views; with all at one place they are copies of the first one."""
    rng, views = np.random.default_rng(0), []
    for k, size in enumerate(noise):
        across = 0.0 if still else STEP * (k - MIDDLE)
        depth = np.round(depth_from(across) * (1 + size * rng.normal(size=CAMERA.shape)), decimals)
        if still and views:
            depth = views[0].depth
        views.append(View(depth.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([across, 0.0, 0.0]))))
    return views


@pytest.mark.parametrize("count", [2, 3, 5])
def test_exact_views_give_the_map_of_the_reference(count: int) -> None:
    """Before, smoothing took the tips of rods, and edges of a ground that reaches far."""
    views = views_of()[MIDDLE - count // 2 : MIDDLE - count // 2 + count]
    result = fuse(views, reference=count // 2, min_confidence=0.0)
    away = np.abs(result.depth / depth_from(0.0) - 1)
    assert np.isfinite(away).mean() > 0.99
    assert np.nanmax(away) < 1e-4


def test_a_noisy_reference_among_exact_views_is_not_followed() -> None:
    views = views_of(noise=(0, 0, 0.02, 0, 0))
    away, own = (np.abs(each - depth_from(0.0)) for each in (fuse(views).depth, views[MIDDLE].depth))
    assert np.nanmedian(away) < 0.2 * np.median(own)


def test_copies_of_one_map_from_one_place_are_no_exact_views() -> None:
    """They agree to the last bit, and are as noisy as each."""
    views = views_of(noise=(0.01,) * COUNT, still=True)
    away, own = (np.abs(each - depth_from(0.0)) for each in (fuse(views).depth, views[MIDDLE].depth))
    assert np.nanmean(away) < 0.7 * own.mean()


def test_rounded_maps_are_not_exact() -> None:
    """Walls that face the camera agree to the last bit, as all show the same level."""
    views = views_of(decimals=1)
    away, own = (np.abs(each - depth_from(0.0)) for each in (fuse(views).depth, views[MIDDLE].depth))
    assert np.nanmedian(away) < 0.8 * np.median(own)


def found_exact(views: list[View]) -> bool:
    """Whether a reading at the map of the reference takes the views for exact."""
    return observe(Posed.of(views, MIDDLE, NUMPY), views[MIDDLE].depth, Settings(), NUMPY).exact


def test_views_with_outliers_or_noise_in_less_than_half_of_the_reference_are_not_exact() -> None:
    """Most differences are none, but specks that no other view sees tell of the rest; outliers of others do no harm."""
    rng, views = np.random.default_rng(0), views_of()
    left, few = np.arange(CAMERA.width) < 0.4 * CAMERA.width, rng.random(CAMERA.shape) < 0.02
    noise, outliers = 0.02 * rng.normal(size=CAMERA.shape) * left, rng.uniform(-0.3, 0.3, CAMERA.shape) * few
    assert found_exact(views)
    assert found_exact([_wrong_by(outliers, view) if k != MIDDLE else view for k, view in enumerate(views)])
    for error in (noise, outliers):
        assert not found_exact([_wrong_by(error, view) if k == MIDDLE else view for k, view in enumerate(views)])


def _wrong_by(error: np.ndarray, view: View) -> View:
    return replace(view, depth=view.depth * (1 + error).astype(np.float32))


@pytest.mark.parametrize("inverse", [True, False])
def test_choices_that_were_given_are_those_of_exact_views_as_well(inverse: bool) -> None:
    given = Settings(inverse=inverse, local=False, edges=True)
    found = fuse(views_of(), Auto(settings=given)).parameters
    assert (found["inverse"], found["local"], found["edges"]) == (inverse, False, True)
