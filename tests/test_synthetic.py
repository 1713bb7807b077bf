"""Scenes, tracks and noise: depth is what the formula says, noise has the spread it states."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cfusion.errors import FileError, InputError, MissingDependency
from cfusion.geometry import BrownConrady, Orthographic, Pinhole, Pose, normals
from cfusion.synthetic import (
    PAPER_CAMERA,
    Gauss,
    Holes,
    Laplace,
    Noise,
    Outliers,
    Regional,
    Scene,
    Stereo,
    blob,
    bundle,
    city,
    city_bundle,
    load_mesh,
    nadir,
    object_bundle,
    orbit,
    photograph,
    plane,
    render,
    sphere,
    step,
)
from cfusion.synthetic.isosurface import isosurface
from cfusion.synthetic.noise import _smooth_region
from cfusion.synthetic.render import GREY, LIGHT
from cfusion.synthetic.room import room
from cfusion.synthetic.sensors import _inner_slope

pytest.importorskip("trimesh")
pytest.importorskip("embreex")

CAMERA = Pinhole(60.0, 60.0, 31.5, 23.5, 64, 48)
BIG = (480, 640)


@pytest.fixture(scope="module")
def small_blob() -> Scene:
    return blob(resolution=40)


def test_a_rendered_plane_is_the_plane() -> None:
    a, b = 0.2, -0.15
    depth = render(plane(3.0, (a, b)), CAMERA, Pose.identity())
    rays = CAMERA.rays() / CAMERA.rays()[..., 2:]
    np.testing.assert_allclose(depth, 3.0 / (1.0 - rays[..., :2] @ [a, b]), rtol=1e-6)


def test_a_rendered_plane_is_the_plane_under_an_orthographic_camera() -> None:
    camera = Orthographic(0.1, 31.5, 23.5, 64, 48)
    depth = render(plane(3.0, (0.2, -0.15)), camera, Pose.identity())
    points = camera.back_project(depth)
    np.testing.assert_allclose(depth, 3.0 + points[..., 0] * 0.2 - points[..., 1] * 0.15, rtol=1e-6)


def test_a_rendered_sphere_is_the_sphere() -> None:
    radius, distance = 0.02, 3.0  # so small that faces lie within 2 radius / resolution^2 = 4e-6 of it
    zoomed = Pinhole(3500.0, 3500.0, 31.5, 23.5, 64, 48)
    depth = render(sphere(radius, 100), zoomed, orbit(72, distance)[17])
    cosine = zoomed.rays()[..., 2]
    inside = radius**2 - distance**2 * (1.0 - cosine**2)
    inner = inside > 0.25 * radius**2  # away from the rim, where depth falls steeply
    exact = (distance * cosine - np.sqrt(np.maximum(inside, 0.0))) * cosine
    assert np.isnan(depth[inside < -0.01 * radius**2]).all()
    assert np.isfinite(depth[inner]).all()
    assert np.abs(depth - exact)[inner].max() < 1e-5
    assert inner.sum() > 1000


def test_a_step_has_two_depths() -> None:
    depth = render(step(2.0, 3.0), CAMERA, Pose.identity())
    assert set(np.round(np.unique(depth), 5)) == {2.0, 3.0}
    assert (depth[:, :32] == 2.0).all()


def test_orbit_poses_look_at_the_centre() -> None:
    poses = orbit()
    assert len(poses) == 72
    for pose in poses:
        u, v, z = PAPER_CAMERA.project(pose.inverse().apply(np.zeros(3)))
        assert (u, v, z) == pytest.approx((320.0, 240.0, 3.0))
        assert np.linalg.norm(pose.translation) == pytest.approx(3.0)
        assert np.linalg.det(pose.rotation) == pytest.approx(1.0)
        _, above, _ = PAPER_CAMERA.project(pose.inverse().apply(np.array([0.0, 0.5, 0.0])))
        assert above < 240.0  # y is up, the image's rows run down
    turn = poses[36].rotation[:, 2] @ poses[35].rotation[:, 2]
    assert np.degrees(np.arccos(turn)) == pytest.approx(5.0)


def test_nadir_poses_look_straight_down() -> None:
    poses = nadir()
    assert len(poses) == 11
    for pose in poses:
        np.testing.assert_allclose(pose.rotation[:, 2], [0.0, 0.0, -1.0])
        np.testing.assert_allclose(pose.rotation[:, 0], [1.0, 0.0, 0.0])
        assert pose.translation[2] == 300.0
    np.testing.assert_allclose(np.diff([pose.translation[0] for pose in poses]), 4.0)
    assert poses[5].translation[0] == 0.0


def test_the_blob_is_closed_and_two_units_long(small_blob: Scene) -> None:
    edges = np.sort(np.concatenate([small_blob.faces[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))]), axis=1)
    _, uses = np.unique(edges, axis=0, return_counts=True)
    assert (uses % 2 == 0).all()
    assert (small_blob.upper - small_blob.lower).max() == pytest.approx(2.0)
    np.testing.assert_allclose(small_blob.upper, -small_blob.lower, atol=1e-12)
    a, b, c = np.moveaxis(small_blob.vertices[small_blob.faces], 1, 0)
    assert np.einsum("nx,nx->", a, np.cross(b, c)) / 6 > 0.5  # volume: positive as faces look outwards


def test_the_blob_hides_parts_of_itself_and_has_no_pinholes(small_blob: Scene) -> None:
    depth = render(small_blob, PAPER_CAMERA.scaled(0.5), orbit()[35])
    row_steps = np.abs(np.diff(depth, axis=1))
    assert (row_steps > 0.1).sum() > 20  # occlusions, not only the outline
    known = np.isfinite(depth)
    alone = ~known[1:-1, 1:-1] & known[:-2, 1:-1] & known[2:, 1:-1] & known[1:-1, :-2] & known[1:-1, 2:]
    assert not alone.any()


def test_the_city_is_made_of_planes_and_steps() -> None:
    scene = city()
    np.testing.assert_allclose((scene.upper - scene.lower)[:2], [520.0, 330.0])
    assert scene.upper[2] < 65.0
    depth = render(scene, PAPER_CAMERA.scaled(0.5), nadir()[5])
    assert np.isfinite(depth).all()
    assert np.nanmin(depth) < 270.0
    second = np.abs(np.diff(1.0 / depth.astype(np.float64), 2, axis=1)) * 300.0**2  # in metres
    assert np.mean(second < 1e-2) > 0.85  # planes are affine in inverse depth
    assert np.mean(second > 1.0) > 0.01  # steps
    assert (scene.vertices == city().vertices).all()
    assert len(city(np.random.default_rng(1)).vertices) != len(scene.vertices)


def test_views_agree_with_one_another(small_blob: Scene) -> None:
    (left, middle, right), truth = object_bundle(small_blob, None, np.random.default_rng(0), views=3, camera=CAMERA)
    assert (middle.depth[np.isfinite(truth)] == truth[np.isfinite(truth)]).all()
    for view in (left, right):
        world = view.pose.apply(view.camera.back_project(view.depth))
        u, v, z = CAMERA.project(middle.pose.inverse().apply(world))
        inside = (u > 0) & (u < 63) & (v > 0) & (v < 47)
        there = truth[np.round(v[inside]).astype(int), np.round(u[inside]).astype(int)]
        assert np.nanmedian(np.abs(there - z[inside])) < 0.02


def test_a_photograph_shows_shading_and_albedo() -> None:
    scene = city()
    depth, image = photograph(scene, CAMERA, nadir()[0])
    assert image.dtype == np.float32
    assert (image >= 0).all()
    assert (image <= 1).all()
    assert (depth == render(scene, CAMERA, nadir()[0])).all()
    assert len(np.unique(np.round(image, 3))) > 10
    facing = plane(3.0)
    assert (photograph(facing, CAMERA, Pose.identity())[1] > 0).all()
    assert (photograph(plane(3.0, size=0.5), CAMERA, Pose.identity())[1][0] == 0).all()


def test_a_face_is_as_bright_as_the_cosine_to_the_light() -> None:
    """Half of its albedo edge-on, all of it towards the light."""
    up, unit = np.array([0.0, 1.0, 0.0]), LIGHT / np.linalg.norm(LIGHT)
    across = np.cross(unit, up) / np.linalg.norm(np.cross(unit, up))
    for cosine, brightness in ((1.0, GREY), (0.5, 0.75 * GREY), (0.0, 0.5 * GREY)):
        towards = cosine * unit + np.sqrt(1 - cosine**2) * across
        forward = -towards / np.linalg.norm(towards)
        right = np.cross(up, forward) / np.linalg.norm(np.cross(up, forward))
        looking = np.column_stack([right, np.cross(forward, right), forward])
        wall = plane(3.0)
        seen = photograph(replace(wall, vertices=wall.vertices @ looking.T), CAMERA, Pose(looking, np.zeros(3)))[1]
        np.testing.assert_allclose(seen, brightness, atol=1e-3)


def test_bundles_are_repeatable_and_noisy_as_asked() -> None:
    noise = Laplace(6.0)
    scene = city()
    one, truth = city_bundle(scene, noise, np.random.default_rng(3), views=3, camera=CAMERA)
    two, _ = city_bundle(scene, noise, np.random.default_rng(3), views=3, camera=CAMERA)
    other, _ = city_bundle(scene, noise, np.random.default_rng(4), views=3, camera=CAMERA)
    assert all((a.depth == b.depth).all() for a, b in zip(one, two, strict=True))
    assert (one[0].depth != other[0].depth).any()
    assert np.mean(np.abs(one[1].depth - truth)) == pytest.approx(6.0, rel=0.05)
    assert one[0].image is not None
    bare, _ = bundle(scene, nadir(1), CAMERA, None, np.random.default_rng(0), image=False)
    assert bare[0].image is None
    with pytest.raises(InputError, match="no poses"):
        bundle(scene, [], CAMERA, None, np.random.default_rng(0))


def test_meshes_turn_scale_and_load(tmp_path: Path) -> None:
    import trimesh

    box = trimesh.creation.box(extents=(1.0, 2.0, 8.0))
    box.apply_translation((5.0, 0.0, 0.0))
    box.export(tmp_path / "box.ply")
    scene = load_mesh(tmp_path / "box.ply")
    assert scene.name == "box"
    upright = scene.centred().scaled_to(2.0).upright()
    np.testing.assert_allclose(upright.upper - upright.lower, [0.5, 2.0, 0.25])
    np.testing.assert_allclose(upright.upper, -upright.lower, atol=1e-12)
    for stretched in ((9.0, 1.0, 1.0), (1.0, 9.0, 1.0), (1.0, 1.0, 9.0)):
        longest = replace(scene, vertices=scene.vertices / (1, 2, 8) * stretched).upright()
        a, b, c = np.moveaxis(longest.vertices[scene.faces], 1, 0)
        assert np.einsum("nx,nx->", a, np.cross(b, c)) / 6 == pytest.approx(9.0)  # turned, never mirrored
        np.testing.assert_allclose(longest.upper - longest.lower, [1, 9, 1])
    (tmp_path / "broken.ply").write_bytes(b"ply\nformat binary_little_endian 1.0\nelement vertex 9\n")
    with pytest.raises(FileError, match=r"broken\.ply cannot be read as a mesh"):
        load_mesh(tmp_path / "broken.ply")
    with pytest.raises(InputError, match="faces use vertices"):
        Scene(np.zeros((2, 3)), np.array([[0, 1, 2]]))


def deviation(noise: Noise, depth: float = 3.0, seed: int = 0) -> NDArray[Any]:
    clean = np.full(BIG, depth, np.float32)
    return noise(clean, np.random.default_rng(seed)).astype(np.float64) - clean


def test_laplace_and_gauss_have_their_spread() -> None:
    laplace = deviation(Laplace(0.2))
    assert np.nanmean(np.abs(laplace)) == pytest.approx(0.2, rel=0.01)
    assert np.nanstd(laplace) == pytest.approx(0.2 * np.sqrt(2), rel=0.01)
    gauss = deviation(Gauss(0.2))
    assert np.std(gauss) == pytest.approx(0.2, rel=0.01)
    assert np.mean(gauss) == pytest.approx(0.0, abs=2e-3)
    assert not deviation(Laplace(0.0)).any()


def test_stereo_noise_grows_with_the_square_of_depth() -> None:
    noise = Stereo(0.5, 700.0)
    near, far = (np.std(deviation(noise, z)) for z in (5.0, 20.0))
    assert near == pytest.approx(0.5 * 25.0 / 700.0, rel=0.01)
    assert far / near == pytest.approx(16.0, rel=0.02)


def test_outliers_strike_their_share() -> None:
    struck = deviation(Outliers(0.05, 5.0, 9.0))
    assert np.mean(struck != 0) == pytest.approx(0.05, rel=0.05)
    values = 3.0 + struck[struck != 0]
    assert (values.min(), values.max()) == pytest.approx((5.0, 9.0), abs=0.01)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 1.0])
def test_holes_cover_their_share(fraction: float) -> None:
    radius = 6.0
    depth = Holes(fraction, radius)(np.ones(BIG, np.float32), np.random.default_rng(0))
    holes = np.isnan(depth)
    assert fraction <= holes.mean() <= fraction + 1.1 * np.pi * radius**2 / holes.size
    assert (depth[~holes] == 1.0).all()


def test_a_region_is_noisier_connected_and_new_each_time() -> None:
    noise = Regional(1 / 3, 5.0, Laplace(0.05))
    rng = np.random.default_rng(0)
    clean = np.full(BIG, 3.0, np.float32)
    first, second = (np.abs(noise(clean, rng) - clean) for _ in range(2))
    assert first.mean() == pytest.approx(0.05 * (2 / 3 + 5 / 3), rel=0.02)
    blocks = first.reshape(48, 10, 64, 10).mean(axis=(1, 3))  # the region shows in means of 10 x 10 pixels
    assert np.mean(blocks > 0.15) == pytest.approx(1 / 3, abs=0.04)
    blocks_of_second = second.reshape(48, 10, 64, 10).mean(axis=(1, 3))
    assert np.mean((blocks > 0.15) != (blocks_of_second > 0.15)) > 0.1


def test_noise_composes_keeps_holes_and_never_gives_depths_below_zero() -> None:
    clean = np.full(BIG, 0.5, np.float32)
    clean[:10] = np.nan
    noise = Laplace(0.5) + Outliers(0.1, 1.0, 2.0) + Holes(0.05, 4.0) + Regional(0.2, 3.0) + Stereo(1.0, 5.0)
    seen = noise(clean, np.random.default_rng(0))
    again = noise(clean, np.random.default_rng(0))
    assert seen.dtype == np.float32
    assert np.isnan(seen[:10]).all()
    assert (seen[np.isfinite(seen)] > 0).all()
    np.testing.assert_array_equal(seen, again)
    assert np.isnan(Laplace(0.5)(clean, np.random.default_rng(0))[10:]).mean() == pytest.approx(
        0.5 * np.exp(-1.0), rel=0.02
    )  # the chance of a Laplace below -1 scale
    assert np.isnan(noise(np.full((4, 5), np.nan, np.float32), np.random.default_rng(0))).all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Laplace(-1.0), "scale is -1"),
        (lambda: Gauss(np.nan), "sigma is nan"),
        (lambda: Stereo(1.0, 0.0), "focal_baseline is 0"),
        (lambda: Outliers(1.5, 1.0, 2.0), "fraction is 1.5"),
        (lambda: Outliers(0.5, 2.0, 1.0), "low <= high"),
        (lambda: Holes(0.5, 0.0), "radius is 0"),
        (lambda: Regional(0.5, -2.0), "factor is -2"),
    ],
)
def test_impossible_noise_is_refused(make: Callable[[], Noise], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()


def test_normals_of_a_rendered_sphere_point_outwards() -> None:
    pose = orbit()[3]
    depth = render(sphere(1.0, 100), CAMERA, pose)
    found = normals(depth, CAMERA)
    outwards = pose.apply(CAMERA.back_project(depth))
    cosine = np.einsum("ijk,ijk->ij", pose.turn(found), outwards)
    assert np.nanpercentile(cosine, 10) > 0.9


@pytest.mark.parametrize("name", ["plane", "blob", "room", "orthographic"])
def test_without_embree_the_same_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy finds the same faces, those partly behind the camera and those seen along parallel rays, too."""
    scene = {"plane": plane(), "blob": blob(), "room": room()}.get(name, sphere(1.0, 20))
    parallel, pinhole = Orthographic(0.1, 15.5, 11.5, 32, 24), Pinhole(30.0, 30.0, 15.5, 11.5, 32, 24)
    camera = parallel if name == "orthographic" else pinhole
    pose = Pose.identity() if name == "plane" else orbit()[3]
    expected, image = photograph(scene, camera, pose)
    monkeypatch.delitem(sys.modules, "trimesh.ray.ray_pyembree", raising=False)
    monkeypatch.setitem(sys.modules, "embreex", None)
    found, again = photograph(scene, camera, pose)
    assert np.isfinite(expected).any()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(again, image, atol=1e-6)


