"""Maps known up to a scale and a shift, axes of any camera, several mistakes at once, poses of other views."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion.cli.main import main
from cfusion.datasets import write_bundle
from cfusion.datasets.check import Correction, align_scales, check, scales, warning
from cfusion.datasets.check.affine import Affine
from cfusion.datasets.check.axes import EVERY_AXES, described, name_of, turn_of
from cfusion.datasets.check.remap import DEPTH, INVERSE, VALUE, Remap
from cfusion.datasets.check.reprojection import STATED, Samples
from cfusion.errors import InputError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.geometry.pose import turned_by

SAMPLES = 4000
SCALES, SHIFTS = np.array([1.0, 0.7, 1.4, 0.9, 1.2]), np.array([1.0, 1.3, 0.8, 1.1, 1.5])


def surface(camera: Pinhole, pose: Pose) -> np.ndarray:
    """Depth of a bumpy ground with a wide range of depths, by a few steps towards it."""
    rays = camera.back_project(np.ones(camera.shape))
    depth = np.full(camera.shape, 3.0)
    for _ in range(80):
        x, y, z = np.moveaxis(pose.apply(rays * depth[..., None]), -1, 0)
        depth += 0.6 * (3 + 0.7 * x + 0.3 * np.sin(2 * x) * np.cos(3 * y) - z)
    return depth


def views() -> list[View]:
    """Views that turn, move and roll."""
    camera = Pinhole(90.0, 90.0, 52.0, 34.0, 100, 80)
    found = []
    for number in range(5):
        vector = np.array([0.1 - 0.04 * number, 0.08 * (number - 2), 0.06 * (number % 3)])
        pose = Pose(turned_by(vector), np.array([0.3 * (number - 2), 0.2 * (number % 2), 0.1 * number]))
        found.append(View(surface(camera, pose), camera, pose))
    return found


def seen_as(meaning: str) -> list[View]:
    """The views as a network of relative depth would give them."""
    found = []
    for view, a, b in zip(views(), SCALES, SHIFTS, strict=True):
        depth = view.depth.astype(np.float64)
        if meaning == "depth":
            values = a * depth + b
        elif meaning == "inverse depth":
            values = 1 / (a / depth + 0.1 * b)
        else:  # as these networks end: from 0 (far) to 1
            low, high = (1 / depth).min(), (1 / depth).max()
            values = np.maximum((1 / depth - low) / (high - low), 1e-3)
        found.append(replace(view, depth=values))
    return found


@pytest.mark.parametrize("meaning", ["depth", "inverse depth", "value"])
def test_maps_up_to_a_scale_and_a_shift_are_named_and_mended(meaning: str) -> None:
    """They were told to disagree about scale, and aligned scales left a bent surface with a confidence of 0.99."""
    given = seen_as(meaning)
    found = check(given, SAMPLES)
    assert found.scales is not None
    assert found.scales.variable == meaning
    assert "known up to a scale and a shift" in found.sentence
    assert found.sentence.startswith("The data do not fit as stated")
    assert "--align-scales" in (found.caution or "")
    assert found.is_sure
    for view, true in zip(align_scales(given), views(), strict=True):
        off = np.abs(view.depth / true.depth - 1)
        assert np.nanmedian(off) < 0.06


def test_noise_does_not_hide_a_shift_nor_look_like_one() -> None:
    rng = np.random.default_rng(0)

    def noisy(given: list[View]) -> list[View]:
        return [replace(view, depth=view.depth * rng.normal(1, 0.01, view.shape)) for view in given]

    found = check(noisy(seen_as("depth")), SAMPLES).scales
    assert found is not None
    assert found.shifts
    assert check(noisy(views()), SAMPLES).scales is None


def test_fuse_stops_at_maps_up_to_a_shift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(seen_as("depth"), tmp_path / "data")
    command = ["fuse", str(tmp_path / "data"), "--method", "median", "--backend", "numpy", "--no-report"]
    assert main([*command, "-o", str(tmp_path / "out")]) == 2
    assert "To continue, pass --align-scales; or pass --force" in capsys.readouterr().err
    assert main([*command, "-o", str(tmp_path / "out"), "--align-scales"]) == 0
    off = np.load(tmp_path / "out" / "depth.npy") / views()[2].depth - 1
    assert np.nanmedian(np.abs(off)) < 0.01


def test_a_map_makes_depths_of_values() -> None:
    values = np.array([0.5, 2.0, np.nan], np.float32)
    np.testing.assert_allclose(Remap(2.0, 1.0)(values), [2, 5, np.nan])
    np.testing.assert_allclose(Remap(2.0, 1.0, INVERSE)(values), [1 / 5, 1 / 2, np.nan])
    np.testing.assert_allclose(Remap(2.0, 1.0, VALUE)(values), [1 / 2, 1 / 5, np.nan])
    np.testing.assert_allclose(Remap(2.0, -2.0)(values), [np.nan, 2, np.nan])
    for wrong in ({"factor": 0.0}, {"shift": np.inf}, {"variable": "metres"}):
        with pytest.raises(InputError):
            Remap(**wrong)  # type: ignore[arg-type]


def with_axes(view: View, axes: str) -> View:
    """A view whose pose is that of a camera with these axes."""
    return replace(view, pose=Pose(view.pose.rotation @ turn_of(axes).T, view.pose.translation))


@pytest.mark.parametrize("axes", ["ros", "y,-x,z", "-y,-x,-z"])
def test_axes_of_any_camera_are_named(axes: str) -> None:
    """A robot's body looks along x, a phone's pose is that of another orientation; poses were told to be inverted."""
    found = check([with_axes(view, axes) for view in views()], SAMPLES)
    assert found.best.hypothesis.axes == axes, found.sentence
    assert described(axes) in found.sentence
    correction = Correction.of(found.best.hypothesis)
    assert correction == Correction(axes=axes)
    back = [correction.view(with_axes(view, axes)) for view in views()]
    for one, true in zip(back, views(), strict=True):
        np.testing.assert_allclose(one.pose.matrix(), true.pose.matrix(), atol=1e-12)


def test_axes_have_a_name_and_a_turn_each() -> None:
    assert len(set(EVERY_AXES)) == 24
    for axes in EVERY_AXES:
        assert name_of(turn_of(axes)) == axes
        assert np.linalg.det(turn_of(axes)) == pytest.approx(1)
    assert described("ros") == "x forward, y left, z up"
    assert described("opengl") == "x right, y up, z back"
    for wrong in ("x,y", "x,x,z", "x,y,-z", "forward", "", "x,y,z,x"):
        with pytest.raises(InputError, match="right-handed"):
            turn_of(wrong)


def test_the_option_of_axes_is_one_that_the_command_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle([with_axes(view, "ros") for view in views()], tmp_path / "data")
    assert main(["fuse", str(tmp_path / "data"), "-o", str(tmp_path / "out")]) == 2
    assert "pass --axes ros;" in capsys.readouterr().err
    assert Correction(axes="-y,x,z").options == "--axes=-y,x,z"
    assert main(["check", str(tmp_path / "data"), "--axes=-y,-z,x", "--quiet"]) == 0
    assert main(["check", str(tmp_path / "data"), "--axes", "up"]) == 2


MISTAKES = {
    "K of a phone's image, OpenGL axes": lambda view: replace(
        with_axes(view, "opengl"), camera=replace(view.camera, fx=675.0, fy=675.0, cx=393.5, cy=258.5)
    ),
    "millimetres, OpenGL axes": lambda view: replace(with_axes(view, "opengl"), depth=1000 * view.depth),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_two_mistakes_at_once_are_named(mistake: str) -> None:
    """Each alone hardly fits better than what is stated; views were told to disagree about scale."""
    found = check([MISTAKES[mistake](view) for view in views()], SAMPLES)
    assert found.scales is None
    assert "OpenGL axes; " in found.best.hypothesis.name, found.sentence
    assert found.is_sure
    assert found.best.residual < 0.01


@pytest.mark.parametrize(("step", "name"), [(-1, "pose of the view before"), (1, "pose of the view after")])
def test_poses_of_the_views_before_or_after_are_named(step: int, name: str) -> None:
    """One frame late: `warning` said nothing, and a quarter of what was fused was off by more than 2 %."""
    given = views()
    poses = [given[min(max(k + step, 0), 4)].pose for k in range(5)]
    found = check([replace(view, pose=pose) for view, pose in zip(given, poses, strict=True)], SAMPLES)
    assert name in found.best.hypothesis.name, found.sentence
    assert Correction.of(found.best.hypothesis) is None


@pytest.mark.parametrize(("which", "name"), [("depth", "depth maps sorted as text"), ("pose", "poses sorted as text")])
def test_names_sorted_as_text_are_named(which: str, name: str) -> None:
    """0, 1, 10, 11, 2: of a dozen files without leading zeros."""
    camera = Pinhole(90.0, 90.0, 52.0, 34.0, 100, 80)
    rng = np.random.default_rng(1)
    given = []
    for _ in range(13):
        pose = Pose(turned_by(rng.normal(0, 0.08, 3)), rng.normal(0, 0.3, 3))
        given.append(View(surface(camera, pose), camera, pose))
    as_text = [given[k] for k in sorted(range(13), key=str)]
    pairs = zip(as_text, given, strict=True) if which == "depth" else zip(given, as_text, strict=True)
    found = check([replace(view, pose=other.pose) for view, other in pairs], SAMPLES)
    assert name in found.best.hypothesis.name, found.sentence


def test_right_views_stay_in_peace() -> None:
    assert warning(views()) is None
    found = check(views(), SAMPLES)
    assert found.fits_as_stated, found.sentence
    assert found.scales is None


@pytest.mark.parametrize(("widest", "named"), [(19.9, True), (20.1, False)])
def test_views_of_one_scene_differ_by_twenty_at_most(
    monkeypatch: pytest.MonkeyPatch, widest: float, named: bool
) -> None:
    """A search that flattens one view a hundred times leaves small residuals, whatever it shows."""
    samples = Samples(seen_as("depth"), SAMPLES)
    factors = np.array([1.0, 1.0, widest, 1.0, 1.0])
    stated = samples.residuals(STATED)
    remaps = tuple(Remap(float(a), -float(b), DEPTH) for a, b in zip(factors, SHIFTS, strict=True))
    ideal = Affine(remaps, 1e-3, 1.0, 9.0, 1e-6, scales.spread_of(samples), stated.sizes)
    monkeypatch.setattr(scales, "fitted", lambda *given: ideal)
    monkeypatch.setattr(scales, "nearest_kept", lambda *given: True)
    monkeypatch.setattr(scales, "_needs_shifts", lambda *given: True)
    found = scales.view_shifts(samples, None, None, values=True)
    assert (found is not None) == named


def test_the_spread_of_depths_is_that_of_their_ratios() -> None:
    """Of the usual view, whatever its unit; a view that knows nothing has none."""
    ratio = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
    depth = np.concatenate([7 * ratio, 300 * ratio**2, 0.1 * ratio, np.full(5, np.nan)])
    samples: Any = SimpleNamespace(depth=depth, source=np.repeat(np.arange(4), 5), starts=range(4))
    assert scales.spread_of(samples) == pytest.approx(np.log(2))
    samples.depth = np.full(20, np.nan)
    assert scales.spread_of(samples) == pytest.approx(0, abs=1e-9)
