"""One cloud of all maps: merged by 1/sigma^2 where they agree, dropped where others see through."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.ply_points import places, read_points
from walls import CAMERA, NORMAL, OFFSET, QUICK, lay, pose_at, run, walk, wall_depth

from cfusion import Pinhole, Pose
from cfusion.datasets.dataset import Dataset
from cfusion.errors import FileError
from cfusion.scene.cloud import FILE, GRAZING, POINT, merged
from cfusion.scene.fused_view import FusedView
from cfusion.scene.job import Opened
from cfusion.scene.placing import placing
from cfusion.scene.view_cache import ViewCache


def fused(x: float, shift: float = 0.0, sigma: float = 0.01, turn: float = 0.0) -> FusedView:
    """The wall, moved along its normal."""
    pose = pose_at(x, turn)
    depth = wall_depth(pose) + np.float32(shift)
    return FusedView(depth, np.full(CAMERA.shape, sigma, np.float32), CAMERA, pose)


def off_the_wall(points: np.ndarray) -> np.ndarray:
    return (points @ NORMAL - OFFSET) / np.linalg.norm(NORMAL)


def all_pieces(views: list[FusedView]) -> list:  # type: ignore[type-arg]
    others = [[other for other in range(len(views)) if other != number] for number in range(len(views))]
    return [merged(views.__getitem__, number, others[number]) for number in range(len(views))]


def test_maps_that_agree_give_each_point_once() -> None:
    views = [fused(0.0), fused(0.02), fused(0.04)]
    pieces = all_pieces(views)
    count = sum(len(piece.points) for piece in pieces)
    pixels = CAMERA.width * CAMERA.height
    assert pixels <= count < 1.3 * pixels  # one map, and what the others see beside it
    assert max(int(piece.views.max(initial=0)) for piece in pieces) == 3
    for piece in pieces:
        np.testing.assert_allclose(off_the_wall(piece.points), 0.0, atol=1e-5)
        np.testing.assert_allclose(np.abs(piece.normals @ NORMAL), np.linalg.norm(NORMAL), rtol=1e-3)


@pytest.mark.parametrize("turn", [0.0, 0.9])
def test_a_point_is_left_out_only_if_another_lies_within_half_a_pixel(turn: float) -> None:
    """Also where both see the wall obliquely, and neither alone samples it as densely as its pixels would."""
    views = [fused(0.0, turn=turn), fused(0.013, turn=turn)]
    cloud = np.concatenate([piece.points for piece in all_pieces(views)])
    left_out = 0
    for view in views:
        points = view.pose.apply(view.camera.back_project(view.depth)).reshape(-1, 3)
        nearest = np.sqrt(np.square(points[:, None] - cloud[None]).sum(-1).min(1))
        facing = np.abs(np.einsum("hwx,hwx->hw", view.normals, CAMERA.rays()))
        seen = np.isfinite(view.depth).ravel() & (facing.ravel() > GRAZING)
        assert (nearest[seen] <= 0.51 * view.depth.ravel()[seen] / CAMERA.fx).all()
        left_out += int((nearest[seen] > 1e-4).sum())
    assert left_out > 100


@pytest.mark.parametrize(("cosine", "kept"), [(0.19, False), (0.21, True), (0.5, True)])
def test_what_is_seen_at_less_than_a_fifth_is_no_point(cosine: float, kept: bool) -> None:
    """A slope through a narrow lens: its cosine is the same all over the image."""
    camera = Pinhole(4e4, 4e4, 15.5, 11.5, 32, 24)
    slope = np.sqrt(1 / cosine**2 - 1) * (np.arange(32) - camera.cx) / camera.fx
    depth = np.broadcast_to(2 / (1 - slope), camera.shape).astype(np.float32)
    view = FusedView(depth, np.full(camera.shape, 1e-6, np.float32), camera, pose_at(0.0))
    assert (len(merged([view].__getitem__, 0, []).points) > 0) == kept


def holed(x: float = 0.0) -> FusedView:
    """The wall, of which the left half was not measured."""
    view = fused(x)
    depth = view.depth.copy()
    depth[:, : CAMERA.width // 2] = np.nan
    return FusedView(depth, view.sigma, view.camera, view.pose)


def test_the_last_pixel_of_a_surface_ends_at_its_border() -> None:
    """On its plane, half a pixel on; not where another view has the surface, sees through it, or does not agree."""

    def farthest(views: list[FusedView]) -> float:
        """Pixels left of the first known column, of points of the first view that lie in the air or beyond it."""
        piece = all_pieces(views)[0]
        np.testing.assert_allclose(off_the_wall(piece.points), 0.0, atol=1e-5)
        u, _, _ = CAMERA.project(views[0].pose.inverse().apply(piece.points))
        return float(CAMERA.width // 2 - u.min())

    beside = fused(0.013)  # a quarter of a pixel to the right: it sees borders in the column on the left
    through = FusedView(beside.depth * 3, beside.sigma, CAMERA, beside.pose)
    through.depth[:, CAMERA.width // 2 :] = np.nan  # what the first view has is not doubted
    assert farthest([holed()]) == pytest.approx(0.5, abs=1e-4)
    assert farthest([holed(), fused(0.0)]) == pytest.approx(0.0, abs=1e-4)
    assert farthest([holed(), through]) == pytest.approx(0.0, abs=1e-4)
    assert farthest([holed(), holed(0.013)]) == pytest.approx(0.5, abs=1e-4)
    aside = fused(-9.0, turn=float(np.arctan2(9.0, 2.0)))  # measures there, too obliquely to agree
    assert farthest([holed(), aside]) == pytest.approx(0.0, abs=1e-4)
    noisy = FusedView(holed().depth, 10 * holed().sigma, CAMERA, holed().pose)
    assert farthest([noisy]) == pytest.approx(0.0, abs=1e-4)  # slopes are those of its noise


def test_weights_are_one_over_sigma_squared() -> None:
    near, exact = fused(0.0, shift=0.02, sigma=0.02), fused(0.0, sigma=0.01)
    pieces = all_pieces([near, exact])
    alone = np.median(np.abs(off_the_wall(all_pieces([near])[0].points)))
    both = np.abs(off_the_wall(pieces[0].points))
    assert len(pieces[1].points) == 0  # the same pixels: the first owns them
    np.testing.assert_allclose(both, alone / 5, rtol=0.08)  # weights 1 : 4


def shifted(depth: float, sigma: float = 0.002) -> FusedView:
    """A wall across the view, at a depth."""
    return FusedView(
        np.full(CAMERA.shape, depth, np.float32), np.full(CAMERA.shape, sigma, np.float32), CAMERA, pose_at(0.0)
    )


def test_no_point_is_the_mean_of_two_surfaces() -> None:
    """A map that knows little agrees with both walls; what it is moved to lies on neither, and is dropped."""
    unsure, near, far = shifted(2.0, sigma=0.3), shifted(1.8), shifted(2.2)
    assert len(merged([unsure, near, far].__getitem__, 0, [1, 2]).points) == 0
    piece = merged([unsure, far, far].__getitem__, 0, [1, 2])  # with one wall there is nothing between
    assert len(piece.points) == CAMERA.width * CAMERA.height
    np.testing.assert_allclose(piece.points[:, 2], 2.2, atol=0.001)


def test_a_point_that_is_seen_through_as_often_as_confirmed_is_dropped() -> None:
    pixel = 2.0 / CAMERA.fx
    own, same, behind = shifted(2.0), shifted(2.0), shifted(2.0 + 1.5 * pixel)
    assert len(merged([own, same, behind].__getitem__, 0, [1, 2]).points) == 0
    assert len(merged([own, same, same, behind].__getitem__, 0, [1, 2, 3]).points) > 0
    closer = shifted(2.0 + 0.8 * pixel)  # less than a pixel behind: nothing is seen through
    assert len(merged([own, same, closer].__getitem__, 0, [1, 2]).points) > 0


def slanted(turn: float) -> FusedView:
    return fused(0.0, turn=turn, sigma=0.001)


def test_between_pixels_that_an_oblique_surface_sets_apart_are_points_about_a_pixel_from_each_other() -> None:
    view = slanted(1.1)
    piece = all_pieces([view])[0]
    rows, columns = np.divmod(np.unique(piece.pixels), CAMERA.width)
    here = np.isin(rows * CAMERA.width + columns + 1, piece.pixels) & (columns + 1 < CAMERA.width)
    points, size = view.pose.apply(view.camera.back_project(view.depth)), view.depth / CAMERA.fx
    at, beside = (rows[here], columns[here]), (rows[here], columns[here] + 1)
    pixels = np.linalg.norm(points[beside] - points[at], axis=-1) / np.maximum(size[at], size[beside])
    between = np.clip(np.floor(pixels - 0.5), 0, 4).sum()
    assert between > 300
    assert len(piece.points) == len(rows) + between
    np.testing.assert_allclose(off_the_wall(piece.points), 0.0, atol=2e-4)
    rough = all_pieces([fused(0.0, turn=1.1, sigma=0.1)])[0]  # slopes may be noise: a point a pixel
    assert np.bincount(rough.pixels).max() == 1


def test_points_between_pixels_are_no_further_off_than_the_pixels() -> None:
    """On planes of single pixels they would be, as slopes are noise over the length of an oblique pixel."""
    view = slanted(1.1)
    noise = np.random.default_rng(0).normal(0, 0.002, CAMERA.shape) * view.depth
    piece = all_pieces([replace(view, depth=view.depth + noise.astype(np.float32))])[0]
    first = np.unique(piece.pixels, return_index=True)[1]
    between = np.delete(off_the_wall(piece.points), first)
    assert len(between) > 100
    assert np.abs(between).mean() < np.abs(off_the_wall(piece.points)[first]).mean()
    assert np.abs(between).max() <= np.abs(off_the_wall(piece.points)[first]).max()


def test_between_two_surfaces_is_nothing() -> None:
    near = shifted(2.0)
    near.depth[:, CAMERA.width // 2 :] = 2.5
    assert len(all_pieces([near])[0].points) == CAMERA.width * CAMERA.height


def test_who_sees_a_point_at_a_grazing_angle_confirms_it() -> None:
    """It cannot say where the point is, but that nothing else is there."""
    own, aside = fused(0.0), fused(-9.0, turn=float(np.arctan2(9.0, 2.0)))
    points = own.pose.apply(own.camera.back_project(own.depth)).reshape(-1, 3)
    u, v, _ = CAMERA.project(aside.pose.inverse().apply(points))
    inside = (u > 0) & (u < CAMERA.width - 1) & (v > 0) & (v < CAMERA.height - 1)
    assert inside.mean() > 0.9
    piece = merged([own, aside].__getitem__, 0, [1])
    assert len(piece.points) == CAMERA.width * CAMERA.height
    assert (piece.views == 1).all()  # it has no say in where they are


def test_points_that_others_see_through_are_dropped() -> None:
    ghost = fused(0.0)
    depth = ghost.depth.copy()
    depth[5:10, 5:10] = 1.0  # floats in the air
    ghost = FusedView(depth, ghost.sigma, CAMERA, ghost.pose)
    views = [ghost, fused(0.02), fused(0.04)]
    for piece in all_pieces(views):
        assert np.abs(off_the_wall(piece.points)).max(initial=0.0) < 0.05
    alone = all_pieces([ghost])[0]
    assert np.abs(off_the_wall(alone.points)).max() > 0.5  # nobody else looks there: it stays


def test_points_that_their_maps_do_not_believe_are_dropped() -> None:
    """All maps agree on them, as they share their inputs; only sigma tells."""
    views = [fused(0.0), fused(0.02)]
    for view in views:
        view.sigma[5:10, 5:10] = 0.5
    for piece in all_pieces(views):
        assert piece.sigma.max(initial=0.0) < 0.02
    exact = fused(0.0, sigma=0.0)
    exact.sigma[5:10] = 0.004  # much more than the usual, and still well within a pixel
    assert len(all_pieces([exact])[0].points) == CAMERA.width * CAMERA.height


def test_what_is_hidden_is_not_seen_through() -> None:
    """A screen in front of one camera contradicts nothing behind it."""
    screen = FusedView(
        np.full(CAMERA.shape, 0.5, np.float32), np.full(CAMERA.shape, 0.01, np.float32), CAMERA, pose_at(0.0)
    )
    wall, wall_too = fused(0.3), fused(0.32)
    piece = merged([screen, wall, wall_too].__getitem__, 1, [0, 2])
    assert len(piece.points) > 0.9 * CAMERA.width * CAMERA.height


def test_filled_pixels_without_a_sigma_are_no_points() -> None:
    view = fused(0.0)
    sigma = view.sigma.copy()
    sigma[:12] = np.nan
    piece = all_pieces([FusedView(view.depth, sigma, CAMERA, view.pose)])[0]
    assert np.unique(piece.pixels).tolist() == list(range(12 * CAMERA.width, 24 * CAMERA.width))
    _, v, _ = CAMERA.project(view.pose.inverse().apply(piece.points))
    assert v.min() == pytest.approx(11.5, abs=1e-4)  # the border of the last pixel that was observed
    assert (piece.pixels >= 12 * CAMERA.width).all()


def test_the_cloud_of_a_scene(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(lay(walk(4), tmp_path / "data", "bundle"), "-o", out, *QUICK)
    vertices = read_points(out / "scene.ply")
    assert np.median(np.abs(off_the_wall(places(vertices)))) < 0.01
    colours = np.stack([vertices[each] for each in ("red", "green", "blue")], axis=-1)
    np.testing.assert_array_equal(np.unique(colours, axis=0), [[51, 102, 153]])
    header = (out / "scene.ply").read_bytes().split(b"end_header")[0].decode()
    names = [line.split()[-1] for line in header.splitlines() if line.startswith("property")]
    assert names == list(POINT.names or ())
    assert {"sigma", "views", "nx"} <= set(names)
    with pytest.raises(SystemExit):
        run("--no-such-flag")
    assert run(tmp_path / "data", "-o", tmp_path / "bare", *QUICK, "--no-cloud") == 0
    assert not (tmp_path / "bare" / "scene.ply").exists()


def test_the_cloud_of_a_scene_in_a_map_projection(tmp_path: Path) -> None:
    there = np.array([500000.25, 5400000.5, 300.0])
    far = [replace(view, pose=Pose(view.pose.rotation, view.pose.translation + there)) for view in walk(3)]
    clouds = []
    for name, views in (("near", walk(3)), ("far", far)):
        assert run(lay(views, tmp_path / name, "bundle"), "-o", tmp_path / f"{name}-out", *QUICK) == 0
        clouds.append(places(read_points(tmp_path / f"{name}-out" / "scene.ply")))
    np.testing.assert_allclose(clouds[1] - there, clouds[0], atol=1e-6)


def test_a_piece_is_made_once(tmp_path: Path) -> None:
    data, out = lay(walk(3), tmp_path / "data", "bundle"), tmp_path / "out"
    run(data, "-o", out, *QUICK)
    before = {path: path.stat().st_ino for path in out.rglob(FILE)}
    assert len(before) == 3
    run(data, "-o", out, *QUICK)
    assert {path: path.stat().st_ino for path in before} == before


def test_an_error_of_what_is_placed_stays_as_it_is_and_one_of_the_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"^map 3 is damaged$"), placing(tmp_path):
        raise FileError("map 3 is damaged")
    with pytest.raises(FileError, match=r"^cannot write to .*run the command again$"), placing(tmp_path):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("files", "names"), [((), ["0", "1"]), ((Path("a/x.png"), Path("a/y.png")), ["x.png", "y.png"])]
)
def test_views_are_named_by_their_files_or_numbers(files: tuple[Path, ...], names: list[str]) -> None:
    views = walk(2)
    assert Opened(ViewCache(views), Dataset(views, files=files)).names == names
