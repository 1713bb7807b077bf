"""Exact values of what a scene counts with, on maps of a few pixels."""

import io
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, View
from cfusion.arrays import lower_median
from cfusion.datasets.dataset import LazyViews
from cfusion.datasets.write_back.take_over import _linked, _same, take_over
from cfusion.errors import FileError, InputError
from cfusion.scene import cloud, mesh, neighbours, places, summary
from cfusion.scene.fused_view import FusedView
from cfusion.scene.graph import Graph, ranked
from cfusion.scene.record import Record, folder_of
from cfusion.scene.runner import InProcess
from cfusion.scene.sketch import sketch, towards_camera
from cfusion.scene.view_cache import ViewCache, size
from cfusion.scene.volume import Volume, _between, _rgb, _stride

NAN = float("nan")
CAMERA = Pinhole(40.0, 50.0, 15.5, 15.5, 32, 32)


def facing(depth: float, sigma: float = 0.01, x: float = 0.0, z: float = 0.0, camera: Pinhole = CAMERA) -> FusedView:
    """A wall straight ahead of a camera at (x, 0, z)."""
    maps = (np.full(camera.shape, value, np.float32) for value in (depth, sigma))
    return FusedView(*maps, camera, Pose(np.eye(3), np.array([x, 0.0, z])))


class TestGraph:
    GRAPH = Graph(((1, 2), (0,), (), (), (3,)), "test")

    def test_bundles_groups_and_the_lonely(self) -> None:
        assert self.GRAPH.bundle(0) == (0, 1, 2)
        assert self.GRAPH.groups == ((0, 1, 2), (3, 4))
        assert self.GRAPH.lonely == ()
        assert Graph(((), (0,), ()), "test").lonely == (2,)
        assert self.GRAPH.both_ways(2) == (0,)
        assert self.GRAPH.both_ways(0) == (1, 2)
        assert self.GRAPH.cut(1).neighbours == ((1,), (0,), (), (), (3,))
        assert self.GRAPH.cut(0).neighbours == ((),) * 5

    @pytest.mark.parametrize("others", [(0,), (1, 1), (2,), (-1,)])
    def test_what_is_no_neighbour(self, others: tuple[int, ...]) -> None:
        with pytest.raises(InputError, match="neighbours of view 0"):
            Graph((others, ()), "test")

    def test_larger_scores_first_and_ties_by_number(self) -> None:
        assert ranked([[(0.5, 3), (0.9, 2), (0.5, 1)], [], [], []], "test").neighbours[0] == (2, 1, 3)


class TestSketch:
    def test_cells_are_medians_and_half_of_one_has_to_be_known(self) -> None:
        depth = np.full((64, 64), 2.0)
        depth[:4, :4] = [[1.0, 2.0, 3.0, NAN]] * 4  # 12 of 16
        depth[:4, 4:8] = [[5.0, 5.0, NAN, NAN]] * 4  # half
        depth[:4, 8:12] = [[5.0, NAN, NAN, NAN]] * 4
        found = sketch(View(depth, Pinhole(64.0, 64.0, 31.5, 31.5, 64, 64), Pose.identity()))
        assert found.depth.shape == (16, 16)
        assert found.depth[0, :4].tolist()[:2] == [2.0, 5.0]
        assert np.isnan(found.depth[0, 2])
        assert found.noise == 0.0
        assert len(found.points) == 255
        assert found.pixel_at_1 == 1 / 64
        assert found.pixel_at(np.array([2.0]))[0] == 2 / 64
        np.testing.assert_allclose(found.points[-1], [2 * 30 / 64, 2 * 30 / 64, 2.0], atol=1e-6)

    def test_the_noise_of_a_cell(self) -> None:
        rng = np.random.default_rng(0)
        noisy = 2 + rng.normal(0, 0.1, (160, 160))
        found = sketch(View(noisy, Pinhole(99.0, 99.0, 80.0, 80.0, 160, 160), Pose.identity()))
        assert found.noise == pytest.approx(1.25 * 0.1 / 4, rel=0.2)  # of sixteen looked at

    def test_the_lower_of_two_middles(self) -> None:
        assert lower_median(np.array([[1.0, 4.0, NAN], [3.0, 1.0, 2.0], [NAN] * 3])).tolist()[:2] == [1.0, 2.0]

    def test_parallel_rays_have_pixels_of_one_size(self) -> None:
        flat = sketch(View(np.full((32, 32), 5.0), Orthographic(0.25, 16.0, 16.0, 32, 32), Pose.identity()))
        assert flat.pixel_at(np.array([1.0, 9.0])).tolist() == [0.25, 0.25]
        assert towards_camera(flat.camera, flat.pose, np.zeros((2, 3))).tolist() == [[0.0, 0.0, -1.0]] * 2


