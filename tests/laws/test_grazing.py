"""Walls seen at a grazing angle: read where they are, registered before they are judged, by cameras of any scale."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, View, fuse, kernels
from cfusion.auto.first_surface import first_surface
from cfusion.auto.registration import register
from cfusion.auto.settings import Settings
from cfusion.geometry.pose import turned_by
from cfusion.solvers import PDHG
from cfusion.source import Posed
from cfusion.source.upload import UploadedViews, parts_of

NUMPY = kernels.load("numpy")
PERSPECTIVE, PARALLEL = Pinhole(40.0, 42.0, 31.5, 23.5, 64, 48), Orthographic(0.05, 31.5, 23.5, 64, 48)
NORMAL = np.array([-0.8, -0.1, 0.2])  # of a wall, which rays meet at cosines down to 0.03
NOTHING = np.empty((0, 0), np.float32)


def wall(camera: Pinhole | Orthographic, pose: Pose, away: float = 1.0) -> np.ndarray:
    """Its depth n . p = away, in double precision; NaN where it is behind, or further than 50."""
    rows, columns = np.indices(camera.shape)
    if isinstance(camera, Pinhole):
        ray = np.stack([(columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy, np.ones(camera.shape)], -1)
        origin = np.zeros(3)
    else:
        ray, origin = np.array([0.0, 0.0, 1.0]), camera.back_project(np.zeros(camera.shape))
    seen = (away - (origin @ pose.rotation.T + pose.translation) @ NORMAL) / (ray @ pose.rotation.T @ NORMAL)
    depth: np.ndarray = np.where((seen > 0) & (seen < 50), seen, np.nan)
    return depth


@pytest.mark.parametrize("camera", [PERSPECTIVE, PARALLEL])
def test_a_wall_is_read_where_it_is_between_pixels_and_from_a_surface_beside_it(every_backend, camera):
    """At the nearest pixel; also if the surface is a parallel wall, as z differs where it is read."""
    pose = Pose(turned_by(np.array([0.01, 0.03, 0.02])), np.array([0.06, 0.03, 0.1]))
    truth, measured = wall(camera, Pose.identity()), wall(camera, pose).astype(np.float32)
    numbers, motion = camera.numbers, pose.inverse().matrix()[:3]
    for away in (1.0, 0.97):
        surface = wall(camera, Pose.identity(), away).astype(np.float32)
        read, *_ = every_backend.read_view(surface, numbers, numbers, motion, measured, NOTHING, 0.0)
        inside = np.isfinite(read - truth)[3:-3, 3:-3]
        off = np.abs(read / truth - 1)[3:-3, 3:-3][inside]
        assert inside.mean() > 0.2
        assert np.median(off) < 1e-4  # half a pixel is up to a tenth
        assert np.quantile(off, 0.95) < 2e-3


def test_an_edge_has_no_tangent_plane(every_backend):
    """Beside a step what is read is either side of it, also if the surface blurs it over three pixels."""
    step = np.where(np.arange(64) < 32, 2.0, 3.0) + np.zeros((48, 1))
    blurred = step.copy()
    blurred[:, 31:33] = 2.33, 2.67
    motion = np.hstack([np.eye(3), [[0.02], [0.0], [0.0]]])
    numbers = PERSPECTIVE.numbers
    read, *_ = every_backend.read_view(
        blurred.astype(np.float32), numbers, numbers, motion, step.astype(np.float32), NOTHING, 0.0
    )
    known = read[np.isfinite(read)]
    assert np.minimum(np.abs(known - 2), np.abs(known - 3)).max() < 1e-6


@pytest.mark.parametrize(("steep", "wide", "plane"), [(12.0, 5, True), (35.0, 5, False), (35.0, 64, True)])
def test_what_is_steep_and_does_not_go_on_is_no_plane(every_backend, steep, wide, plane):
    """A road goes on, a smoothed edge, here of five pixels, does not. A wall at 2 is read as 2 without a plane."""
    camera = Pinhole(2000.0, 2000.0, 31.5, 23.5, 64, 48)
    there = np.clip(np.arange(64) - 31.5, -wide / 2, wide / 2)
    for turned in (False, True):  # along rows, and along columns
        ramp = 1 / (0.5 + steep / (2 * camera.fx) * there) + np.zeros((48, 1))  # z f (1 / z)' is `steep`
        ramp = np.ascontiguousarray(ramp.T) if turned else ramp
        seen = Pinhole(2000.0, 2000.0, 23.5, 31.5, 48, 64) if turned else camera
        motion = np.hstack([np.eye(3), np.roll([[0.0004], [0.0], [0.0]], int(turned), axis=0)])  # 0.4 pixels
        measured = np.full(ramp.shape, 2.0, np.float32)
        read, *_ = every_backend.read_view(
            ramp.astype(np.float32), seen.numbers, seen.numbers, motion, measured, NOTHING, 0.0
        )
        off = np.abs(read.T if turned else read)[2:-2, 31:33] - 2
        assert np.abs(off).min() > 1e-3 if plane else np.abs(off).max() < 1e-6


@cache
def corridor(noise: str, growth: float = 0.012) -> tuple[list[View], np.ndarray]:
    """Three views between four walls, with errors of 5 mm; poses are off by a third of a degree, or scales by 1 %."""
    camera = Pinhole(70.0, 70.0, 39.5, 29.5, 80, 60)
    rows, columns = np.indices(camera.shape)
    rays = np.stack([(columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy, np.ones(camera.shape)], -1)
    rng, views, truth = np.random.default_rng(4), [], None
    for k in (-1, 0, 1):
        centre, high = np.array([0.09 * k, 0.0, 0.0]), np.array([1.2, 1.2, 14.0])
        with np.errstate(divide="ignore"):
            depth = np.nanmin(np.maximum((high - centre) / rays, (-high - centre) / rays), axis=-1)
        truth = depth if k == 0 else truth
        turn, shift = np.radians([0.2, -0.25, 0.1]) * k, np.array([0.008, -0.006, 0.009]) * k
        moved = Pose(turned_by(turn), centre + shift) if noise == "pose" else Pose(np.eye(3), centre)
        factor = 1 + growth * k if noise == "scale" else 1.0
        views.append(View(factor * depth + rng.normal(0, 0.005, depth.shape), camera, moved, name=f"frame {k}"))
    return views, truth


def rmse(depth: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean((depth - truth) ** 2)))


def test_views_of_another_scale_do_not_spoil_a_corridor():
    """Three are as good as the reference alone, whose scale is right."""
    views, truth = corridor("scale")
    alone, all_of = (fuse(some, min_confidence=0.0).depth for some in (views[1:2], views))
    assert rmse(all_of, truth) < 1.05 * rmse(alone, truth)


def test_misplaced_views_do_not_refute_the_reference():
    """The first surface stays its own, though at their given poses the others see another one."""
    views, truth = corridor("pose")
    surface, _ = first_surface(Posed.of(views, 1, NUMPY), [None] * len(views), Settings(), PDHG(), NUMPY)
    assert rmse(surface, truth) < 0.03


def test_a_scale_is_taken_back_as_one_and_not_as_a_motion():
    views, truth = corridor("scale")
    source = Posed.of(views, 1, NUMPY)
    found = register(source, truth.astype(np.float32), NUMPY)
    assert found.motions is not None
    np.testing.assert_allclose(found.motions.factors, [1 / 0.988, 1, 1 / 1.012], atol=1e-3)
    assert max(found.motions.degrees(k) for k in (0, 2)) < 0.05
    for k in (0, 2):
        given = found.as_given(k, 1.0, NUMPY).views[1]
        np.testing.assert_allclose(given.depth, views[k].depth, rtol=1e-6)
        np.testing.assert_allclose(given.pose.translation, views[k].pose.translation, atol=1e-9)


@pytest.mark.parametrize("reference", [0, 1, 2])
def test_depths_have_the_median_scale_whatever_that_of_the_reference(reference):
    """Scales of 0.992, 1 and 1.008: the reference is scaled as well, and no view is turned for it."""
    views, _ = corridor("scale", 0.008)
    own = views[reference].depth
    truth = own / (1 + 0.008 * (reference - 1))
    found = register(Posed.of(views, reference, NUMPY), own, NUMPY)
    assert found.motions is not None
    np.testing.assert_allclose(found.motions.factors, [1 / 0.992, 1, 1 / 1.008], atol=2e-3)
    assert max(found.motions.degrees(k) for k in range(3)) < 0.1
    assert max(found.motions.distance(k) for k in range(3)) < 0.02
    result = fuse(views, reference=reference, min_confidence=0.0)
    assert abs(np.nanmedian(result.depth / truth) - 1) < 0.003
    assert np.median(result.sigma / result.depth) > 0.003  # the error of the mean of three scales: 0.0065 / sqrt(2)


def test_the_largest_scale_is_counted_from_the_median_and_not_from_the_reference():
    """The reference at 0.985: views at 1.006 and 1.008 are more than 2 % from it, and less from the others."""
    views, truth = corridor("none")
    more = [*views, replace(views[0], name="a"), replace(views[2], name="b")]
    scales = (1.006, 0.985, 0.994, 1.008, 0.997)
    scaled = [replace(view, depth=view.depth * np.float32(each)) for view, each in zip(more, scales, strict=True)]
    found = register(Posed.of(scaled, 1, NUMPY), (0.985 * truth).astype(np.float32), NUMPY)
    assert found.motions is not None
    np.testing.assert_allclose(np.array(found.motions.factors) * scales, 0.997, atol=3e-3)
    surface, _ = first_surface(Posed.of(scaled, 1, NUMPY), [None] * len(scaled), Settings(), PDHG(), NUMPY)
    assert abs(np.nanmedian(surface / truth) - 0.985) < 2e-3  # one scale only: the reference's


def test_an_orthographic_view_has_no_scale():
    views, truth = corridor("none")
    flat = Orthographic(0.05, 39.5, 29.5, 80, 60)
    source = Posed.of([views[1], View(views[0].depth, flat, views[0].pose)], 0, NUMPY)
    found = register(source, truth.astype(np.float32), NUMPY)
    assert found.motions is None or found.motions.factors == [1, 1]


def test_depths_in_steps_are_read_alike_everywhere(every_backend):
    """Four equal pixels are no interpolation where the nearest is asked for."""
    camera = Pinhole(70.0, 70.0, 39.5, 29.5, 80, 60)
    rows, columns = np.indices(camera.shape)
    wall = (3 / (1 + 0.01 * columns - 0.004 * rows)).astype(np.float32)
    motion = Pose(turned_by(np.array([0.01, -0.02, 0.005])), np.array([0.03, 0.02, -0.01])).matrix()[:3]
    given = (camera.numbers, camera.numbers, motion, np.float32(0.1) * np.round(wall / np.float32(0.1)), NOTHING, 0.0)
    expected = NUMPY.read_view(wall, *given)[0]
    np.testing.assert_allclose(every_backend.read_view(wall, *given)[0], expected, atol=1e-6)


def test_a_view_may_be_chosen_twice():
    views, _ = corridor("none")
    upload = UploadedViews(
        [0, 1, 2], np.stack([v.depth for v in views]), None, np.zeros((3, 10)), [v.pose for v in views]
    )
    (part,) = parts_of([upload], [1, 1])
    assert part.indices == [0, 1]
    np.testing.assert_array_equal(part.depths, np.stack([views[1].depth] * 2))


def test_heights_have_no_scale():
    camera = Orthographic(0.1, 20, 15, 40, 30)
    rng = np.random.default_rng(1)
    ground = 5 + 0.5 * np.sin(np.arange(40) / 5)[None] + 0.3 * np.cos(np.arange(30) / 4)[:, None]
    views = [View(ground + rng.normal(0, 0.002, ground.shape), camera, Pose.identity()) for _ in range(3)]
    views[0] = replace(views[0], depth=views[0].depth * np.float32(1.01))
    found = register(Posed.of(views, 1, NUMPY), ground.astype(np.float32), NUMPY)
    assert found.motions is None or not found.motions.numbers[:, 6].any()
