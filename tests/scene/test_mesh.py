"""The volume and its mesh: where the surface is, whose weight counts, and nothing where nobody looked."""

from pathlib import Path

import numpy as np
import pytest
from walls import CAMERA, QUICK, lay, pose_at, run, walk, wall_depth

from cfusion import Pinhole, Pose
from cfusion.errors import InputError
from cfusion.scene.fused_view import FusedView
from cfusion.scene.mesh import extract, volume_for, write_ply
from cfusion.scene.volume import Volume

pytest.importorskip("skimage", reason="scikit-image is missing: pip install 'cfusion[mesh]'")
BALL = Pinhole(60.0, 60.0, 31.5, 31.5, 64, 64)
RADIUS = 0.5


def ball_view(turn: float, sigma: float = 0.01) -> FusedView:
    """A ball of RADIUS about the origin, from a distance of 2."""
    c, s = np.cos(turn), np.sin(turn)
    rotation = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    pose = Pose(rotation, rotation @ np.array([0.0, 0.0, -2.0]))
    rays = BALL.rays()
    b = rays[..., 2] * 2.0
    inside = b**2 - (4.0 - RADIUS**2)
    with np.errstate(invalid="ignore"):
        depth = (b - np.sqrt(inside)) * rays[..., 2]
    return FusedView(depth.astype(np.float32), np.full(BALL.shape, sigma, np.float32), BALL, pose)


def test_a_ball_is_a_ball() -> None:
    views = [ball_view(turn) for turn in np.linspace(0, 2 * np.pi, 12, endpoint=False)]
    volume = volume_for(views, voxel=0.015)
    for view in views:
        volume.integrate(view)
    mesh = extract(volume)
    distance = np.linalg.norm(mesh.vertices, axis=1)
    np.testing.assert_allclose(np.median(distance), RADIUS, atol=0.003)
    assert np.quantile(np.abs(distance - RADIUS), 0.99) < 0.02
    outward = np.einsum("nx,nx->n", mesh.normals, mesh.vertices / distance[:, None])
    assert np.median(outward) > 0.98  # faces turn their front to the cameras


