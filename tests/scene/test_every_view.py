"""fuse_every: each view as if fused alone with its neighbours, lazily, and on past a failure."""

import numpy as np
import pytest
from walls import CAMERA, walk

import cfusion
from cfusion import Pose, View, fuse, fuse_every
from cfusion.datasets.dataset import LazyViews
from cfusion.errors import CFusionError, InputError
from cfusion.scene import Graph, in_time
from cfusion.scene.view_cache import ViewCache, size


def test_every_view_is_fused_as_if_alone() -> None:
    views = walk(4)
    graph = in_time(4, 3)
    results = list(fuse_every(views, "median", neighbours=graph, backend="numpy"))
    for number, result in enumerate(results):
        chosen = [views[other] for other in graph.bundle(number)]
        alone = fuse(chosen, "median", reference=0, backend="numpy")
        np.testing.assert_array_equal(result.depth, alone.depth)
        assert result.pose is not None
        np.testing.assert_array_equal(result.pose.matrix(), views[number].pose.matrix())


def test_neighbours_are_chosen_and_cut() -> None:
    counts = [int(result.provenance.max()) for result in fuse_every(walk(5), "median", neighbours=2, backend="numpy")]
    assert counts == [3] * 5
    alone = [int(result.provenance.max()) for result in fuse_every(walk(3), "median", neighbours=0, backend="numpy")]
    assert alone == [1] * 3


def test_a_view_that_fails_is_handed_over_and_the_rest_go_on() -> None:
    views = walk(4)
    unknown = View(np.full(CAMERA.shape, np.nan), CAMERA, Pose.identity(), name="nothing")
    graph = Graph(((1,), (0,), (), (1,)), "test")
    heard: list[tuple[int, CFusionError]] = []
    given = [views[0], views[1], unknown, views[3]]
    results = list(
        fuse_every(given, "median", neighbours=graph, backend="numpy", failed=lambda n, e: heard.append((n, e)))
    )
    assert len(results) == 3
    assert [number for number, _ in heard] == [2]
    with pytest.raises(InputError, match="view 2"):
        list(fuse_every(given, "median", neighbours=graph, backend="numpy"))


def test_mistakes_are_told_before_the_first_view() -> None:
    with pytest.raises(InputError, match="list of views"):
        fuse_every(walk(1)[0])  # type: ignore[arg-type]
    with pytest.raises(CFusionError, match="no method"):
        fuse_every(walk(2), "no such method")
    with pytest.raises(InputError, match="graph has 3"):
        fuse_every(walk(2), neighbours=in_time(3))
    assert cfusion.fuse_every is fuse_every


def test_views_are_kept_as_long_as_they_fit() -> None:
    views, reads = walk(6), []

    def load(number: int) -> View:
        reads.append(number)
        return views[number]

    lazy = ViewCache(LazyViews(load, range(6)), most_bytes=3 * size(views[0]))
    for number in (0, 1, 2, 0, 1, 2):
        assert lazy[number] is views[number]
    assert reads == [0, 1, 2]
    lazy[3], lazy[0]
    assert reads == [0, 1, 2, 3, 0]
    assert lazy.bytes <= lazy.most_bytes
    assert len(lazy[1:3]) == 2
    assert len(lazy) == 6


def test_a_lazy_scene_reads_each_view_once() -> None:
    views, reads = walk(5), []

    def load(number: int) -> View:
        reads.append(number)
        return views[number]

    list(fuse_every(LazyViews(load, range(5)), "median", backend="numpy"))
    assert sorted(reads) == [0, 1, 2, 3, 4]