class TestScore:
    """Of a wall that both see straight on: all of it shared, at no angle."""

    def score(self, depth: float, z: float = 0.0, x: float = 0.0, own: float = 2.0) -> float:
        one = View(np.full((32, 32), own), CAMERA, Pose.identity())
        other = View(np.full((32, 32), depth), CAMERA, Pose(np.eye(3), np.array([x, 0.0, z])))
        return float(neighbours.scores(sketch(one), [sketch(other)])[0])

    def test_the_same_view_is_worth_one(self) -> None:
        assert self.score(2.0) == pytest.approx(1.0)

    def test_five_percent_apart_is_another_surface(self) -> None:
        assert self.score(2.0 * 1.049) == pytest.approx(1.0)
        assert self.score(2.0 * 1.051) == 0.0
        assert self.score(2.0 * 0.949) == 0.0

    def test_noise_of_both_is_forgiven_three_times(self) -> None:
        """Depths 2 and 2.2: a tenth apart beyond 5 % of what is seen, up to 3 (a + b) of standard errors a and b."""
        one, other = (sketch(View(np.full((32, 32), z), CAMERA, Pose.identity())) for z in (2.0, 2.2))
        limits = ((0.0, 0.0, 0.0), (0.02, 0.01, 0.0), (0.0, 0.034, 1.0), (0.034, 0.0, 1.0), (0.02, 0.014, 1.0))
        for a, b, wanted in limits:
            found = neighbours.scores(replace(one, noise=a), [replace(other, noise=b), replace(other, noise=0.0)])
            assert found[0] == pytest.approx(wanted)
            assert found[1] == pytest.approx(float(a > 0.033))

    def test_an_image_ends_half_a_pixel_beyond_its_outermost_pixels(self) -> None:
        """Of (7, 5) pixels, depth by column and row; NaN outside, and the size of pixels as if it were at depth 1."""
        camera = Pinhole(10.0, 10.0, 3.0, 2.0, 7, 5)
        depth = (1.0 + np.arange(7) + 10 * np.arange(5)[:, None]).astype(np.float32)
        other = SimpleNamespace(camera=camera, pose=Pose.identity(), depth=depth, pixel_at=lambda z: z)
        for along, length in ((0, 7), (1, 5)):
            at = np.full((4, 2), 2.0)
            at[:, along] = -0.51, -0.49, length - 0.51, length - 0.49
            points = 2.0 * np.column_stack([(at - [3.0, 2.0]) / 10, np.ones(4)])
            z, found, pixel = neighbours._seen_by(SimpleNamespace(points=points), other)  # type: ignore[arg-type]
            step = 1 if along == 0 else 10
            first = 1 + 2 * (11 - step)
            np.testing.assert_array_equal(found, [NAN, first, first + step * (length - 1), NAN])
            np.testing.assert_allclose(z, 2.0)
            np.testing.assert_allclose(pixel, [1, 2, 2, 1])

    def test_coarser_pixels_count_by_their_ratio_and_finer_ones_no_more(self) -> None:
        assert self.score(4.0, z=-2.0) == pytest.approx(0.5)
        assert self.score(2.0, z=2.0, own=4.0) == pytest.approx(0.25, abs=0.07)  # sees a quarter of it

    def test_beyond_twenty_degrees_the_angle_counts(self) -> None:
        points = sketch(View(np.full((32, 32), 2.0), CAMERA, Pose.identity()))
        behind = Pose(np.diag([-1.0, 1.0, -1.0]), np.array([0.0, 0.0, 4.0]))
        other = sketch(View(np.full((32, 32), 2.0), CAMERA, behind))
        assert neighbours.scores(points, [other])[0] == 0.0  # from behind, the wall faces away
        assert neighbours.scores(points, []).shape == (0,)


