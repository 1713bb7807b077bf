"""Views that hardly err, or measured pixels here and there, or err as networks do: balls before a wall."""

from functools import cache

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.auto.holes import unmeasured_are_holes
from cfusion.auto.occlusion import _alone
from cfusion.auto.registration import registered
from cfusion.auto.uncertainty import autocorrelation
from cfusion.source import Posed

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(75.0, 75.0, 39.5, 29.5, 80, 60)
BALLS = ((-0.8, -0.5, 3.0, 0.45), (0.6, 0.4, 2.6, 0.3), (0.7, -0.6, 3.4, 0.25), (-0.6, 0.7, 3.6, 0.2))
COUNT, MIDDLE = 7, 3


def depth_from(across: float) -> np.ndarray:
    """The depth (H, W) seen by a camera that moved so far to the right."""
    y, x = np.mgrid[:60, :80]
    rays = np.stack([(x - CAMERA.cx) / CAMERA.fx, (y - CAMERA.cy) / CAMERA.fy, np.ones(x.shape)], -1)
    depth = np.full(x.shape, 5.0)
    for *centre, radius in BALLS:
        away = np.array(centre) - (across, 0, 0)
        along, square = rays @ away, (rays * rays).sum(-1)
        root = along**2 - square * (away @ away - radius**2)
        depth = np.where(root > 0, np.minimum(depth, (along - np.sqrt(np.maximum(root, 0))) / square), depth)
    return depth


@cache
def truths() -> list[np.ndarray]:
    return [depth_from(0.05 * (number - MIDDLE)) for number in range(COUNT)]


def views_of(maps: list[np.ndarray]) -> list[View]:
    return [
        View(each.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([0.05 * (number - MIDDLE), 0.0, 0.0])))
        for number, each in enumerate(maps)
    ]


@pytest.mark.parametrize("noise", [0.0, 1e-5, 1e-4])
@pytest.mark.parametrize("count", [3, 7])
def test_views_that_hardly_err_are_hardly_changed_and_believed(noise: float, count: int) -> None:
    """Where noise is less than what a reading between pixels is off, that is no evidence against anybody."""
    rng, beside = np.random.default_rng(0), count // 2
    views = views_of([each * (1 + noise * rng.normal(size=each.shape)) for each in truths()])
    result = fuse(views[MIDDLE - beside : MIDDLE + beside + 1])
    away = np.abs(result.depth / truths()[MIDDLE] - 1)
    assert np.isfinite(away).mean() > 0.9
    assert np.nanmean(away) < 1e-3
    assert np.nanmax(away) < 0.05


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_quiet_views_keep_their_edges(count: int) -> None:
    rng = np.random.default_rng(1)
    views = views_of([each * (1 + 1e-3 * rng.normal(size=each.shape)) for each in truths()])
    away = np.abs(fuse(views[MIDDLE : MIDDLE + count], reference=0).depth - truths()[MIDDLE])
    own = np.abs(views[MIDDLE].depth - truths()[MIDDLE])
    both = np.isfinite(away)
    assert both.mean() > 0.95
    assert away[both].mean() < 0.8 * own[both].mean()
    assert np.sqrt((away[both] ** 2).mean()) < np.sqrt((own[both] ** 2).mean())


def test_errors_beside_edges_are_no_outliers_however_many_edges_there_are() -> None:
    """Smoothing displaced the outlines of slats by a pixel; the same errors on a wall are outliers."""
    noise, x = np.random.default_rng(0).normal(0, 1.4, (60, 80)), np.arange(80)
    away = (noise + 0.1 * np.roll(noise, 1, 0) + 0.1 * np.roll(noise, 1, 1) + 40.0 * (x % 20 == 4)).astype(np.float32)
    assert 0.05 < autocorrelation(away[None], lag=1) < 0.15
    slats = np.where((x + 5) // 10 % 2, np.float32(3), np.float32(4)) + np.zeros((60, 1), np.float32)
    unit = np.full(away.shape, 0.01, np.float32)
    assert _alone(away, 1.0, slats, unit, NUMPY)
    assert not _alone(away, 1.0, np.full_like(slats, 4.0), unit, NUMPY)


@pytest.mark.parametrize("count", [3, 7])
def test_rods_of_two_pixels_stay_where_errors_are_those_of_single_pixels(count: int) -> None:
    """Smoothing takes away what is thinner than 2.4 pixels; the views beside the reference measured it, too."""
    rng, views, truth = np.random.default_rng(5), [], None
    x = np.arange(80)
    for step in range(-(count // 2), count // 2 + 1):
        rods = np.zeros(80, bool)
        for column in (12, 27, 45, 66):
            rods |= (x - column + 75 * 0.08 * step / 3).round().astype(int) // 2 == 0
        depth = np.broadcast_to(np.where(rods, 3.0, 4.2), (60, 80))
        truth = depth if step == 0 else truth
        noisy = depth + rng.normal(0, 0.01, depth.shape)
        views.append(View(noisy.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([0.08 * step, 0.0, 0.0]))))
    away = np.abs(fuse(views, min_confidence=0.0).depth - truth)
    assert (away > 0.2).mean() < 0.005


@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.01])
@pytest.mark.parametrize("width", [1.0, 2.2])
@pytest.mark.parametrize("count", [3, 7])
def test_rods_before_a_wall_stay_however_thin(noise: float, width: float, count: int) -> None:
    """A view measures a rod of one pixel in three of four places where it should, and may see the wall past it."""
    rng, views, truth = np.random.default_rng(6), [], np.zeros(0)
    for step in range(-(count // 2), count // 2 + 1):
        place = np.arange(80) + 75 * 0.083 * step / 3
        rods = np.any([np.abs(place - column) < width / 2 for column in (12.3, 28.1, 45.6, 65.9)], axis=0)
        depth = np.broadcast_to(np.where(rods, 3.0, 4.2), (60, 80))
        truth = depth if step == 0 else truth
        noisy = depth * (1 + noise * rng.normal(size=depth.shape))
        views.append(View(noisy.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([0.083 * step, 0.0, 0.0]))))
    away = np.abs(fuse(views, min_confidence=0.0).depth - truth)
    assert (away > 0.2)[truth < 4].mean() < 0.05
    assert (away > 0.2)[truth > 4].mean() < 0.005


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_thin_things_that_only_the_reference_measured_are_not_denied_with_confidence(noise: float) -> None:
    """Rods that move by half a pixel from view to view cannot be told from errors that a sensor repeats."""
    rng, views, truth = np.random.default_rng(6), [], np.zeros(0)
    for step in range(-3, 4):
        place = np.arange(80) + 75 * 0.02 * step / 3
        rods = np.any([np.abs(place - column) < 0.5 for column in (12.3, 28.1, 45.6, 65.9)], axis=0)
        depth = np.broadcast_to(np.where(rods, 3.0, 4.2), (60, 80))
        noisy = depth * (1 + noise * rng.normal(size=depth.shape))
        views.append(View(noisy.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([0.02 * step, 0.0, 0.0]))))
        truth = depth if step <= 0 else truth
    result = fuse(views)
    gone = np.abs(result.depth - truth) > 0.2  # unknown pixels are not
    assert gone.mean() < 0.003
    assert np.isfinite(result.depth).mean() > 0.9


