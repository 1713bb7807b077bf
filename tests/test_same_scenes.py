"""Built-in scenes, tracks and noise are the same in every release: published figures are of them."""

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View
from cfusion.io.colour_pictures import INFERNO, VIRIDIS, depth_colours, point_colours, sigma_colours
from cfusion.synthetic import (
    Blobs,
    Gauss,
    Holes,
    Kinect,
    Laplace,
    Noise,
    Outliers,
    Regional,
    Scene,
    Stereo,
    blob,
    city,
    disturbed,
    nadir,
    orbit,
    plane,
    room,
    sphere,
    step,
)

SCENES = {  # vertices, faces, and sums that every number has a part in
    "blob": (23084, 46164, -25.867945263237722, 15181.238160048651, 1159094.1351841295, 0.0),
    "city": (3204, 1518, -39.176317928283254, 110253111.01145911, -3234.139535989092, 2.447302749123047),
    "room": (23100, 46172, 8.525651829209966, 15588.963160048652, -162975.51372715124, 0.28652934139759245),
}


def sums(scene: Scene) -> tuple[float, ...]:
    def mixed(values: np.ndarray) -> float:
        return float((np.cos(np.arange(values.size)).reshape(values.shape) * values).sum())

    shades = 0.0 if scene.albedo is None else mixed(scene.albedo)
    size = len(scene.vertices), len(scene.faces)
    return *size, mixed(scene.vertices), float((scene.vertices**2).sum()), mixed(scene.faces), shades


@pytest.mark.parametrize("name", SCENES)
def test_scenes(name: str) -> None:
    made = {"blob": blob, "city": city, "room": room}[name]()
    assert sums(made) == pytest.approx(SCENES[name], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("noise", "unknown", "mean", "spread"),
    [
        (Laplace(0.1), 25, 2.154794648157484, 0.138487137251517),
        (Gauss(0.1), 25, -0.6730685322452556, 0.09950247218170931),
        (Stereo(0.5, 40.0), 25, 2.107168494000846, 0.11716425980629601),
        (Regional(0.3, 5.0), 29, 30.330585230472924, 0.40393412926149225),
        (Outliers(0.1, 1.0, 5.0), 25, 7.841557228469446, 0.4365900056708001),
        (Holes(0.2, 6.0), 1085, 0.0, 0.0),
        (Kinect(focal=60.0), 102, -4.138654013788834, 0.10796365726547996),
        (Blobs(0.2, 9.0), 25, 2.8425885464580993, 0.2406955996438953),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Noise) else "",
)
def test_noise_of_a_seed(noise: Noise, unknown: int, mean: float, spread: float) -> None:
    v, u = np.mgrid[:60, :80]
    depth = (2 + 0.01 * u + (v > 30) + 0.3 * np.sin(v / 5)).astype(np.float32)
    depth[:5, :5] = np.nan
    apart = noise(depth, np.random.default_rng(7)).astype(np.float64) - depth
    assert int(np.isnan(apart).sum()) == unknown
    weight = np.cos(np.arange(apart.size)).reshape(apart.shape)
    assert float(np.nansum(weight * apart)) == pytest.approx(mean, rel=1e-4, abs=1e-6)
    assert float(np.nanstd(apart)) == pytest.approx(spread, rel=1e-4, abs=1e-6)


def test_tracks() -> None:
    around = orbit(4, 2.0)
    eyes = [[0, 0, 2], [2, 0, 0], [0, 0, -2], [-2, 0, 0]]
    np.testing.assert_allclose([pose.translation for pose in around], eyes, atol=1e-12)
    for pose in around:
        np.testing.assert_allclose(pose.rotation[:, 2], -pose.translation / 2, atol=1e-12)  # looks at the middle
        np.testing.assert_allclose(pose.rotation[:, 1], [0, -1, 0])  # y is up
    assert [pose.translation.tolist() for pose in nadir(3, 4.0, 10.0)] == [[-4, 0, 10], [0, 0, 10], [4, 0, 10]]
    assert nadir(1)[0].rotation.tolist() == [[1, 0, 0], [0, -1, 0], [0, 0, -1]]
    assert len(orbit()) == 72
    assert np.linalg.norm(orbit()[5].translation) == pytest.approx(3.0)


