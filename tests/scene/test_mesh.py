"""The volume and its mesh: where the surface is, whose weight counts, and nothing where nobody looked."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from walls import CAMERA, QUICK, lay, pose_at, run, walk, wall_depth

from cfusion import Orthographic, Pinhole, Pose, View
from cfusion.errors import InputError
from cfusion.scene.border import extrapolated, spread_colours
from cfusion.scene.fused_view import FusedView
from cfusion.scene.mesh import extract, volume_for, write_ply
from cfusion.scene.sight import visible_blocks
from cfusion.scene.volume import Volume, _usable

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
    assert int(volume.near.max()) == int(volume.looked.max()) == 2


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


def integrated(views: Sequence[FusedView], noisy: bool = False) -> Volume:
    volume = Volume(voxel=0.05, truncation=0.15, unit_sigma=0.01, noisy=noisy)
    for view in views:
        volume.reserve(view)
    for view in views:
        volume.integrate(view)
    return volume


@pytest.mark.parametrize("noisy", [False, True])
def test_a_volume_is_the_same_in_any_unit_of_length(noisy: bool) -> None:
    """Also what lies behind the surface, a truncation of six voxels deep."""
    made = []
    for unit in (1.0, 1024.0, 1 / 1024):
        volume = Volume(voxel=0.05 * unit, truncation=0.3 * unit, unit_sigma=0.01 * unit, noisy=noisy)
        volume.integrate(plane(1.8 * unit, 0.01 * unit))
        made.append(volume)
    for other in made[1:]:
        np.testing.assert_array_equal(other.blocks, made[0].blocks)
        for name in ("weight", "near", "looked", "hidden"):
            np.testing.assert_array_equal(getattr(other, name), getattr(made[0], name), name)


def test_of_noisy_maps_what_less_than_a_fifth_agree_on_is_no_surface() -> None:
    """One map of a wall at 1.7 against n that see one at 2.0 and so through it: 1 / (1 + n) of those that look."""
    for others, kept in ((4, True), (5, False)):
        views = [plane(1.7, 0.001), *[plane(2.0, 1.0)] * others]  # so sure of itself that it is not outweighed
        volume = integrated(views, noisy=True)
        assert (extract(volume).vertices[:, 2] < 1.8).any() == kept
        assert (extract(integrated(views)).vertices[:, 2] < 1.8).any()  # of sharp maps by their weights
        assert (extract(volume).vertices[:, 2] > 1.9).any()


def test_slopes_of_noisy_maps_are_not_believed() -> None:
    """Seen at 45 degrees a wall counts by (c / sigma)^2; of noisy maps the slope may be noise: by 1 / sigma^2."""
    columns = np.arange(CAMERA.width) - CAMERA.cx
    depth = np.broadcast_to(2.0 / (1 - columns / CAMERA.fx), CAMERA.shape).astype(np.float32)  # z = 2 + x
    view = FusedView(depth, np.full(CAMERA.shape, 0.02, np.float32), CAMERA, pose_at(0))
    sharp, noisy = (integrated([view], noisy=noisy).weight for noisy in (False, True))
    np.testing.assert_allclose(noisy[noisy > 0], 0.25, rtol=1e-5)
    assert sharp.max() < 0.22  # c is 1 / sqrt 2 in the middle, 0.92 where the wall is seen best


def test_a_noisy_map_that_sees_a_surface_shortly_before_has_looked_there() -> None:
    behind, shortly, far = plane(2.0, 0.01), [plane(1.6, 0.01)] * 5, [plane(0.7, 0.01)] * 5
    assert (extract(integrated([behind, *far], noisy=True)).vertices[:, 2] > 1.9).any()  # 1.3 is more than 8 x 0.15
    assert not (extract(integrated([behind, *shortly], noisy=True)).vertices[:, 2] > 1.9).any()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_what_others_see_through_is_carved_whatever_the_order(order: tuple[int, ...]) -> None:
    """A speck a block or more before a wall: two maps see the wall behind it."""
    speck = plane(2.0, 0.01)
    depth = speck.depth.copy()
    depth[10:14, 14:18] = 1.2
    views = [FusedView(depth, speck.sigma, CAMERA, speck.pose), plane(2.0, 0.005), plane(2.0, 0.005)]
    vertices = extract(integrated([views[each] for each in order])).vertices
    assert vertices[:, 2].min() > 1.8
    alone = extract(integrated(views[:1])).vertices
    assert (alone[:, 2] < 1.3).any()


def test_a_wrong_map_that_sees_through_a_wall_makes_no_second_surface_behind_it() -> None:
    """Two truncations behind the wall nobody else speaks: free space there would end where the others begin."""
    wall, wrong = [plane(2.0, 0.01)] * 3, plane(2.9, 0.3)
    vertices = extract(integrated([*wall, wrong])).vertices
    assert not ((vertices[:, 2] > 2.05) & (vertices[:, 2] < 2.6)).any()
    assert (np.abs(vertices[:, 2] - 2.0) < 0.02).any()
    equals = extract(integrated([plane(2.0, 0.01), plane(2.9, 0.01)])).vertices  # who is right is not decided
    assert ((equals[:, 2] > 2.05) & (equals[:, 2] < 2.6)).any()


def test_a_surface_far_behind_another_is_hidden_by_nobody() -> None:
    vertices = extract(integrated([*[plane(1.2, 0.001)] * 3, plane(2.9, 0.3)])).vertices
    assert (np.abs(vertices[:, 2] - 2.9) < 0.05).any()


def test_a_map_gives_no_colour_to_what_it_sees_through() -> None:
    near, far = plane(1.9, 0.01), plane(2.0, 1.0)
    volume = Volume(voxel=0.01, truncation=0.03, unit_sigma=0.01)
    for view in (near, far):
        volume.reserve(view)
    volume.integrate(near, np.full(CAMERA.shape, 1.0, np.float32))
    volume.integrate(far, np.zeros(CAMERA.shape, np.float32))
    mesh = extract(volume)
    front = np.abs(mesh.vertices[:, 2] - 1.9) < 0.01
    assert front.any()
    assert (mesh.colours[front] == 255).all()


def test_a_mesh_goes_on_by_a_voxel_as_its_plane_does() -> None:
    """Known on one side of x = 5 only: one voxel more, on the same plane; not where maps are noisy."""
    x, y, z = np.meshgrid(*[np.arange(12.0)] * 3, indexing="ij")
    distance = (0.3 * x + 0.2 * y - z + 4.1).astype(np.float32)
    for along in (x, y, z):
        for known, wanted in ((along <= 5, along <= 6), (along >= 5, along >= 4)):
            found, more = extrapolated(np.where(known, distance, 9.0).astype(np.float32), known, truncation=20.0)
            np.testing.assert_array_equal(more, wanted)
            np.testing.assert_allclose(found[more], distance[more], atol=1e-5)
    view = plane(2.0, 0.01)
    half = FusedView(
        np.where(np.arange(CAMERA.width) < 16, view.depth, np.nan).astype(np.float32), view.sigma, CAMERA, view.pose
    )
    ends = [extract(integrated([half], noisy=noisy)).vertices[:, 0].max() for noisy in (False, True)]
    assert ends[0] - ends[1] == pytest.approx(0.05, abs=1e-6)


def test_beside_a_single_voxel_a_distance_is_repeated_and_within_the_truncation() -> None:
    known = np.zeros((5, 5, 5), bool)
    known[2, 2, 2] = True
    for distance, wanted in ((0.5, 0.5), (3.0, 2.0), (-3.0, -2.0)):
        found, more = extrapolated(np.full((5, 5, 5), distance, np.float32), known, truncation=2.0)
        assert more.sum() == 7
        np.testing.assert_array_equal(found[more & ~known], wanted)


def test_a_voxel_without_a_colour_has_the_mean_of_its_six_neighbours() -> None:
    rng = np.random.default_rng(3)
    colour, painted = rng.random((4, 5, 6, 3)).astype(np.float32), rng.random((4, 5, 6)) < 0.4
    found = spread_colours(colour, painted)
    for place in np.ndindex(4, 5, 6):
        beside = [tuple(np.add(place, step)) for step in (*np.eye(3, dtype=int), *-np.eye(3, dtype=int))]
        inside = [each for each in beside if all(0 <= i < n for i, n in zip(each, painted.shape, strict=True))]
        theirs = [colour[each] for each in inside if painted[each]]
        wanted = colour[place] if painted[place] else np.mean(theirs or [np.zeros(3)], axis=0)
        np.testing.assert_allclose(found[place], wanted, atol=1e-6)


def test_pixels_are_used_whose_depth_and_sigma_are_known() -> None:
    view = plane(2.0, 0.01)
    depth, sigma = view.depth.copy(), view.sigma.copy()
    depth[5, 5], sigma[5, 9] = np.nan, np.nan
    sigma[5, 13], sigma[5, 17] = 0.0, np.inf
    usable, facing = _usable(FusedView(depth, sigma, view.camera, view.pose))
    assert not usable[5, [5, 9, 13, 17]].any()
    np.testing.assert_allclose(facing[15], CAMERA.rays()[15, :, 2], atol=1e-3)  # of a wall that is met straight on
    near = np.zeros(depth.shape, bool)
    near[4:7, 4:7] = True  # normals beside the hole are unknown
    assert usable[~near].sum() == (~near).sum() - 3


def test_blocks_are_in_sight_unless_wholly_behind() -> None:
    view = plane(2.0, 0.01)
    usable = np.isfinite(view.depth)
    places = np.array([[0, 0, 1.0], [0, 0, 1.95], [0, 0, 2.3], [0, 0, 2.8], [5, 0, 2.0], [0, 0, -1.0], [0, 0, 0.0]])
    blocks = np.floor(places / 0.08).astype(np.int64)
    for behind, seen in ((0.2, [0, 1, 6]), (0.5, [0, 1, 2, 6]), (2.0, [0, 1, 2, 3, 6])):
        np.testing.assert_array_equal(visible_blocks(blocks, 0.01, view, usable, behind), blocks[seen])


def test_blocks_without_perspective_are_in_sight_at_any_depth() -> None:
    """Parallel rays: no block is too near, and each covers as many pixels at any depth."""
    camera = Orthographic(0.05, 15.5, 11.5, 32, 24)
    wall = np.full(camera.shape, 2.0, np.float32)
    view = FusedView(wall, np.full_like(wall, 0.01), camera, Pose.identity())
    places = np.array([[0, 0, 0.3], [0, 0, 1.9], [0, 0, 2.2], [0, 0, 2.8], [0.7, 0, 1.0], [1.4, 0, 1.0], [0, 1.4, 1.0]])
    blocks = np.floor(places / 0.08).astype(np.int64)
    found = visible_blocks(blocks, 0.01, view, np.isfinite(wall), 0.2)
    np.testing.assert_array_equal(found, blocks[[0, 1, 2, 4]])


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
    assert volume.truncation == pytest.approx(max(3 * volume.voxel, 2 * sigmas * pixel))
    empty = FusedView(
        np.full(CAMERA.shape, np.nan, np.float32), np.full(CAMERA.shape, np.nan, np.float32), CAMERA, pose_at(0)
    )
    with pytest.raises(InputError, match="fuse the views before meshing them"):
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


def test_the_mesh_of_a_scene_in_a_map_projection(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh", reason="trimesh is missing: pip install 'cfusion[mesh]'")
    there = np.array([500000.0, 5400000.0, 300.0])  # a multiple of the voxel
    aside = np.array([0.011, 0.017, 0.0])  # no voxel projects onto the border of two pixels, where rounding decides

    def moved(by: np.ndarray) -> list[View]:
        return [replace(view, pose=Pose(view.pose.rotation, view.pose.translation + by)) for view in walk(3)]

    found = []
    for name, views in (("near", moved(aside)), ("far", moved(aside + there))):
        out = tmp_path / f"{name}-out"
        assert run(lay(views, tmp_path / name, "bundle"), "-o", out, *QUICK, "--mesh", "--voxel", 0.0625) == 0
        meshes = trimesh.load(out / "mesh.ply", process=False), trimesh.load(out / "mesh.glb", force="mesh")
        found.append([np.sort(each.vertices[:, 1]) for each in meshes])
    for near, far_one, sign in zip(*found, (1, -1), strict=True):
        np.testing.assert_allclose(far_one - sign * there[1], near, atol=1e-3)


def test_an_empty_mesh_is_a_file_too(tmp_path: Path) -> None:
    volume = Volume(voxel=0.05, truncation=0.2, unit_sigma=0.01)
    write_ply(tmp_path / "mesh.ply", extract(volume))
    assert b"element face 0" in (tmp_path / "mesh.ply").read_bytes()


def test_threads_share_the_blocks_and_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any order of the threads' parts, and any number of blocks at once."""
    views, shares = [ball_view(turn) for turn in (0.0, 0.5)], []

    def backwards(calls: list) -> None:  # type: ignore[type-arg]
        shares.append([len(some) for _, some in calls])
        for update, some in reversed(calls):
            update(some)

    def made() -> Volume:
        volume = volume_for(views, voxel=0.01)
        for view in views:
            volume.integrate(view)
        return volume

    alone = made()
    monkeypatch.setattr("cfusion.scene.volume.threads", lambda: 3)
    monkeypatch.setattr("cfusion.scene.volume.in_parallel", backwards)
    monkeypatch.setattr("cfusion.scene.volume.AT_ONCE", 7)
    shared = made()
    assert [len(share) for share in shares] == [3, 3]
    assert min(min(share) for share in shares) > 3
    for name in ("distance", "weight", "colour", "painted", "near", "looked", "hidden"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(shared, name))
