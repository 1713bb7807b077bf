"""Which views are neighbours: by surface, in time, and as the data name them."""

import struct
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from walls import CAMERA, lay, pose_at, walk, wall_depth, wall_view

from cfusion import Orthographic, Pinhole, Pose, View, fuse, read
from cfusion.datasets.named_neighbours import named_neighbours, read_plan
from cfusion.errors import CFusionError, FileError, InputError
from cfusion.scene import Graph, by_surface, in_time, neighbours
from cfusion.scene.job import Job
from cfusion.scene.neighbours import LEAST, scores
from cfusion.scene.sketch import sketch, towards_camera
from cfusion.scene.whole import _graph


def test_nearer_views_share_more() -> None:
    graph = by_surface(walk(9))
    assert graph.neighbours[0][:3] == (1, 2, 3)
    assert set(graph.neighbours[4][:4]) == {2, 3, 5, 6}
    assert all(view not in others for view, others in enumerate(graph.neighbours))


def test_a_view_of_something_else_is_nobodys_neighbour() -> None:
    away = View(np.full(CAMERA.shape, 2.0), CAMERA, pose_at(0.0, turn=np.pi), name="the other way")
    graph = by_surface([*walk(4), away])
    assert graph.neighbours[4] == ()
    assert all(4 not in others for others in graph.neighbours)
    assert graph.lonely == (4,)
    assert graph.groups == ((0, 1, 2, 3), (4,))


def test_an_occluder_in_front_is_not_shared() -> None:
    """Same frustum, another surface: nothing in common beyond noise."""
    near = View(np.full(CAMERA.shape, 0.5), CAMERA, pose_at(0.02), name="near")
    assert scores(sketch(wall_view(0)), [sketch(near)]) == [0.0]


def test_angle_and_resolution_count() -> None:
    wall = sketch(wall_view(0))
    ahead = sketch(wall_view(1))
    step_back = Pose(np.eye(3), np.array([0.0, 0.0, -2.0]))
    far = View(np.full(CAMERA.shape, 4.0), CAMERA, step_back)
    flat = View(np.full(CAMERA.shape, 2.0), CAMERA, Pose.identity())
    assert scores(sketch(flat), [sketch(far)]) == pytest.approx([0.5], abs=0.05)  # pixels twice as large
    turned = wall_view(3, x=2.0, turn=-0.75)
    aside, straight = scores(wall, [sketch(turned), ahead])
    assert aside < 0.8 * straight


def test_noise_does_not_hide_what_is_shared() -> None:
    graph = by_surface([wall_view(number, noise=0.3) for number in range(5)])
    assert all(len(others) == 4 for others in graph.neighbours)
    assert LEAST > 0


def test_useless_neighbours_do_not_hurt() -> None:
    views = walk(6)
    away = View(np.full(CAMERA.shape, 2.0), CAMERA, pose_at(0.0, turn=np.pi))
    truth = wall_depth(views[2].pose)
    alone = fuse(views, reference=2, backend="numpy")
    with_it = fuse([*views, away], reference=2, backend="numpy")
    error = [float(np.sqrt(np.nanmean((each.depth - truth) ** 2))) for each in (alone, with_it)]
    assert error[1] <= 1.02 * error[0]


class Counted(Sequence):  # type: ignore[type-arg]
    """Views that count how often they are read; one of them cannot be."""

    def __init__(self, views: list[View], broken: int = -1) -> None:
        self.views, self.broken, self.reads = views, broken, [0] * len(views)

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, index: int) -> View:  # type: ignore[override]
        self.reads[index] += 1
        if index == self.broken:
            raise FileError("view is damaged")
        return self.views[index]


def test_each_view_is_read_once() -> None:
    views = Counted(walk(5))
    by_surface(views)
    assert views.reads == [1] * 5


def test_a_view_that_cannot_be_read_is_left_out() -> None:
    heard: list[tuple[int, CFusionError]] = []
    graph = by_surface(Counted(walk(4), broken=1), failed=lambda number, error: heard.append((number, error)))
    assert [number for number, _ in heard] == [1]
    assert graph.neighbours[1] == ()
    assert all(1 not in others for others in graph.neighbours)
    with pytest.raises(FileError, match="damaged"):
        by_surface(Counted(walk(4), broken=1))


def test_more_views_than_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    views = [wall_view(number, x=0.02 * number) for number in range(40)]
    whole = by_surface(views).cut(6)
    monkeypatch.setattr(neighbours, "CANDIDATES", 16)
    assert by_surface(views).cut(6) == whole


def test_neighbours_in_time_are_a_window_inside_the_sequence() -> None:
    for count, width in ((60, 11), (7, 3), (4, 11), (9, 4), (1, 1)):
        graph = in_time(count, width)
        for frame in range(count):
            window = sorted(graph.bundle(frame))
            assert window == list(range(window[0], window[0] + min(width, count)))
            assert 0 <= window[0] <= frame <= window[-1] < count
    assert sorted(in_time(60, 11).bundle(20)) == list(range(15, 26))
    assert in_time(9, 5).neighbours[4] == (3, 5, 2, 6)
    with pytest.raises(InputError, match="at least 1"):
        in_time(5, 0)


def test_a_graph_refuses_itself_strangers_and_twins() -> None:
    for bad in (((0,),), ((1,),), ((1, 1), ())):
        with pytest.raises(InputError, match="neighbours of view 0"):
            Graph(bad, "nobody")
    with pytest.raises(InputError, match="whole number"):
        Graph(((),), "nobody").cut(-1)
    assert Graph(((1, 2), (), ()), "").cut(1).neighbours == ((1,), (), ())
    assert Graph(((1,), (), ()), "").both_ways(1) == (0,)