def test_sigma_is_never_zero() -> None:
    """Of exact views it is at least the rounding of a depth in single precision."""
    wall = np.full((40, 50), 4.2, np.float32)
    camera = Pinhole(75.0, 75.0, 24.5, 19.5, 50, 40)
    result = fuse([View(wall, camera, Pose(np.eye(3), np.array([0.05 * k, 0.0, 0.0]))) for k in range(3)])
    known = np.isfinite(result.depth)
    assert known.mean() > 0.9
    assert (result.sigma[known] >= 2**-24 * 4.2).all()


@pytest.mark.parametrize("pattern", ["lines", "here and there"])
def test_maps_of_few_pixels_complete_one_another(pattern: str) -> None:
    """What one view missed is no background: the others measured there."""
    rng, maps = np.random.default_rng(2), []
    for each in truths():
        rows = np.arange(60)[:, None] % 4 == rng.integers(4)
        measured = np.broadcast_to(rows, each.shape) if pattern == "lines" else rng.random(each.shape) < 0.2
        maps.append(np.where(measured, each + rng.normal(0, 0.005, each.shape), np.nan))
    views = views_of(maps)
    one, all_of = fuse(views[MIDDLE : MIDDLE + 1], min_confidence=0.0), fuse(views, min_confidence=0.0)
    truth, size = truths()[MIDDLE], truths()[MIDDLE].size
    assert np.isfinite(all_of.depth).sum() > max(0.85 * size, np.isfinite(one.depth).sum())
    seen_often = (all_of.provenance > 0).sum()
    assert seen_often > 2 * (one.provenance > 0).sum()
    both = np.isfinite(one.depth) & np.isfinite(all_of.depth)
    errors = [np.abs(each.depth - truth)[both].mean() for each in (one, all_of)]
    assert errors[1] < 0.75 * errors[0]


def test_what_is_missing_here_and_there_or_rarely_is_a_hole_and_what_surrounds_an_object_is_not() -> None:
    y, x = np.mgrid[:40, :50]
    lines, most, disc = y % 3 == 0, (x + y) % 9 > 0, np.hypot(x - 25, y - 20) < 12
    there = np.random.default_rng(4).random(x.shape) < 0.1
    wires = np.zeros(x.shape, bool)
    wires[:, [15, 35]] = True
    for measured in (lines, lines.T, most, disc & lines, there, (x + y) % 2 == 0):
        assert unmeasured_are_holes(measured.astype(np.float32), NUMPY)
    for measured in (disc, wires):
        assert not unmeasured_are_holes(measured.astype(np.float32), NUMPY)


@pytest.mark.parametrize("off", [False, True])
def test_errors_that_reach_across_the_image_are_no_motion(off: bool) -> None:
    """A network errs by percents, alike over a fifth of the image: no pose is off. One that is off is still found."""
    rng, maps = np.random.default_rng(3), []
    for each in truths():
        error = np.fft.irfft2(np.fft.rfft2(rng.normal(size=each.shape)) * _low_frequencies(each.shape), each.shape)
        size = 0.0 if off else 0.02
        maps.append(each * (1 + size * error / error.std() + 0.001 * rng.normal(size=each.shape)))
    views = views_of(maps)
    if off:
        turn = 0.006
        turned = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
        views[0] = View(views[0].depth, CAMERA, Pose(turned, views[0].pose.translation))
    source, _ = registered(Posed.of(views, MIDDLE, NUMPY), truths()[MIDDLE].astype(np.float32), NUMPY)
    moved = np.zeros(COUNT, bool) if source.motions is None else source.motions.numbers.any(axis=1)
    assert moved[0] == off
    assert not moved[1:].any()


def _low_frequencies(shape: tuple[int, ...]) -> np.ndarray:
    """A Gaussian of eight pixels, as a filter of the spectrum."""
    y, x = np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])
    return np.exp(-2 * (np.pi * 8) ** 2 * (y**2 + x**2))