class TestCloud:
    def test_sizes_of_pixels(self) -> None:
        assert cloud.pixel_size(facing(2.0).camera, np.array([2.0]))[0] == 2 / 40  # the longer side
        assert (
            cloud._rank(facing(2.56, camera=Pinhole(10.0, 10.0, 1.0, 1.0, 3, 3))) == -4
        )  # 2^-2 < 0.256 in half octaves
        assert cloud._rank(facing(NAN)) == 0

    def test_points_of_pixels(self) -> None:
        found = cloud._points_at(facing(2.0, x=1.0), np.array([25]), np.array([5]), np.array([2.0]))
        np.testing.assert_allclose(found, [[1 + 2 * (5 - 15.5) / 40, 2 * (25 - 15.5) / 50, 2.0]])

    def test_agreement_is_a_sigma_and_half_a_pixel(self) -> None:
        """Limits for walls of depth 2: sqrt(2) 0.01 + 0.5 . 2 / 40 = 0.039; a whole pixel, 0.065, to see through."""
        own = np.array([[0.0, 0.0, 2.0]])
        towards = np.array([[0.0, 0.0, -1.0]])
        sizes = np.array([0.01]), np.array([2 / 40])
        told = (
            (2.035, True, False),
            (2.045, False, False),
            (1.955, False, False),
            (2.06, False, False),
            (2.07, False, True),
            (1.8, False, False),
        )
        for depth, agrees, through in told:
            seen = cloud._compare(facing(depth), own, towards, *sizes)
            assert (bool(seen.agrees[0]), bool(seen.through[0])) == (agrees, through), depth
            assert seen.apart[0] == pytest.approx(2.0 - depth, abs=1e-6)
            assert seen.sigma[0] == pytest.approx(0.01)

    def test_a_point_moves_to_the_weighted_mean(self) -> None:
        views = [facing(2.0, 0.01), facing(2.02, 0.02)]
        found = cloud.merged(views.__getitem__, 0, [1])
        np.testing.assert_allclose(found.points[:, 2], 2.0 + 0.02 * (1 / 4) / (1 + 1 / 4), atol=5e-6)  # 1 : 1/4
        np.testing.assert_allclose(found.sigma, (0.01 + 0.02 / 4) / (1 + 1 / 4), rtol=3e-4)
        assert (found.views == 2).all()
        assert len(cloud.merged(views.__getitem__, 1, [0]).points) == 0  # the first owns them

    @pytest.mark.parametrize(("sigma", "by_angle"), [(0.01, True), (0.04, False)])
    def test_a_map_weighs_less_where_it_looks_obliquely(self, sigma: float, by_angle: bool) -> None:
        """By c^2, and not at all in maps whose sigma is more than half a pixel (0.025)."""
        half = np.sqrt(0.5)
        turned = Pose(np.array([[half, 0, half], [0, 1, 0], [-half, 0, half]]), np.array([-2.0, 0.0, 0.0]))
        along = turned.turn(CAMERA.back_project(np.ones(CAMERA.shape, np.float32)))[..., 2]
        oblique = FusedView((2.01 / along).astype(np.float32), np.full(CAMERA.shape, sigma, np.float32), CAMERA, turned)
        views = [facing(2.0, sigma), oblique]
        found = cloud.merged(views.__getitem__, 0, [1])
        both = found.only(found.views == 2)
        assert len(both.points) > 300
        cosines = [towards_camera(CAMERA, view.pose, both.points) @ [0.0, 0.0, -1.0] for view in views]
        weights = [cosine**2 if by_angle else np.ones_like(cosine) for cosine in cosines]
        expected = 2.0 + 0.01 * weights[1] / (weights[0] + weights[1])
        np.testing.assert_allclose(both.points[:, 2], expected, atol=5e-5)

    def test_the_finer_view_owns_the_point(self) -> None:
        fine = Pinhole(160.0, 200.0, 15.5, 15.5, 32, 32)
        views = [facing(2.0), facing(2.0, camera=fine)]
        whole = cloud.merged(views.__getitem__, 1, [0])
        assert len(whole.points) == len(cloud.merged(views.__getitem__, 1, []).points)
        rest = cloud.merged(views.__getitem__, 0, [1])
        assert 0 < len(rest.points) < len(cloud.merged(views.__getitem__, 0, []).points)

    def test_what_nobody_confirms_is_dropped_and_what_nobody_looks_at_is_kept(self) -> None:
        views = [facing(2.0), facing(1.0)]  # the other sees something nearer: no word about what is behind
        assert len(cloud.merged(views.__getitem__, 0, [1]).points) == 0
        assert len(cloud.merged(views.__getitem__, 0, []).points) > 900