def test_patch_match_cfg_names_neighbours(tmp_path: Path) -> None:
    data = lay(walk(4), tmp_path / "w", "colmap")
    names = [f"{number:06d}.png" for number in range(4)]
    plan = f"{names[0]}\n{names[3]}, {names[1]}, gone.png\n{names[1]}\n__all__\n{names[2]}\n__auto__, 2\n"
    (data / "stereo" / "patch-match.cfg").write_text(plan)
    assert read_plan(data / "stereo" / "patch-match.cfg")[names[0]] == (names[3], names[1], "gone.png")
    named = named_neighbours(data, "colmap", read(data))
    assert named is not None
    assert named.neighbours[0] == (3, 1)
    assert set(named.neighbours[1]) == {0, 2, 3}  # by shared sparse points, as is the last, which the plan leaves out
    assert set(named.neighbours[3]) == {0, 1, 2}
    assert "patch-match.cfg" in named.source
    assert "sparse points" in named.source


def test_sparse_points_are_read_from_binary_models_too(tmp_path: Path) -> None:
    from cfusion.io.codecs.colmap_model import read_observations

    head = struct.pack("<i7di", 1, 1.0, 0, 0, 0, 0, 0, 0, 1) + b"a.png\0"
    body = struct.pack("<Q", 2) + struct.pack("<2dq2dq", 1.0, 2.0, 17, 3.0, 4.0, -1)
    (tmp_path / "images.bin").write_bytes(struct.pack("<Q", 1) + head + body)
    assert read_observations(tmp_path)["a.png"].tolist() == [17]
    (tmp_path / "images.bin").write_bytes(struct.pack("<Q", 1) + head + body[:-4])
    with pytest.raises(FileError, match="truncated"):
        read_observations(tmp_path)


def test_pair_txt_names_neighbours(tmp_path: Path) -> None:
    data = lay(walk(4), tmp_path / "m", "mvsnet")
    (data / "pair.txt").write_text("4\n0\n2 3 9.0 1 5.0\n1\n1 0 1.0\n2\n0\n3\n2 9 1.0 0 0.5\n")
    named = named_neighbours(data, "mvsnet", read(data))
    assert named is not None
    assert named.source == "pair.txt"
    assert named.neighbours == ((3, 1), (0,), (), (0,))
    (data / "pair.txt").unlink()
    assert named_neighbours(data, "mvsnet", read(data)) is None


def test_dmap_ids_name_neighbours(tmp_path: Path) -> None:
    data = lay(walk(3), tmp_path / "o", "openmvs")
    named = named_neighbours(data, "openmvs", read(data))
    assert named is not None
    assert named.neighbours == ((1, 2), (0, 2), (0, 1))


@pytest.mark.parametrize("parallel", [False, True], ids=["pinhole", "orthographic"])
def test_the_directions_of_a_sketch_lead_to_its_camera(parallel: bool) -> None:
    camera = Orthographic(0.05, 15.5, 11.5, 32, 24) if parallel else CAMERA
    drawn = sketch(View(np.full(CAMERA.shape, 2.0), camera, pose_at(0.3, 0.2)))
    found = towards_camera(drawn.camera, drawn.pose, drawn.points)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    back = -drawn.pose.rotation[:, 2] if parallel else drawn.pose.translation - drawn.points
    assert (np.sum(found * back, axis=1) > 0).all()
    np.testing.assert_allclose(np.cross(found, back), 0, atol=1e-12)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_view_of_a_scene_gets_as_many_neighbours_as_are_asked_for(tmp_path: Path, number: int) -> None:
    dataset = read(lay(walk(4), tmp_path / "data", "bundle"))
    job = Job(str(tmp_path / "data"), "bundle", str(tmp_path / "out"), "")
    graph = _graph(job, dataset.views, dataset, number, [], None)
    assert [len(each) for each in graph.neighbours] == [number] * 4


@pytest.mark.parametrize("most", [0, 1, 5, 6, 1000])
def test_a_graph_is_cut_to_the_first_neighbours_of_each_view(most: int) -> None:
    """Views that have no more than so many keep all of them."""
    graph = Graph(tuple(tuple(other for other in range(7) if other != view) for view in range(7)), "a test")
    assert graph.cut(most).neighbours == tuple(others[:most] for others in graph.neighbours)
    for wrong in (-1, 1.0, True):
        with pytest.raises(InputError, match="give a whole number from 0"):
            graph.cut(wrong)  # type: ignore[arg-type]


def test_what_looks_from_the_side_is_worth_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the same distance, with pixels of the same size, of a point that faces both."""
    point, alike = np.array([[0.0, 0.0, 4.0]]), np.ones(1)
    camera, normal = Pinhole(9.0, 9.0, 4.5, 4.5, 10, 10), np.array([[0.6, 0.0, -0.8]])

    def placed(degrees: float) -> Any:
        place = point[0] + 4 * np.array([np.sin(np.radians(degrees)), 0.0, -np.cos(np.radians(degrees))])
        pose = Pose(np.eye(3), place)
        return SimpleNamespace(
            points=point,
            normals=normal,
            noise=0.0,
            camera=camera,
            pose=pose,
            depths=alike,
            pixel_at=lambda depth: alike,
        )

    monkeypatch.setattr("cfusion.scene.neighbours._seen_by", lambda one, other: (alike, alike, alike))
    ahead, aside, far_aside = scores(placed(0), [placed(5), placed(60), placed(85)])
    assert ahead == 1
    assert 0.9 > aside > far_aside > 0
