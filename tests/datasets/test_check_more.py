"""Confusions about K, views too close together, views that disagree about scale; and what mends each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion.cli.main import main
from cfusion.datasets import read, write_bundle
from cfusion.datasets.check import Correction, align_scales, check, reprojection, warning
from cfusion.datasets.check.reprojection import STATED, Hypothesis, Samples
from cfusion.errors import InputError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.geometry.pose import turned_by
from cfusion.synthetic import disturbed

SAMPLES = 6000


def surface(camera: Pinhole, pose: Pose) -> np.ndarray:
    """Depth of a bumpy ground around z = 3, by a few steps towards it."""
    rays = camera.back_project(np.ones(camera.shape))
    depth = np.full(camera.shape, 3.0)
    for _ in range(60):
        points = pose.apply(rays * depth[..., None])
        height = 3 + 0.3 * np.sin(2 * points[..., 0]) * np.cos(3 * points[..., 1])
        depth += 0.7 * (height - points[..., 2])
    return depth


def views(baseline: float = 0.3, count: int = 4) -> list[View]:
    camera = Pinhole(90.0, 90.0, 52.0, 34.0, 100, 80)
    found = []
    for number in range(count):
        angle = 0.05 * (number - count / 2) * min(baseline / 0.3, 1)
        turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
        pose = Pose(turn, np.array([baseline * number, 0.4 * baseline * (number % 2), 0.1 * baseline * number]))
        found.append(View(surface(camera, pose), camera, pose))
    return found


def with_k(given: Sequence[View], **changes: float) -> list[View]:
    return [replace(view, camera=replace(view.camera, **changes)) for view in given]


def test_the_scene_is_right() -> None:
    found = check(views(), SAMPLES)
    assert found.fits_as_stated, found.sentence
    assert found.stated.residual < 2e-3
    assert not found.too_close
    assert found.scales is None


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"cx": 34.0, "cy": 52.0}, "cx and cy exchanged"),
        ({"fx": 45.0, "fy": 45.0}, "focal length doubled"),
        ({"fx": 180.0, "fy": 180.0}, "focal length halved"),
        ({"fx": 45.0, "fy": 45.0, "cx": 26.0, "cy": 17.0}, "all of it doubled"),
        ({"fx": 180.0, "fy": 180.0, "cx": 104.0, "cy": 68.0}, "all of it halved"),
        ({"fx": 675.0, "fy": 675.0, "cx": 390.0, "cy": 255.0}, "K of an image of about 780 x 510 pixels"),
        ({"fx": 0.9, "fy": 1.125, "cx": 0.52, "cy": 0.425}, "K of an image of about 1 x 1 pixels"),
    ],
)
def test_mistakes_of_k_are_named(changes: dict[str, float], name: str) -> None:
    found = check(with_k(views(), **changes), SAMPLES)
    assert name in found.best.hypothesis.name, found.sentence
    assert found.best.residual < found.stated.residual


def test_maps_that_know_few_pixels_tell_inverted_poses() -> None:
    """As of a lidar: no hypothesis meets more than a tenth of the pixels."""
    rng, given = np.random.default_rng(0), views()
    sparse = [np.where(rng.random(view.depth.shape) < 0.1, view.depth, np.nan) for view in given]
    wrong = [replace(v, depth=z, pose=v.pose.inverse()) for v, z in zip(given, sparse, strict=True)]
    found = check(wrong, SAMPLES)
    assert max(fit.overlap for fit in found.fits) < 0.1
    assert found.best.hypothesis.name.startswith("poses inverted")
    assert found.is_sure


def test_k_of_another_image_is_scaled_about_the_middle() -> None:
    """Of an image of 780 x 624 pixels, for one of 100 x 80."""
    stated = np.array([[702.0, 700.0, 390.0, 312.0]])
    samples: Any = SimpleNamespace(intrinsics=stated, widths=np.array([100]), heights=np.array([80]))
    found = Samples._k(samples, np.array([0]), Hypothesis("", resized=True))
    assert np.hstack(found) == pytest.approx([90.0, 700 * 80 / 624, 49.5, 39.5])


def test_how_far_the_views_move_does_not_depend_on_where_the_world_begins() -> None:
    far = np.array([5e5, -2e5, 40.0])
    moved = [replace(view, pose=Pose(view.pose.rotation, view.pose.translation + far)) for view in views()]
    one, other = (Samples(each, 500).motion for each in (views(), moved))
    assert one == pytest.approx(other, rel=1e-6)
    assert one > 0.4


OTHER_MISTAKES = {
    "rotations inverted, positions not": lambda view: replace(
        view, pose=Pose(view.pose.rotation.T, view.pose.translation)
    ),
    "positions inverted, rotations not": lambda view: replace(
        view, pose=Pose(view.pose.rotation, view.pose.inverse().translation)
    ),
    "rows from the bottom up": lambda view: replace(view, depth=view.depth[::-1]),
    "columns from right to left": lambda view: replace(view, depth=view.depth[:, ::-1]),
    "images turned by 180 degrees": lambda view: replace(view, depth=view.depth[::-1, ::-1]),
}


@pytest.mark.parametrize("name", OTHER_MISTAKES)
def test_half_inverted_poses_and_flipped_images_are_named(name: str) -> None:
    """They were told to be OpenGL's axes, inverted poses or half a pixel."""
    given = [OTHER_MISTAKES[name](view) for view in orbit()]
    found = check(given, SAMPLES)
    assert name in found.best.hypothesis.name, found.sentence
    assert found.best.residual < 0.2 * found.stated.residual
    assert Correction.of(found.best.hypothesis) is None