class TestVolume:
    def test_what_a_volume_may_be(self) -> None:
        Volume(0.1, 0.1, 1.0)
        for wrong in ((0.0, 0.1, 1.0), (0.1, 0.09, 1.0), (0.1, 0.1, 0.0)):
            with pytest.raises(InputError, match="truncation of at least one voxel"):
                Volume(*wrong)

    def test_distances_are_to_the_wall_and_cut_at_the_truncation(self) -> None:
        volume = Volume(0.05, 0.15, 0.01)
        volume.integrate(facing(1.0, 0.02))
        found: dict[float, set[float]] = {}
        for (bx, by, bz), slot in volume.slots.items():
            for place in np.flatnonzero(volume.weight[slot] > 0):
                x, y, z = (np.array([bx, by, bz]) * 8 + np.unravel_index(place, (8, 8, 8))) * 0.05
                if abs(x) < 0.06 and abs(y) < 0.06:  # near the axis, where rays are along z
                    found.setdefault(round(float(z), 3), set()).add(round(float(volume.distance[slot, place]), 2))
        assert found[1.0] == {0.0}
        assert found[0.9] == {0.1}
        assert found[1.1] == {-0.1}
        assert found[0.8] == {0.15}
        assert max(found) == pytest.approx(1.15)  # behind the truncation nothing is known
        assert volume.weight.max() == pytest.approx(0.25, rel=0.01)  # (unit / sigma)^2, straight on
        volume.integrate(facing(1.0, 0.02))
        assert volume.weight.max() == pytest.approx(0.5, rel=0.01)
        assert volume.near.max() == 2

    def test_depth_between_pixels_of_one_surface(self) -> None:
        depth = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)
        view = FusedView(depth, np.ones_like(depth), Orthographic(1.0, 0.0, 0.0, 2, 2), Pose.identity())
        known = np.ones((2, 2), bool)
        u, v = np.array([0.25]), np.array([0.5])
        at = np.array([0]), np.array([0])
        plane = pytest.approx(1 + 0.25 + 2 * 0.5, abs=1e-5)  # of the nearest pixel
        assert _between(view, known, u, v, *at, 4.5)[0] == pytest.approx(0.5 * 1.25 + 0.5 * 3.5)
        assert _between(view, known, u, v, *at, 3.0)[0] == plane  # two surfaces
        known[1, 1] = False
        assert _between(view, known, u, v, *at, 4.5)[0] == plane
        known[1, 1] = True
        beyond = np.array([-0.4]), np.array([1.4])
        assert _between(view, known, *beyond, np.array([1]), np.array([0]), 4.5)[0] == pytest.approx(3.0)

    def test_samples_are_closer_than_asked(self) -> None:
        points = np.zeros((8, 9, 3))
        points[..., 0] = 0.1 * np.arange(9)
        assert [_stride(points, spacing) for spacing in (0.05, 0.1001, 0.35)] == [1, 1, 3]
        assert _stride(np.full((8, 9, 3), NAN), 0.5) == 1

    def test_colours(self) -> None:
        assert _rgb(None, (2, 2)).tolist() == np.full((2, 2, 3), np.float32(0.63)).tolist()
        assert _rgb(np.array([[0.5]], np.float32), (1, 1)).tolist() == [[[0.5] * 3]]