def test_a_missing_ray_caster_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "trimesh.ray.ray_pyembree", raising=False)
    monkeypatch.setitem(sys.modules, "embreex", None)
    bent = BrownConrady(30.0, 30.0, 15.5, 11.5, 32, 24, k1=0.01)
    with pytest.raises(MissingDependency, match=r"embreex: pip install 'cfusion\[synthetic\]'"):
        render(plane(), bent, Pose.identity())
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(MissingDependency, match=r"cfusion\[synthetic\]"):
        load_mesh(tmp_path / "any.ply")


def test_a_thing_stands_on_the_floor_of_its_room() -> None:
    """Walls and floor around it, nothing of it below the floor; the smooth object where none is given."""
    thing = blob(20)
    for scene, count in ((room(thing), len(thing.faces)), (room(), len(blob().faces))):
        assert len(scene.faces) == count + 8  # two triangles each: floor, back, left, right
        assert scene.faces.max() == len(scene.vertices) - 1
        lowest = scene.vertices[:, 1].min()
        assert (scene.vertices[:4, 1] == lowest).all()  # the floor's corners
        assert scene.vertices[16:, 1].min() == pytest.approx(lowest)
        assert np.ptp(scene.vertices[16:], axis=0).max() == pytest.approx(2.0)
    assert room(thing).name.startswith("room-")