def orbit() -> list[View]:
    """Views that turn, move and roll."""
    camera = Pinhole(90.0, 90.0, 52.0, 34.0, 100, 80)
    found = []
    for number in range(5):
        vector = np.array([0.15 - 0.05 * number, 0.1 * (number - 2), 0.06 * (number % 3)])
        pose = Pose(turned_by(vector), np.array([0.3 * number, 0.2 * (number % 2), 0.1 * number]))
        found.append(View(surface(camera, pose), camera, pose))
    return found


def test_a_crop_far_from_the_principal_point_is_left_in_peace() -> None:
    corner = [
        replace(view, depth=view.depth[50:, 70:], camera=replace(view.camera, cx=-18.0, cy=-16.0, width=30, height=30))
        for view in views(0.03)
    ]
    other = [
        replace(view, depth=view.depth[:30, :30], camera=replace(view.camera, width=30, height=30))
        for view in views(0.03)
    ]
    for cropped in (corner, other):
        found = check(cropped, SAMPLES)
        assert found.fits_as_stated, found.sentence


@pytest.mark.parametrize("counts", [1000, 5000])
def test_a_scale_given_as_its_inverse_is_named(counts: float) -> None:
    for factor in (counts**2, counts**-2):
        found = check([replace(view, depth=view.depth * np.float32(factor)) for view in views()], SAMPLES)
        assert found.best.hypothesis.factor == pytest.approx(1 / factor, rel=1e-12), found.sentence
        assert f"{counts} counts per metre, multiplied instead of divided" in found.sentence


@pytest.mark.parametrize("factor", [1.0, 1000.0])
@pytest.mark.parametrize("baseline", [1e-4, 1e-3])
def test_views_too_close_together_tell_nothing(baseline: float, factor: float) -> None:
    """No cause is named that noise decides."""
    rng = np.random.default_rng(1)
    given = [
        replace(view, depth=factor * view.depth * np.exp(0.003 * rng.normal(size=view.shape)))
        for view in views(baseline)
    ]
    found = check(given, SAMPLES)
    assert found.fits_as_stated, found.sentence
    assert "too close together to decide" in found.sentence


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_what_is_called_better_has_the_smaller_residual(noise: float) -> None:
    rng = np.random.default_rng(2)
    for baseline in (1e-3, 1e-2, 0.05, 0.3):
        for factor in (1.0, 1000.0, 0.2):
            given = [
                replace(view, depth=factor * view.depth * np.exp(noise * rng.normal(size=view.shape)))
                for view in views(baseline)
            ]
            found = check(given, SAMPLES)
            assert found.best.residual <= found.stated.residual or not found.stated.overlap > 0