def test_a_disturbed_pose_is_as_far_off_as_said() -> None:
    view = View(np.ones((4, 4)), Pinhole(4.0, 4.0, 2.0, 2.0, 4, 4), Pose.identity())
    rng = np.random.default_rng(0)
    turns, shifts = [], []
    for _ in range(400):
        pose = disturbed(view, 2.0, 0.01, 5.0, rng).pose
        turns.append(np.degrees(np.arccos(np.clip((np.trace(pose.rotation) - 1) / 2, -1, 1))))
        shifts.append(np.linalg.norm(pose.translation))
    assert np.sqrt(np.mean(np.square(turns))) == pytest.approx(2.0, rel=0.06)
    assert np.sqrt(np.mean(np.square(shifts))) == pytest.approx(0.05, rel=0.06)


class TestColours:
    @pytest.mark.parametrize(("name", "ramp"), [("viridis", VIRIDIS), ("inferno", INFERNO)])
    def test_ramps_are_those_that_people_know(self, name: str, ramp: np.ndarray) -> None:
        known = pytest.importorskip("matplotlib").colormaps[name](np.linspace(0, 1, len(ramp)))[:, :3]
        np.testing.assert_allclose(ramp, 255 * known, atol=3.0)

    def test_between_the_first_and_last_percent(self) -> None:
        values = np.append(np.arange(101.0), np.nan)[None]
        painted = depth_colours(values)[0]
        assert (painted[[0, 1]] == [*VIRIDIS[0], 255]).all()
        assert (painted[[99, 100]] == [*VIRIDIS[-1], 255]).all()
        assert (painted[50] == [*VIRIDIS[4], 255]).all()
        assert (painted[101] == 0).all()
        assert depth_colours(np.array([[3.0]]), (1.0, 5.0))[0, 0].tolist() == [*VIRIDIS[4], 255]

    def test_sigma_is_on_a_logarithmic_scale(self) -> None:
        painted = sigma_colours(np.array([[0.01, 0.1, 1.0, 0.0, -1.0]]), (0.01, 1.0))[0]
        assert painted[:3, :3].tolist() == [INFERNO[k].tolist() for k in (0, 4, 8)]
        assert (painted[3:] == 0).all()

    def test_points_take_the_image_or_their_depth(self) -> None:
        depth = np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)
        grey = np.array([[0.0, 1.0], [0.5, 2.0]], np.float32)
        assert point_colours(depth, grey).tolist() == [[0] * 3, [128] * 3, [255] * 3]
        found = point_colours(depth, None)
        assert found[0].tolist() == VIRIDIS[0].tolist()
        assert found[2].tolist() == VIRIDIS[-1].tolist()
        assert point_colours(np.full((2, 2), np.nan, np.float32), None).shape == (0, 3)


def test_planes_steps_and_spheres() -> None:
    flat = plane(3.0, (0.1, -0.2), 20.0)
    assert flat.vertices.tolist() == [[-10, -10, 4], [10, -10, 6], [10, 10, 2], [-10, 10, 0]]
    assert flat.faces.tolist() == [[0, 2, 1], [0, 3, 2]]
    stair = step(2.0, 3.0, 20.0)
    assert stair.vertices[::2].tolist() == [[-10, -10, 2], [0, -10, 2], [0, -10, 3], [10, -10, 3]]
    assert stair.faces.tolist() == [[0, 1, 2], [1, 3, 2], [2, 3, 4], [3, 5, 4], [4, 5, 6], [5, 7, 6]]
    ball = sphere(2.0, 20)
    np.testing.assert_allclose(np.linalg.norm(ball.vertices, axis=1), 2.0, rtol=1e-6)
    corners = ball.vertices[ball.faces]
    outwards = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (np.einsum("fx,fx->f", outwards, corners.mean(axis=1)) > 0).all()