def test_the_blob_keeps_its_shape(small_blob: Scene) -> None:
    """What was published about it is about this one: volume, area and the mean of its surface have not moved."""
    corners = small_blob.vertices[small_blob.faces]
    normals_by_area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    areas = np.linalg.norm(normals_by_area, axis=1)
    assert np.sum(corners[:, 0] * normals_by_area) / 3 == pytest.approx(1.0873, rel=5e-4)
    assert areas.sum() == pytest.approx(6.9425, rel=5e-4)
    np.testing.assert_allclose(areas @ corners.mean(axis=1) / areas.sum(), [0.1021, -0.3310, -0.0413], atol=5e-4)


def test_the_projected_surface_is_the_fields_zero_whatever_its_slope() -> None:
    def ball(points: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(0.2 * (np.linalg.norm(points, axis=-1) - 0.7))

    box = np.ones(3)
    vertices, _ = isosurface(ball, -box, box, 12)
    np.testing.assert_allclose(np.linalg.norm(vertices, axis=-1), 0.7, atol=1e-6)


def test_a_smooth_region_is_as_wide_as_high() -> None:
    region = _smooth_region(np.ones((200, 200), bool), 0.3, 6.0, np.random.default_rng(2))
    across, down = np.count_nonzero(np.diff(region, axis=1)), np.count_nonzero(np.diff(region, axis=0))
    assert region.mean() == pytest.approx(0.3, abs=0.01)
    assert 0.7 < across / down < 1.4


def test_a_surface_seen_too_flat_is_steep_on_both_sides_and_a_jump_is_not() -> None:
    rows, columns = np.mgrid[:12, :17]
    for steep in (rows, columns):
        assert _inner_slope((10 + steep).astype(np.float32), 400.0)[1:-1, 1:-1].all()
        jump = np.where(steep > 5, 3, 2).astype(np.float32)
        assert not _inner_slope(jump, 400.0).any()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"scene": "bunny"}, "scene is of type str; give a scene"),
        ({"noise": 0.6}, "noise is of type float; give a noise"),
        ({"rng": 0}, "rng is of type int; give a generator"),
        ({"views": 2.5}, "views is 2.5; give a whole number"),
        ({"views": 0}, "views is 0; give a whole number"),
        ({"spacing": "5"}, "spacing is '5'; give a whole number"),
        ({"camera": (640, 480)}, "camera is of type tuple; give a camera"),
    ],
)
def test_a_bundle_of_something_else_is_refused_in_words(wrong: dict[str, object], words: str) -> None:
    given = {
        "scene": blob(resolution=12),
        "noise": None,
        "rng": np.random.default_rng(0),
        "views": 1,
        "camera": CAMERA,
    } | wrong
    with pytest.raises(InputError, match=re.escape(words)):
        object_bundle(**given)  # type: ignore[arg-type]
    if "spacing" not in wrong:
        with pytest.raises(InputError, match=re.escape(words)):
            city_bundle(**given)  # type: ignore[arg-type]
    else:
        with pytest.raises(InputError, match="give two lengths"):
            city_bundle(**given)  # type: ignore[arg-type]