def test_chunks_meet_without_cracks() -> None:
    """Around the equator, where cameras look straight on, every edge has two faces."""
    views = [ball_view(turn) for turn in np.linspace(0, 2 * np.pi, 12, endpoint=False)]
    volume = volume_for(views, voxel=0.01)  # several chunks
    for view in views:
        volume.integrate(view)
    mesh = extract(volume)
    edges = np.sort(mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    found, count = np.unique(edges, axis=0, return_counts=True)
    middle = np.abs(mesh.vertices[found].mean(axis=1)[:, 1]) < 0.2
    assert len(volume.slots) > 100
    assert (count[middle] == 2).mean() > 0.999


def plane(depth: float, sigma: float) -> FusedView:
    return FusedView(
        np.full(CAMERA.shape, depth, np.float32), np.full(CAMERA.shape, sigma, np.float32), CAMERA, Pose.identity()
    )


def test_a_pixel_counts_by_its_own_sigma() -> None:
    volume = Volume(voxel=0.02, truncation=0.2, unit_sigma=0.02)
    for each in (plane(2.00, 0.01), plane(2.05, 0.02)):
        volume.integrate(each)
    mesh = extract(volume)
    assert np.median(mesh.vertices[:, 2]) == pytest.approx(2.01, abs=0.002)  # (4 x 2.00 + 1 x 2.05) / 5
    assert int(volume.count.max()) == 2


def test_a_half_of_a_map_may_be_better_than_the_other() -> None:
    volume = Volume(voxel=0.02, truncation=0.2, unit_sigma=0.02)
    sigma = np.full(CAMERA.shape, 0.1, np.float32)
    sigma[:, :16] = 0.001
    one = plane(2.0, 0.01)
    volume.integrate(FusedView(one.depth, sigma, CAMERA, one.pose))
    volume.integrate(plane(2.1, 0.01))
    vertices = extract(volume).vertices
    left, right = vertices[vertices[:, 0] < -0.2], vertices[vertices[:, 0] > 0.2]
    assert np.median(left[:, 2]) == pytest.approx(2.0, abs=0.003)
    assert np.median(right[:, 2]) == pytest.approx(2.1, abs=0.003)


def test_the_last_pixel_of_a_slope_reaches_to_its_border_on_its_own_plane() -> None:
    """One column of pixels, seen at 60 degrees: half a pixel beside its centre the slope is a pixel further away."""
    slope = np.sqrt(3.0)
    columns = np.arange(CAMERA.width)
    depth = np.broadcast_to((2.0 / (1 - slope * (columns - CAMERA.cx) / CAMERA.fx)).astype(np.float32), CAMERA.shape)
    known = np.abs(columns - CAMERA.cx) < 4
    view = FusedView(
        np.where(known, depth, np.nan).astype(np.float32), np.full(CAMERA.shape, 0.01, np.float32), CAMERA, pose_at(0)
    )
    volume = Volume(voxel=0.01, truncation=0.03, unit_sigma=0.01)
    volume.integrate(view)
    vertices = extract(volume).vertices
    off = (vertices[:, 2] - slope * vertices[:, 0] - 2.0) / 2.0  # along the normal
    assert np.abs(off).max() < 0.003  # nothing is bent at the borders
    u = CAMERA.cx + CAMERA.fx * vertices[:, 0] / vertices[:, 2]
    assert u.max() > CAMERA.cx + 3.9 - 0.3
    assert u.min() < CAMERA.cx - 3.9 + 0.3


def test_nothing_where_too_few_looked() -> None:
    volume = Volume(voxel=0.05, truncation=0.2, unit_sigma=0.01)
    volume.integrate(plane(2.0, 0.01))
    assert len(extract(volume, least_views=1).faces) > 0
    assert len(extract(volume, least_views=2).faces) == 0


def test_a_volume_refuses_nonsense() -> None:
    for voxel, truncation in ((0.0, 1.0), (-1.0, 1.0), (0.1, 0.05)):
        with pytest.raises(InputError, match="truncation"):
            Volume(voxel, truncation, 1.0)
    with pytest.raises(InputError, match="--voxel"):
        volume_for([plane(2.0, 0.01)], voxel=-1.0)


@pytest.mark.parametrize(("sigmas", "pixels"), [(0.1, 0.5), (1.5, 0.75), (8.0, 1.0)])
def test_the_voxel_is_half_a_sigma_between_half_a_pixel_and_a_pixel(sigmas: float, pixels: float) -> None:
    pixel = 2.0 / CAMERA.fx
    volume = volume_for([plane(2.0, sigmas * pixel)])
    assert volume.voxel == pytest.approx(pixels * pixel)
    assert volume.truncation == pytest.approx(max(3 * volume.voxel, sigmas * pixel))
    empty = FusedView(
        np.full(CAMERA.shape, np.nan, np.float32), np.full(CAMERA.shape, np.nan, np.float32), CAMERA, pose_at(0)
    )
    with pytest.raises(InputError, match="nothing to make a mesh of"):
        volume_for([empty])
    volume = volume_for([plane(2.0, 0.01)])
    volume.integrate(empty)
    assert len(volume.slots) == 0
    assert len(extract(volume).faces) == 0


def test_the_mesh_of_a_scene(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh", reason="trimesh is missing: pip install 'cfusion[mesh]'")
    out = tmp_path / "out"
    assert run(lay(walk(4), tmp_path / "data", "bundle"), "-o", out, *QUICK, "--mesh", "--voxel", 0.05) == 0
    ply, glb = trimesh.load(out / "mesh.ply", process=False), trimesh.load(out / "mesh.glb", force="mesh")
    assert len(ply.faces) == len(glb.faces) > 100
    np.testing.assert_array_equal(np.median(ply.visual.vertex_colors[:, :3], axis=0), [51, 102, 153])
    depth = np.nanmedian(wall_depth(pose_at(0.1)))
    assert np.median(ply.vertices[:, 2]) == pytest.approx(depth, abs=0.1)
    np.testing.assert_allclose(np.sort(glb.vertices[:, 1]), np.sort(-ply.vertices[:, 1]), atol=1e-5)  # upright


def test_an_empty_mesh_is_a_file_too(tmp_path: Path) -> None:
    volume = Volume(voxel=0.05, truncation=0.2, unit_sigma=0.01)
    write_ply(tmp_path / "mesh.ply", extract(volume))
    assert b"element face 0" in (tmp_path / "mesh.ply").read_bytes()
