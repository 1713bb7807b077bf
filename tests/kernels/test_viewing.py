"""What cameras see, by every backend, against the cameras themselves; and the confidence's closed form."""

import numpy as np
import pytest

from cfusion import BrownConrady, Orthographic, Pinhole, Pose, Stack, normals
from cfusion.energy import L1, L2, TGV, Energy, Prior
from cfusion.solvers import prepare
from cfusion.solvers.joint import ConfidenceUpdate

CAMERAS = [
    Pinhole(40.0, 42.0, 10.3, 8.2, 31, 23),
    Orthographic(0.1, 10.0, 8.0, 31, 23),
    BrownConrady(40.0, 42.0, 10.3, 8.2, 31, 23, k1=-0.1, k2=0.03, p1=0.01, p2=-0.02, k3=0.01),
]
EVERY_CAMERA = pytest.mark.parametrize("camera", CAMERAS, ids=lambda camera: type(camera).__name__)


def depths(count=3, shape=(23, 31)):
    rng = np.random.default_rng(0)
    maps = rng.normal(5, 1, (count, *shape)).astype(np.float32)
    maps[rng.random(maps.shape) < 0.3] = np.nan
    return maps


@EVERY_CAMERA
def test_cosines_are_those_of_normals_and_rays(every_backend, camera):
    given = depths()
    expected = [np.abs(np.einsum("hwc,hwc->hw", normals(depth, camera), camera.rays())) for depth in given]
    np.testing.assert_allclose(every_backend.cosines(given, camera.numbers), np.stack(expected), atol=1e-6)


def test_a_line_of_pixels_has_no_normal(every_backend):
    camera = Pinhole(5.0, 5.0, 2.0, 0.0, 5, 1)
    assert np.isnan(every_backend.cosines(np.full((1, 1, 5), 2.0, np.float32), camera.numbers)).all()


@EVERY_CAMERA
@pytest.mark.parametrize("onto", CAMERAS, ids=lambda camera: type(camera).__name__)
def test_points_are_those_of_the_cameras(every_backend, camera, onto):
    depth = depths(1)[0]
    depth[0, :5] = -1.0  # behind a pinhole
    angle = 0.2
    turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    pose = Pose(turn, np.array([0.3, -0.1, 0.2]))
    expected = onto.project(pose.apply(camera.back_project(depth).reshape(-1, 3)))
    found = every_backend.reproject(depth, camera.numbers, onto.numbers, pose.matrix()[:3])
    for ours, defined in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, defined, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fidelity", [L1(), L2()], ids=repr)
def test_the_confidence_follows_the_prior(every_backend, fidelity):
    """Its closed form and its term of the energy; and the start is the middle of the observations."""
    if every_backend.arrays is not np:
        pytest.skip("part of `follow` there, which tests/cuda compares")
    given = depths(5)
    given[:, 4:6, 5:9] = np.nan
    task = prepare(Energy(fidelity, TGV(2), Prior()), Stack(given), every_backend)
    side, x = ConfidenceUpdate.of(task), task.start
    lam, value = every_backend.adapt(task.problem(x), x, side.rate, side.strength)
    best = side.best(every_backend.misfit(task.problem(x), x))
    np.testing.assert_allclose(every_backend.to_host(lam), every_backend.to_host(best), rtol=1e-6)
    assert value == pytest.approx(side.value(best), rel=1e-6)
    if isinstance(fidelity, L1):
        known = every_backend.to_host(task.inside())
        middle = np.nanmedian(given[:, known], axis=0)
        np.testing.assert_allclose(every_backend.to_host(task.whole_depth(x))[task.window][known], middle, rtol=1e-6)