def test_views_that_disagree_about_scale() -> None:
    factors = np.array([1.1, 0.95, 1.0, 0.92])
    given = [replace(view, depth=view.depth * factor) for view, factor in zip(views(0.1), factors, strict=True)]
    found = check(given, SAMPLES)
    assert found.fits_as_stated
    assert found.scales is not None
    assert "--align-scales" in found.sentence
    expected = 1 / factors
    np.testing.assert_allclose(found.scales.factors, expected / np.prod(expected) ** 0.25, rtol=0.01)
    assert found.scales.after < 0.2 * found.scales.before
    assert check(align_scales(given), SAMPLES).scales is None


@pytest.mark.parametrize("wrong", [(1,), (0, 2), (1, 2, 3)], ids=str)
def test_the_poses_decide_whose_scale_is_right(wrong: tuple[int, ...]) -> None:
    """Some views in millimetres, the poses in metres: not the geometric mean of the two, which no view has."""
    right = views()
    given = [replace(view, depth=view.depth * (1000 if k in wrong else 1)) for k, view in enumerate(right)]
    found = check(given, SAMPLES)
    assert "--align-scales" in (found.caution or "")
    for view, true in zip(align_scales(given), right, strict=True):
        np.testing.assert_allclose(np.nanmedian(view.depth / true.depth), 1, rtol=0.01)


def test_one_view_of_another_unit_among_many_is_found() -> None:
    """Most pairs of views fit, so the residual of all hardly changes."""
    given = views(0.1, 9)
    given[3] = replace(given[3], depth=given[3].depth * 1000)
    found = check(given, SAMPLES).scales
    assert found is not None
    assert np.argmin(found.factors) == 3
    np.testing.assert_allclose(min(found.factors), 0.001, rtol=0.02)


def test_a_view_that_knows_one_pixel_has_no_scale() -> None:
    rng = np.random.default_rng(0)
    given = [replace(view, depth=view.depth + rng.normal(0, 0.03, view.shape)) for view in views(0.1, 3)]
    depth = np.full(given[0].shape, np.nan)
    depth[40, 50] = 1.5
    given[1] = replace(given[1], depth=depth)
    assert check(given, SAMPLES).scales is None


def test_views_of_different_places_meet_by_chance() -> None:
    """At some scale a few pixels fall on the others, with a small residual: no reason to multiply depths."""
    for angle in (0.2, 0.35, 0.5):
        given = []
        for k, view in enumerate(views(0.1)):
            cosine, sine = np.cos(angle * k), np.sin(angle * k)
            turn = np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])
            given.append(replace(view, pose=Pose(turn, np.array([30.0 * k, 5.0 * (k % 2), -7.0 * k]))))
        found = check(given, SAMPLES)
        assert found.sentence == "No two of the views see the same surface, as stated or under any usual confusion."
        assert not found.is_sure
        assert found.caution is None


MISTAKES = {
    "--invert-poses": lambda view: replace(view, pose=view.pose.inverse()),
    "--depth-scale 0.001": lambda view: replace(view, depth=1000 * view.depth),
    "--depth-scale 0.0002": lambda view: replace(view, depth=5000 * view.depth),
}


