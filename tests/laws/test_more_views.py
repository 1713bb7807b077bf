"""More views beat the reference alone: an object before walls, where a splat throws wide views across the outline."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

pytest.importorskip("embreex", reason="the scenes of these laws are ray-cast")

from cfusion import View, fuse, kernels
from cfusion.auto.edges import edge_weights
from cfusion.auto.misreading import _weight, reliefs_of, weigh_near_edges
from cfusion.source import Posed
from cfusion.synthetic import PAPER_CAMERA, Gauss, Laplace, Noise, blob, object_bundle, room

NUMPY = kernels.load("numpy")
CAMERA = PAPER_CAMERA.scaled(0.15)
NOISES = {"laplace": Laplace(0.1), "gauss": Gauss(0.05)}
COUNTS = (1, 3, 9)


@cache
def seen(noise: str | None) -> tuple[list[View], np.ndarray]:
    given: Noise | None = None if noise is None else NOISES[noise]
    views, truth = object_bundle(room(), given, np.random.default_rng(3), max(COUNTS), camera=CAMERA, image=False)
    return views, truth


def middle(views: list[View], count: int) -> list[View]:
    centre = len(views) // 2
    return views[centre - count // 2 : centre + count // 2 + 1]


@pytest.mark.parametrize("noise", NOISES)
def test_more_views_are_better_than_the_reference_alone(noise):
    """Both errors are below the reference's own; the mean one does not rise with the number of views.

    The RMSE may, by single pixels at edges.
    """
    views, truth = seen(noise)
    errors = [fuse(middle(views, count)).depth - truth for count in COUNTS]
    both = np.isfinite(np.sum(errors, axis=0))
    assert both.mean() > 0.95 * np.isfinite(truth).mean()
    rmse = [float(np.sqrt(np.mean(error[both] ** 2))) for error in errors]
    mean = [float(np.abs(error[both]).mean()) for error in errors]
    for figures, most in ((rmse, 0.98), (mean, 0.8)):
        assert all(figure < most * figures[0] for figure in figures[1:]), figures
    assert all(more < 1.03 * fewer for fewer, more in zip(mean, mean[1:], strict=False)), mean


def test_what_the_surface_hides_is_hidden():
    """A point is hidden from a view exactly if the view sees something nearer there."""
    views, truth = seen(None)
    source = Posed.of(views, None, NUMPY)
    reading = source.at(truth, [0.0] * len(views), NUMPY)
    behind = source.hidden(truth, np.zeros_like(truth), NUMPY)
    for k in (0, 2, len(views) - 1):
        in_front = (reading.depths[k] - truth) < -0.3
        assert behind[k][in_front].mean() > 0.5  # the rest is hidden by what the reference does not see
        assert behind[k][~in_front].mean() < 0.05
    assert not behind[source.reference].any()
    assert not source.hidden(truth, np.full_like(truth, 9), NUMPY).any()


def test_parallax_is_how_far_a_point_moves():
    views, truth = seen(None)
    source = Posed.of(views, None, NUMPY)
    camera, cameras, motions = source.places()
    near, far = (NUMPY.reproject(truth + np.float32(step), camera, cameras[0], motions[0]) for step in (-0.005, 0.005))
    moved = np.hypot(far[0] - near[0], far[1] - near[1]) / 0.01
    parallax = source.parallax(truth, NUMPY)
    np.testing.assert_allclose(parallax[0].ravel(), moved, rtol=0.02)
    np.testing.assert_allclose(parallax[source.reference], 0, atol=1e-6)


def test_misread_views_count_less_near_edges_and_the_wider_the_baseline():
    views, truth = seen(None)
    source = Posed.of(views, None, NUMPY)
    reliefs = reliefs_of(truth, np.ones_like(truth), NUMPY)
    doubt = np.full_like(truth, 0.05)
    parallax = source.parallax(truth, NUMPY)
    wide, near = (_weight(parallax[k], doubt, 0.1**2, *reliefs) for k in (0, len(views) // 2 - 1))
    relief = NUMPY.local_depth_range(truth, 1)
    assert (wide <= near + 1e-6).mean() > 0.98
    assert np.median(wide[relief > 0.5]) < 0.5 * np.median(wide[relief < 0.05])
    assert _weight(parallax[0], 0 * doubt, 0.1**2, *reliefs).min() == 1


def test_far_views_count_less_and_half_of_what_a_pixel_loses_is_given_back():
    """w / (1 + (p / 4)^2) on a plane, p the pixels that a view is misread by; then times sqrt(lost)."""
    plane = np.full((12, 16), 4, np.float32)
    reliefs, weights = reliefs_of(plane, np.ones_like(plane), NUMPY), np.ones((3, 12, 16), np.float32)
    parallax = np.ones((3, 12, 16), np.float32) * np.array([0, 40, 400], np.float32)[:, None, None]
    weigh_near_edges(weights, reliefs, parallax, np.full_like(plane, 0.1), [0.1] * 3, NUMPY)
    far = 1 / (1 + (np.array([0, 4, 40]) / 4) ** 2)
    np.testing.assert_allclose(weights[:, 6, 8], far * np.sqrt(3 / far.sum()), rtol=1e-4)


def test_edges_are_steps_and_neither_slopes_nor_flat_places():
    row = np.concatenate([0.1 * np.arange(20), 5 + 0.1 * np.arange(20)]).astype(np.float32)
    weights = edge_weights(np.tile(row, (12, 1)), np.full((12, 40), 0.1, np.float32))
    np.testing.assert_allclose(weights[:, 19], 0.02, atol=1e-3)
    away = np.r_[0:12, 28:39]
    np.testing.assert_allclose(weights[:, away], 1, atol=1e-3)


def test_noise_that_wide_views_read_twice_is_no_error_of_all_views() -> None:
    """Independent noise, seen from a wide orbit: sigma does not count it as shared, and covers the errors."""
    views, truth = object_bundle(room(), Laplace(0.6), np.random.default_rng(3), 31, camera=CAMERA, image=False)
    result = fuse(views, min_confidence=0.0)
    assert result.sigma is not None
    sizes = np.abs(result.depth - truth) / result.sigma
    assert 0.4 < np.nanquantile(sizes, 0.683) < 1.5  # 0.1 where the noise of wide views counted as shared


def test_sigma_covers_where_one_view_is_far_better_than_the_others() -> None:
    """A half that holds the quiet view has the surface of the whole; the other half shows the error."""
    clean, truth = object_bundle(room(), None, np.random.default_rng(3), 5, camera=CAMERA, image=False)
    rng = np.random.default_rng(1)
    views = [
        replace(view, depth=Laplace(noise)(view.depth, rng))
        for view, noise in zip(clean, (0.2, 0.2, 0.01, 0.2, 0.2), strict=True)
    ]
    result = fuse(views, min_confidence=0.0)
    assert result.sigma is not None
    covered = np.abs(result.depth - truth) < result.sigma
    assert covered.mean() > 0.65
    blocks = [covered[i : i + 24, j : j + 24].mean() for i in range(0, 72, 24) for j in range(0, 96, 24)]
    assert min(blocks) > 0.4


@pytest.mark.parametrize("factor", [1.08, 1.15, 0.9])
@pytest.mark.parametrize("walls", [False, True])
def test_of_two_views_one_of_which_is_off_as_a_whole_the_reference_decides(factor: float, walls: bool) -> None:
    """Another scale is no error that neighbouring pixels share: the result lay anywhere between the two views."""
    scene = room(blob()) if walls else blob()
    views, truth = object_bundle(scene, Gauss(0.01), np.random.default_rng(0), 2, camera=PAPER_CAMERA.scaled(0.25))
    off = replace(views[0], depth=views[0].depth * np.float32(factor))
    result = fuse([off, views[1]], reference=1, min_confidence=0.0)
    away = np.abs(result.depth - truth) / truth
    assert np.nanmedian(away) < 0.05 * abs(factor - 1)
