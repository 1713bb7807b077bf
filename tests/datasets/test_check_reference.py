"""A wrong pose of the reference alone is told; noise, scales, holes and moved objects of it are no wrong pose."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, fuse_many
from cfusion.cli.main import main
from cfusion.datasets import write_bundle
from cfusion.datasets.check import quick_check
from cfusion.errors import CFusionWarning
from cfusion.geometry.pose import turned_by

CAMERA = Pinhole(110.0, 110.0, 59.5, 44.5, 120, 90)
TURN = turned_by(np.radians(5) * np.array([0.6, 0.64, 0.48]))


@lru_cache
def scene(count: int = 7, noise: float = 0.003) -> tuple[View, ...]:
    """Views of balls before a corner of a room, from places along a bent path."""
    rng = np.random.default_rng(4)
    centres, radii = rng.uniform((-2, -1, 2), (2, 1, 4), (9, 3)), rng.uniform(0.2, 0.6, 9)
    views = []
    for k in range(count):
        apart = k - count // 2
        at = Pose(turned_by(np.array([0.02, 0.3 + 0.06 * apart, 0.1])), np.array([0.3 + 0.12 * apart, 0.1, -0.5]))
        rays = CAMERA.back_project(np.ones(CAMERA.shape)) @ at.rotation.T
        walls = [(1.3 - at.translation[1]) / rays[..., 1], (5 - at.translation @ (0.3, 0, 1)) / (rays @ (0.3, 0, 1))]
        found = [np.where(wall > 0, wall, np.inf) for wall in walls]
        for centre, radius in zip(centres, radii, strict=True):
            away, square = at.translation - centre, (rays * rays).sum(-1)
            root = (rays @ away) ** 2 - square * (away @ away - radius**2)
            ball = -((rays @ away) + np.sqrt(np.maximum(root, 0))) / square
            found.append(np.where((root > 0) & (ball > 0), ball, np.inf))
        depth = np.min(found, axis=0) * rng.normal(1, noise, CAMERA.shape)
        views.append(View(depth.astype(np.float32), CAMERA, at, name=f"frame {k}"))
    return tuple(views)


def posed(pose: Callable[[Pose], Pose], number: int = 3, count: int = 7) -> list[View]:
    """The views, one of them with another pose."""
    return [replace(view, pose=pose(view.pose)) if k == number else view for k, view in enumerate(scene(count))]


def turned(pose: Pose) -> Pose:
    return Pose(pose.rotation @ TURN, pose.translation)


@pytest.mark.parametrize("count", [3, 7])
@pytest.mark.parametrize(("pose", "words"), [(Pose.inverse, "if it is inverted"), (turned, "if it is turned by [45]")])
def test_a_wrong_pose_of_the_reference_is_told(count: int, pose: Callable[[Pose], Pose], words: str) -> None:
    middle = count // 2
    for views in (posed(pose, middle, count), posed(pose, middle, count)[::-1]):
        with pytest.warns(CFusionWarning, match=rf"The pose of view {middle}, the reference, does not fit: .*{words}"):
            fuse(views, "median", backend="numpy")


def test_so_is_that_of_a_reference_that_is_named_and_of_the_first_of_many_groups() -> None:
    views = posed(turned, 1)
    with pytest.warns(CFusionWarning, match="pose of view 1, the reference"):
        fuse(views, "median", backend="numpy", reference=1)
    with pytest.warns(CFusionWarning, match="pose of view 1, the reference"):
        list(fuse_many([views, views], "median", backend="numpy", reference=1))
    found = quick_check(views, 3)
    assert found is not None
    assert found.misplaced is None  # another view's: `auto` tells and mends it


def test_a_reference_far_from_the_middle_of_a_long_sequence_is_compared_with_its_neighbours() -> None:
    empty = replace(scene()[0], depth=np.full(CAMERA.shape, np.nan, np.float32))
    views = [scene()[k // 5] for k in range(35)] + [empty] * 30
    views[12] = replace(views[12], pose=turned(views[12].pose))
    found = quick_check(views, 12)
    assert found is not None
    assert found.misplaced is not None
    assert quick_check(views, 99) is None


def spoiled(how: str) -> np.ndarray:
    rng, depth = np.random.default_rng(0), scene()[3].depth.copy()
    if how == "noise":
        return depth * rng.normal(1, 0.05, depth.shape).astype(np.float32)
    if how == "scale":
        return depth * np.float32(1.05)
    if how == "few":
        return np.where(rng.random(depth.shape) < 0.01, depth * rng.normal(1, 0.03, depth.shape), np.nan)
    if how == "moved":
        depth[20:70, 30:100] *= np.float32(0.7)
    return depth


@pytest.mark.parametrize("how", ["nothing", "noise", "scale", "few", "moved"])
def test_other_faults_of_the_reference_are_no_wrong_pose(how: str) -> None:
    views = [replace(view, depth=spoiled(how)) if k == 3 else view for k, view in enumerate(scene())]
    found = quick_check(views, 3)
    assert found is not None
    assert found.misplaced is None, found.sentence


def test_of_two_views_nobody_knows_which_is_wrong() -> None:
    views = [scene()[2], replace(scene()[3], pose=turned(scene()[3].pose))]
    found = quick_check(views, 1)
    assert found is not None
    assert found.misplaced is None


def test_commands_tell_it_and_do_not_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(posed(Pose.inverse), tmp_path / "data")
    assert main(["check", str(tmp_path / "data"), "--quiet"]) == 1
    assert "pose of view 3" in capsys.readouterr().out
    fused = [
        "fuse",
        str(tmp_path / "data"),
        "-o",
        str(tmp_path / "out"),
        "--method",
        "median",
        "--quiet",
        "--no-report",
    ]
    assert main(fused) == 0
    assert "pose of view 3" in capsys.readouterr().err


@pytest.mark.parametrize("count", [3, 5, 7])
def test_one_odd_view_of_a_uniform_orbit_is_no_other_order(count: int) -> None:
    """With the poses of the views before, which are those given in another world, it drops out at an end."""
    camera, rng = Pinhole(90.0, 90.0, 49.5, 39.5, 100, 80), np.random.default_rng(0)
    views = []
    for k in range(count):
        turn = turned_by(np.array([0, 0.09 * k, 0]))
        at = Pose(turn, -3 * turn[:, 2])
        rays = camera.back_project(np.ones(camera.shape)) @ turn.T
        stretched = rays * (1.0, 1.4, 1.2)
        away, square = at.translation * (1.0, 1.4, 1.2), (stretched**2).sum(-1)
        root = (stretched @ away) ** 2 - square * (away @ away - 1.2)
        depth = np.where(root > 0, -((stretched @ away) + np.sqrt(np.maximum(root, 0))) / square, np.nan)
        views.append(View((depth + rng.normal(0, 0.001, depth.shape)).astype(np.float32), camera, at))
    for number in (0, 1, count - 1):
        pose = views[number].pose
        pushed = Pose(pose.rotation, pose.translation + 0.03 * pose.rotation[:, 2])
        found = quick_check([replace(view, pose=pushed) if k == number else view for k, view in enumerate(views)])
        assert found is not None
        assert not found.best.hypothesis.order, found.sentence