@pytest.mark.parametrize("option", MISTAKES)
def test_fuse_stops_where_it_is_sure(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    """And says the option that mends it; with that option, or --force, it goes on."""
    write_bundle([MISTAKES[option](view) for view in views()], tmp_path / "data")
    write_bundle(views(), tmp_path / "right")
    command = ["fuse", str(tmp_path / "data"), "--method", "median", "--backend", "numpy", "--write", "npy"]
    assert main([*command, "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"pass {option};" in said
    assert not (tmp_path / "out").exists()
    assert main([*command, "-o", str(tmp_path / "forced"), "--force", "--no-report"]) == 0
    assert main([*command, "-o", str(tmp_path / "corrected"), *option.split(), "--no-report"]) == 0
    command[1] = str(tmp_path / "right")
    assert main([*command, "-o", str(tmp_path / "expected"), "--no-report"]) == 0
    corrected, expected = (np.load(tmp_path / name / "depth.npy") for name in ("corrected", "expected"))
    np.testing.assert_allclose(corrected, expected, rtol=1e-4)


@pytest.mark.parametrize(
    "hypothesis",
    [
        Hypothesis("", inverse=True),
        Hypothesis("", axes="opengl"),
        Hypothesis("", inverse=True, axes="opengl"),
        Hypothesis("", factor=0.25),
        Hypothesis("", shift=-0.5),
    ],
)
def test_what_mends_is_what_was_meant(hypothesis: Hypothesis) -> None:
    """A view read with the correction is the view that the hypothesis supposes: nothing better is left."""
    correction = Correction.of(hypothesis)
    assert correction is not None
    assert correction.options
    turned = [correction.view(view) for view in views()]
    back = check(turned, SAMPLES)
    again = Correction.of(back.best.hypothesis)
    assert again is not None
    if not hypothesis.shift and not (hypothesis.inverse and hypothesis.axes == "opengl"):
        for view, expected in zip(turned, views(), strict=True):
            corrected = again.view(view)
            np.testing.assert_allclose(corrected.depth, expected.depth, rtol=2e-3)
            np.testing.assert_allclose(corrected.pose.matrix(), expected.pose.matrix(), atol=1e-9)


@pytest.mark.parametrize(
    ("asked", "mistake", "advice"),
    [
        (["--axes", "opengl"], None, "leave --axes opengl out;"),
        (["--depth-scale", "1000"], None, "leave --depth-scale 1000 out;"),
        (["--depth-scale", "0.1"], "--depth-scale 0.001", "pass --depth-scale 0.001 instead of --depth-scale 0.1;"),
        (["--axes", "opengl"], "--invert-poses", "pass --invert-poses instead of --axes opengl;"),
    ],
)
def test_advice_counts_the_options_that_were_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[str], mistake: str | None, advice: str
) -> None:
    """An option that is itself the mistake was advised once more."""
    write_bundle([MISTAKES[mistake](view) if mistake else view for view in views()], tmp_path / "data")
    assert main(["fuse", str(tmp_path / "data"), "-o", str(tmp_path / "out"), *asked]) == 2
    assert f"To continue, {advice}" in capsys.readouterr().err


def test_a_warning_names_the_option_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lengths of rays in noise: likely, not sure; the warning said no more than that."""
    rng = np.random.default_rng(0)
    given = [
        replace(view, depth=view.depth / view.camera.rays()[..., 2] * rng.normal(1, 0.02, view.shape))
        for view in views()
    ]
    write_bundle(given, tmp_path / "data")
    command = ["fuse", str(tmp_path / "data"), "-o", str(tmp_path / "out"), "--method", "median", "--backend", "numpy"]
    assert main([*command, "--no-report"]) == 0
    assert "of the deciding pixels). If so, pass --ray-depth.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "second",
    [
        Correction(axes="opengl"),
        Correction(invert_poses=True),
        Correction(invert_poses=True, axes="opengl", depth_scale=5.0),
    ],
)
@pytest.mark.parametrize(
    "first", [Correction(), Correction(axes="opengl"), Correction(True, "opengl", 0.1, False, 0.5)]
)
def test_two_corrections_are_one_up_to_a_turn_of_the_world(first: Correction, second: Correction) -> None:
    both = first.then(second)
    assert both is not None
    found, expected = (
        [change(view) for view in views()] for change in (both.view, lambda v: second.view(first.view(v)))
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.depth, other.depth, rtol=1e-6)
        assert one.camera == other.camera
        relative = found[0].pose.inverse() @ one.pose, expected[0].pose.inverse() @ other.pose
        np.testing.assert_allclose(relative[0].matrix(), relative[1].matrix(), atol=1e-9)
    assert Correction(ray_depth=True).then(Correction(ray_depth=True)) is None


def test_a_list_of_views_can_be_corrected() -> None:
    given = views()
    corrected = Correction(depth_scale=2.0)(given)
    assert len(corrected) == len(given)
    np.testing.assert_array_equal(corrected[1].depth, 2 * given[1].depth)
    with pytest.raises(InputError, match="not ndarray"):
        Correction()([view.depth for view in given])  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "option"), [({"depth_scale": 0.0}, "--depth-scale"), ({"shift_centre": np.inf}, "--shift-centre")]
)
def test_the_option_that_is_wrong_is_named(wrong: dict[str, float], option: str) -> None:
    with pytest.raises(InputError, match=f"^{option} is"):
        Correction(**wrong)  # type: ignore[arg-type]


def test_a_bundle_says_how_it_was_corrected(tmp_path: Path) -> None:
    camera = Pinhole(5, 5, 1, 1, 3, 2)
    write_bundle([View(np.full((2, 3), 2.0), camera, Pose.identity())], tmp_path / "a")
    said = "bundle: unit metre, camera-to-world; 1 view; read with --depth-scale 0.5"
    assert Correction(depth_scale=0.5)(read(tmp_path / "a")).sentence == said


@pytest.mark.parametrize("count", [35, 40, 1000])
def test_frames_of_a_long_sequence_are_compared_near_and_far_from_its_first_to_its_last(count: int) -> None:
    """In each group frames 2, 8 and 30 after its first, so that a slow and a fast camera both have parallax."""
    groups = reprojection._groups(count, reprojection.FEW)
    assert (groups[0][0], groups[-1][-1]) == (0, count - 1)
    assert all(np.subtract(group, group[0]).tolist() == [0, 2, 8, 30] for group in groups)
    assert len(groups) == 4
    assert reprojection._groups(20, reprojection.FEW) == [[0, 2, 8, 19]]
    assert reprojection._groups(16, reprojection.FEW) == [list(range(16))]


@pytest.mark.parametrize("corner", [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("other", [2.0, 5.0])
def test_depth_is_interpolated_within_one_surface_only(corner: tuple[int, int], other: float) -> None:
    """Where one of the four pixels around a place is of another one, nearer or farther, the nearest counts."""
    camera, place = Pinhole(9.0, 9.0, 1.5, 1.5, 4, 4), np.array([0])
    depth = 1 / (1 / 3 + 0.001 * np.mgrid[:4, :4].sum(axis=0))  # a plane
    beside = depth.copy()
    beside[corner] = other
    plane, edge = (
        reprojection.Samples([View(each, camera, Pose.identity()) for each in (found, depth)], 10)
        for found in (depth, beside)
    )
    for v, u in ((1.4, 1.3), (1.4, 1.6), (1.7, 1.3), (1.7, 1.6)):
        found = [float(each._inverse_depth(place, *np.array([[u], [v]]), STATED)[0]) for each in (plane, edge)]
        assert found == pytest.approx([1 / 3 + 0.001 * (u + v), 1 / beside[round(v), round(u)]])


@pytest.mark.parametrize("turning", [True, False])
def test_inexact_poses_are_no_mistaken_convention(turning: bool) -> None:
    """Without turning, R and its transpose differ by errors alone; half a pixel looks like a small rotation."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        given = [disturbed(view, 0.3, 0.002, 3.0, rng) for view in (views() if turning else sideways())]
        assert warning(given) is None, f"seed {seed}: {warning(given)}"


def sideways() -> list[View]:
    """Views of one direction."""
    camera = Pinhole(90.0, 90.0, 52.0, 34.0, 100, 80)
    poses = [Pose(np.eye(3), np.array([0.1 * number, 0.04 * (number % 2), 0.0])) for number in range(4)]
    return [View(surface(camera, pose), camera, pose) for pose in poses]


@pytest.mark.parametrize("noise", [0.0, 3e-4])
def test_half_a_pixel_is_named_where_noise_is_smaller_than_what_it_does(noise: float) -> None:
    rng = np.random.default_rng(0)
    given = [
        replace(view, depth=(view.depth * (1 + noise * rng.normal(size=view.shape))).astype(np.float32))
        for view in with_k(views(), cx=52.5, cy=34.5)
    ]
    assert "half a pixel less" in str(warning(given))
