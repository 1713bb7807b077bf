"""Motions that were rendered are found, by features and by whole images, and what cannot be found is said."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Pose
from cfusion.datasets.kitti_bundle import open_bundle
from cfusion.errors import InputError, ShapeError
from cfusion.frontends import features
from cfusion.frontends.direct_odometry import direct_motion
from cfusion.frontends.features import Circle, circle_matches, spread_features
from cfusion.frontends.motion import exponential, halfway
from cfusion.frontends.odometry import motion, motion_of_matches, trajectory
from cfusion.frontends.rig import Rig, StereoFrame
from cfusion.frontends.stereo import grey_bytes, match
from cfusion.geometry.disparity import depth_from_disparity
from cfusion.io.codecs.kitti_poses import read_localization


def off_by(found: Pose, true: Pose) -> tuple[float, float]:
    """Share of the way that the translation is off, and degrees per unit of it that the rotation is."""
    error, way = true.inverse() @ found, float(np.linalg.norm(true.translation))
    sine = np.linalg.norm((error.rotation - error.rotation.T)[(2, 0, 1), (1, 2, 0)]) / 2
    return float(np.linalg.norm(error.translation)) / way, float(np.degrees(np.arcsin(min(sine, 1.0)))) / way


def exact_matches(scenes: SimpleNamespace, count: int = 120) -> Circle:
    """Features of random points, projected without error under the motion `scenes.moved`."""
    rng = np.random.default_rng(4)
    points = np.column_stack([rng.uniform(-3, 3, count), rng.uniform(-1.5, 1.5, count), rng.uniform(6, 20, count)])
    places = []
    for from_world in (Pose.identity(), scenes.moved.inverse()):
        for shift in (0.0, scenes.rig.baseline):
            u, v, _ = scenes.camera.project(from_world.apply(points) - np.array([shift, 0, 0]))
            places.append(np.column_stack([u, v]).astype(np.float32))
    return Circle(*places)


def test_exponential_is_the_series() -> None:
    rng = np.random.default_rng(0)
    for size in (1e-9, 0.1, 3.0):
        twist = size * rng.normal(size=6)
        x, y, z = twist[3:]
        cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        series, term = np.eye(3), np.eye(3)
        for k in range(1, 60):
            term = term @ cross / k
            series = series + term
        np.testing.assert_allclose(exponential(twist)[:3, :3], series, atol=1e-10)
        np.testing.assert_allclose(exponential(twist)[:3, 3], twist[:3])


def test_exact_matches_give_the_exact_motion(scenes: SimpleNamespace) -> None:
    found = motion_of_matches(exact_matches(scenes), scenes.rig)
    way, turn = off_by(found.previous_from_current, scenes.moved)
    assert way < 1e-4
    assert turn < 1e-3
    assert found.inliers == found.features == 120


def test_a_third_of_wrong_matches_does_not_matter(scenes: SimpleNamespace) -> None:
    exact = exact_matches(scenes)
    wrong = exact.current_left.copy()
    wrong[::3] += np.random.default_rng(1).uniform(5, 40, (40, 2)).astype(np.float32)
    spoilt = Circle(exact.previous_left, exact.previous_right, wrong, exact.current_right)
    found = motion_of_matches(spoilt, scenes.rig)
    assert off_by(found.previous_from_current, scenes.moved)[0] < 1e-3
    assert found.inliers == 80


def test_the_same_motion_every_time(scenes: SimpleNamespace) -> None:
    exact = exact_matches(scenes)
    first, again = (motion_of_matches(exact, scenes.rig, seed=3).previous_from_current for _ in range(2))
    np.testing.assert_array_equal(first.matrix(), again.matrix())


def test_features_are_spread_evenly(scenes: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    image = grey_bytes(scenes.corridor_frame(Pose.identity()).left)
    monkeypatch.setattr(features, "BUCKET", 40)
    monkeypatch.setattr(features, "PER_BUCKET", 5)
    places = spread_features(image)
    _, counts = np.unique((places // 40).astype(int), axis=0, return_counts=True)
    assert counts.max() <= 5
    assert len(counts) == 18  # every bucket of 240 x 120 has some


def test_circle_matches_are_where_the_geometry_says(scenes: SimpleNamespace) -> None:
    frames = [scenes.corridor_frame(pose) for pose in (Pose.identity(), scenes.moved)]
    pairs = [(grey_bytes(frame.left), grey_bytes(frame.right)) for frame in frames]
    matches = circle_matches(pairs[0], pairs[1])
    _, depth = scenes.corridor(Pose.identity())
    u, v = np.rint(matches.previous_left).astype(int).T
    disparity = scenes.camera.fx * scenes.rig.baseline / depth[v, u]
    assert len(matches) > 50
    error = np.abs(matches.previous_left[:, 0] - matches.previous_right[:, 0] - disparity)
    assert np.median(error) < 0.3


def test_rendered_motion_is_found_from_features(scenes: SimpleNamespace) -> None:
    found = motion(scenes.corridor_frame(Pose.identity()), scenes.corridor_frame(scenes.moved), scenes.rig)
    way, turn = off_by(found.previous_from_current, scenes.moved)
    assert way < 0.02
    assert turn < 0.1  # degrees per metre, at a third of KITTI's focal length
    assert found.error < 1


def test_a_trajectory_chains_its_motions(scenes: SimpleNamespace) -> None:
    poses = (Pose.identity(), scenes.moved, scenes.moved @ scenes.moved)
    found = trajectory([scenes.corridor_frame(pose) for pose in poses], scenes.rig)
    assert len(found) == 3
    np.testing.assert_array_equal(found[0].matrix(), np.eye(4))
    assert off_by(found[2], poses[2])[0] < 0.02


def test_rendered_motion_is_found_from_whole_images(scenes: SimpleNamespace) -> None:
    image, depth = scenes.corridor(Pose.identity())
    current, _ = scenes.corridor(scenes.moved)
    found = direct_motion(image, depth, current, scenes.camera)
    way, turn = off_by(found.previous_from_current, scenes.moved)
    assert way < 0.01
    assert turn < 0.05


def test_exposure_and_missing_depth_do_not_matter(scenes: SimpleNamespace) -> None:
    image, depth = scenes.corridor(Pose.identity())
    current, _ = scenes.corridor(scenes.moved)
    holes = np.where(np.random.default_rng(2).random(depth.shape) < 0.3, np.float32(np.nan), depth)
    found = direct_motion(image, holes, 0.7 * current + 0.2, scenes.camera)
    assert off_by(found.previous_from_current, scenes.moved)[0] < 0.01


def test_no_motion_stays_none(scenes: SimpleNamespace) -> None:
    image, depth = scenes.corridor(Pose.identity())
    still = direct_motion(image, depth, image, scenes.camera, start=scenes.moved)
    np.testing.assert_allclose(still.previous_from_current.matrix(), np.eye(4), atol=1e-3)


def test_what_cannot_be_found_is_said(scenes: SimpleNamespace) -> None:
    flat = np.full(scenes.camera.shape, 0.5, np.float32)
    frame = StereoFrame(flat, flat)
    with pytest.raises(InputError, match="features were followed"):
        motion(frame, frame, scenes.rig)
    with pytest.raises(InputError, match="only 0 pixels with depth and texture"):
        direct_motion(flat, np.ones_like(flat), flat, scenes.camera)
    with pytest.raises(ShapeError, match="the camera has"):
        direct_motion(flat, flat[:5], flat, scenes.camera)
    with pytest.raises(InputError, match="baseline"):
        Rig(scenes.camera, 0.0)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("bundle", "frames"), [(27, (7, 8, 9, 10)), (74, (8, 9, 10))])
def test_motions_on_kitti_lie_among_the_given_ones(kitti: Path, bundle: int, frames: tuple[int, ...]) -> None:
    """Over the bundle, features and images are within 3 % and 0.07 degrees a metre of viso, whose own distance
    from the other given localisation is up to 6 % and 0.09 degrees a metre."""
    opened = open_bundle(kitti, bundle)
    given = read_localization(kitti.parent / "localization" / "bundle_loc_viso_training.mat", bundle)
    pairs = [StereoFrame(opened.left(frame), opened.right(frame)) for frame in frames]
    rig = Rig(opened.calibration.camera(pairs[0].left.shape[:2]), opened.calibration.baseline)
    true = given[frames[0]].inverse() @ given[frames[-1]]
    direct = Pose.identity()
    for before, after in pairwise(pairs):
        depth = depth_from_disparity(match(before.left, before.right).disparity, opened.calibration.focal_baseline)
        direct = direct @ direct_motion(before.left, depth, after.left, rig.camera).previous_from_current
    for found in (trajectory(pairs, rig)[-1], direct):
        way, turn = off_by(found, true)
        assert way < 0.03
        assert turn < 0.07


def test_the_middle_of_two_motions_is_as_far_from_both(scenes: SimpleNamespace) -> None:
    one, other = scenes.moved, scenes.turned((0.4, -1.0, 0.1), (0.07, -0.02, 0.5))
    middle = halfway(one, other)
    apart = [scenes.angle_degrees((middle.inverse() @ each).rotation) for each in (one, other)]
    assert apart[0] == pytest.approx(apart[1], rel=1e-6)
    assert sum(apart) == pytest.approx(scenes.angle_degrees((one.inverse() @ other).rotation), rel=1e-4)
    np.testing.assert_allclose(middle.translation, (one.translation + other.translation) / 2)


def test_there_and_back_are_opposite(scenes: SimpleNamespace) -> None:
    """Neither frame is favoured: the same two frames the other way around give the inverse, to rounding."""
    first, second = scenes.corridor_frame(Pose.identity()), scenes.corridor_frame(scenes.moved)
    there, back = motion(first, second, scenes.rig), motion(second, first, scenes.rig)
    product = (there.previous_from_current @ back.previous_from_current).matrix()
    np.testing.assert_allclose(product, np.eye(4), atol=1e-3)


def test_a_feature_is_followed_up_to_the_outermost_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no further, on any side; whatever the library finds there."""
    ends = {"-": -0.25, "0": 0.0, "=": 19.0, "+": 19.25}
    names = [across + down for across in ends for down in ends]
    places = np.array([[ends[across], ends[down] / 19 * 9] for across, down in names], np.float32)
    flow = places[:, None], np.ones((len(places), 1), np.uint8), None
    library = SimpleNamespace(TERM_CRITERIA_EPS=1, TERM_CRITERIA_COUNT=2, calcOpticalFlowPyrLK=lambda *_, **__: flow)
    monkeypatch.setattr(features, "opencv", lambda: library)
    image = np.zeros((10, 20), np.uint8)
    followed, found = features._follow(image, image, np.zeros_like(places))
    np.testing.assert_array_equal(followed, places)
    assert {name for name, here in zip(names, found, strict=True) if here} == {"00", "0=", "=0", "=="}