class TestKept:
    def test_the_longest_unused_goes_first(self) -> None:
        camera = Pinhole(1.0, 1.0, 2.0, 2.0, 4, 4)
        views = [View(np.full((4, 4), k + 1.0, np.float32), camera, Pose.identity()) for k in range(3)]
        assert size(views[0]) == 64
        reads: list[int] = []
        kept = ViewCache(LazyViews(lambda number: (reads.append(number), views[number])[1], range(3)), 128)
        for index in (0, 1, 0, 2, 0, -1):
            assert kept[index] is views[index]
        assert reads == [0, 1, 2]  # the third pushed the second out, and was there when asked for from the end
        assert kept.bytes == 128
        assert kept[1] is views[1]
        assert reads == [0, 1, 2, 1]
        assert [each.depth[0, 0] for each in kept[1:]] == [2.0, 3.0]
        assert ViewCache.of(views) is views


def test_a_thousand_views_to_a_folder(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert folder_of(tmp_path, 12_345) == tmp_path / "views" / "012" / "012345"


def test_a_draft_that_an_interrupted_run_left_is_replaced(tmp_path) -> None:  # type: ignore[no-untyped-def]
    source, draft = tmp_path / "a", tmp_path / "b"
    source.write_text("new")
    draft.write_text("left over")
    assert _linked(source, draft)
    assert draft.samefile(source)
    assert not _linked(tmp_path / "none", tmp_path / "c")


def test_a_full_disk_leaves_no_half_copy(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Neither of this run nor of one that was killed before."""
    data, out = tmp_path / "data", tmp_path / "out"
    for folder in (data, out):
        folder.mkdir()
    (data / "poses.txt").write_text("1 2 3")
    (out / ".cfusion-poses.txt").write_text("1")
    layout = SimpleNamespace(kept=("*.txt",))

    def full(source: Path, target: Path) -> None:
        target.write_text("1 ")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copy2", full)
        with pytest.raises(FileError, match=r"cannot copy .*poses\.txt: No space left"):
            take_over(data, out, layout, frozenset())  # type: ignore[arg-type]
    assert list(out.iterdir()) == []
    take_over(data, out, layout, frozenset())  # type: ignore[arg-type]
    assert [path.name for path in out.iterdir()] == ["poses.txt"]


def test_a_file_is_the_same_by_its_inode_or_size_and_time(tmp_path) -> None:  # type: ignore[no-untyped-def]
    one, other = tmp_path / "a", tmp_path / "b"
    one.write_text("xy")
    assert not _same(one, other)
    other.write_text("zw")
    os.utime(other, ns=(0, one.stat().st_mtime_ns))
    assert _same(one, other)
    os.utime(other, ns=(0, one.stat().st_mtime_ns + 1))
    assert not _same(one, other)


class TestSummary:
    def test_a_line_for_every_view(self) -> None:
        records = [
            Record(1, "second", "k", (0, 2), ("2: damaged",), 0.5, 0.875, 0.01234, 2e-4, seconds=1.25),
            Record(0, "first", "k", (1,), failure="damaged"),
        ]
        head, first, second = summary.table(records)
        assert first.split() == ["first", "1", "failed"]
        assert second.split() == ["second", "1", "50.0", "%", "87.5", "%", "0.0123", "2.0e-04", "1.2"]
        assert len(head.split()) >= 7

    def test_neighbours_in_words(self) -> None:
        said = summary.graph_sentence([(1, 2), (), (0, 1, 2, 4), (0,), (0, 1, 2)], "time")
        assert said == "neighbours by time: 0 to 4 a view, 2 in the middle"


class TestPlaces:
    def test_output_and_data_lie_apart(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        data = tmp_path / "data"
        data.mkdir()
        for output in (data, data / "out"):
            with pytest.raises(InputError, match="lies inside the data"):
                places.require_apart(data, output)
        with pytest.raises(InputError, match="lie inside the output"):
            places.require_apart(data, tmp_path)
        places.require_apart(data, tmp_path / "out")

    def test_an_output_of_other_data_is_left_alone(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        data, output = tmp_path / "data", tmp_path / "out"
        data.mkdir()
        places.require_own_output(data, output, written="tum", force=False)
        places.write_mark(data, output, {"format": "tum"})
        places.require_own_output(data, output, written="open3d", force=False)  # the mark of an older version
        places.write_mark(data, output, {"format": "tum", "written": "tum"})
        places.require_own_output(data, output, written="tum", force=False)
        with pytest.raises(
            FileError, match="holds this scene as tum, not open3d; choose another folder or pass --force"
        ):
            places.require_own_output(data, output, written="open3d", force=False)
        places.require_own_output(data, output, written="open3d", force=True)
        with pytest.raises(FileError, match="holds the scene of"):
            places.require_own_output(tmp_path / "other", output, written="tum", force=False)
        places.require_own_output(tmp_path / "other", output, written="tum", force=True)
        (output / "cfusion" / "scene.json").unlink()
        (output / "x").write_text("y")
        with pytest.raises(FileError, match="not a scene of cfusion"):
            places.require_own_output(data, output, written="tum", force=False)

    def test_one_command_at_a_time(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        with (
            places.lock_output(tmp_path),
            pytest.raises(FileError, match="another command"),
            places.lock_output(tmp_path),
        ):
            pass
        with places.lock_output(tmp_path):
            pass


def test_here_is_one_worker() -> None:
    assert InProcess().workers == 1


@pytest.mark.parametrize("away", [0.0, 1e6], ids=["near", "far"])
def test_a_glb_is_the_mesh_turned_half_about_x(away: float) -> None:
    """y up and z towards the viewer instead of y down and z away: lengths stay, and what is right stays right."""
    trimesh = pytest.importorskip("trimesh")
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]]) + away
    faces = np.array([[0, 1, 2], [0, 1, 3]])
    colours = np.full((4, 3), 200, np.uint8)
    made = mesh._glb(mesh.Mesh(corners, faces, colours), voxel=0.01)
    found = trimesh.load(io.BytesIO(made), file_type="glb", force="mesh", process=False).vertices
    np.testing.assert_allclose(found, corners * [1, -1, -1], atol=1e-3)


def test_vertices_of_two_chunks_are_one_and_faces_without_area_go() -> None:
    """A square whose corner 1 is there twice, to rounding: a face with both copies has no area, in whichever order."""
    voxel = 0.1
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [1 + 1e-7, -1e-7, 0]])
    colours = np.arange(15, dtype=np.uint8).reshape(5, 3)
    flat = [[1, 4, 2], [2, 1, 4], [4, 2, 1]]
    faces = np.array([[0, 1, 2], *flat, [0, 4, 3]])
    made = mesh._welded(corners, faces, colours, voxel)
    assert len(made.vertices) == 4
    found = [made.vertices[face].round(6).tolist() for face in made.faces]
    assert found == [corners[[0, 1, 2]].tolist(), corners[[0, 1, 3]].tolist()]
    for vertex, colour in zip(made.vertices, made.colours, strict=True):
        assert colour.tolist() in [colours[k].tolist() for k in range(5) if np.allclose(corners[k], vertex, atol=1e-6)]
    assert len(mesh._welded(corners, faces, colours, 1e-9).vertices) == 5  # further apart than rounding
