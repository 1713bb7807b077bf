"""Choices made on a part of the image: which part, that it is the image's own, and that they are the whole's."""

from typing import Any

import numpy as np
import pytest

from cfusion import Stack, fuse_stack, kernels
from cfusion.arrays import some_columns, stride_for
from cfusion.auto import sample
from cfusion.auto.sample import TILE, sample_of
from cfusion.auto.specks import specks

BACKEND = kernels.load("numpy")
SHAPE = (300, 420)


def numbered(shape: tuple[int, int] = SHAPE) -> np.ndarray:
    """Every pixel is its own number."""
    return np.arange(1.0, shape[0] * shape[1] + 1, dtype=np.float32).reshape(1, *shape)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "ENOUGH", 30_000)


def test_an_image_with_few_observations_is_its_own_sample(small: None) -> None:
    observed = np.zeros(SHAPE, np.bool_)
    observed[:150, :200] = True
    stack = Stack(numbered())
    assert sample_of(observed, BACKEND).stack(stack) is stack
    assert sample_of(~observed, BACKEND).stack(stack) is not stack


def test_a_sample_is_of_whole_tiles_each_pixel_once_and_parted_by_gaps(small: None) -> None:
    stack = Stack(np.repeat(numbered(), 3, axis=0), np.full((3, *SHAPE), 2.0))
    found = sample_of(np.ones(SHAPE, np.bool_), BACKEND).stack(stack)
    assert found.depths.flags.c_contiguous  # or every kernel is compiled once more
    taken = found.depths[0]
    known = ~np.isnan(taken)
    assert 15_000 <= known.sum() <= 45_000
    assert len(np.unique(taken[known])) == known.sum()
    assert (found.weights[0][known] == 2).all()
    assert (found.weights[0][~known] == 0).all()
    right, below = np.diff(taken, axis=1), np.diff(taken, axis=0)
    assert (right[~np.isnan(right)] == 1).all()  # neighbours in the sample are neighbours in the image
    assert (below[~np.isnan(below)] == SHAPE[1]).all()
    assert np.isnan(taken[TILE :: TILE + 1]).all()
    assert np.isnan(taken[:, TILE :: TILE + 1]).all()


@pytest.mark.parametrize("shape", [SHAPE, (301, 421), (97, 1300)])
def test_a_mirrored_image_has_mirrored_tiles(small: None, shape: tuple[int, int]) -> None:
    observed, maps = np.ones(shape, np.bool_), numbered(shape)
    if shape[0] * shape[1] > 100_000:
        observed[: shape[0] // 3, : shape[1] // 3] = False
    for axis in (0, 1):
        one = sample_of(observed, BACKEND).stack(Stack(maps)).depths
        other = sample_of(np.flip(observed, axis), BACKEND).stack(Stack(np.flip(maps, 1 + axis).copy())).depths
        odd = (shape[axis] - TILE) % 2  # tiles of 96 lie half a pixel beside the middle of an odd number
        np.testing.assert_allclose(np.unique(one).size, np.unique(other).size, rtol=0.02 * odd)
        if not odd:
            np.testing.assert_array_equal(np.unique(one), np.unique(other))


@pytest.mark.parametrize("shape", [(480, 640), (376, 1241), (720, 1280), (1080, 1920), (2000, 3000), (8000, 8000)])
def test_tiles_lie_evenly_over_the_image(shape: tuple[int, int]) -> None:
    """Along each axis a third of the tiles, give or take a sixth, lies in each third of the image."""
    tiles = sample._tiles(shape, -(-shape[0] * shape[1] // sample.ENOUGH))
    assert 0.8 * sample.ENOUGH < len(tiles) * TILE**2 < 2 * sample.ENOUGH
    for axis in (0, 1):
        middles = np.array([(tile[axis].start + tile[axis].stop) / 2 / shape[axis] for tile in tiles])
        for third in range(3):
            assert 1 / 6 < np.mean((middles * 3).astype(int) == third) < 1 / 2


@pytest.mark.parametrize("shape", [(480, 640), (640, 480), (300, 20_000), (20_000, 300), (3000, 400), (8000, 8000)])
def test_no_fewer_tiles_are_taken_than_one_of_so_many(shape: tuple[int, int]) -> None:
    """Where one axis is too short for its share the other one takes it, in upright and in wide images."""
    for enough in (sample.ENOUGH, 2 * sample.ENOUGH, 8 * sample.ENOUGH):
        every = -(-shape[0] * shape[1] // enough)
        starts = [np.unique([tile[axis].start for tile in sample._tiles(shape, every)]) for axis in (0, 1)]
        steps = [np.diff(each).max() / TILE for each in starts]
        assert np.prod(steps) <= 1.25 * every, (shape, enough)


@pytest.mark.parametrize("shape", [(1, 200_000), (2, 45_000), (16, 8000), (40, 4000)])
def test_a_thin_image_has_a_sample_smaller_than_itself(shape: tuple[int, int]) -> None:
    found = sample_of(np.ones(shape, np.bool_), BACKEND).stack(Stack(numbered(shape))).depths
    assert found.size <= 1.2 * shape[0] * shape[1]


def test_a_strip_between_the_tiles_is_met_by_more_of_them(small: None) -> None:
    """One of four tiles, in every second row of them, meets nothing; one of two meets half of it."""
    observed = np.zeros((9 * TILE, 13 * TILE), np.bool_)
    observed[3 * TILE : 4 * TILE] = True
    assert not any(observed[tile].any() for tile in sample._tiles(observed.shape, 4))
    found = sample_of(observed, BACKEND).stack(Stack(numbered(observed.shape))).depths
    held = found[~np.isnan(found)].astype(int) - 1
    assert found.size < observed.size / 4
    assert observed.ravel()[held].sum() == 7 * TILE**2
    assert observed.ravel()[held].all()  # tiles that hold nothing are left out


def test_an_object_that_the_lattice_misses_is_taken_as_it_is(small: None) -> None:
    """A strip that lies in few tiles: too little of it in every third one."""
    observed = np.zeros((40, 4000), np.bool_)
    observed[:, :1000] = True
    found = sample_of(observed, BACKEND).stack(Stack(numbered((40, 4000)))).depths
    held = ~np.isnan(found)
    assert observed.ravel()[found[held].astype(int) - 1].sum() >= 15_000


def test_the_plane_of_a_sample_lies_where_its_stack_does(small: None) -> None:
    found = sample_of(np.ones(SHAPE, np.bool_), BACKEND)
    plane, taken = found.plane(numbered()[0]), found.stack(Stack(numbered())).depths[0]
    known = ~np.isnan(taken)
    np.testing.assert_array_equal(plane[known], taken[known])
    assert (plane[~known] == 1).all()


def test_choices_on_a_sample_are_those_on_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wavy wall of even noise: one step of the ladder at most."""
    y, x = np.mgrid[:240, :320]
    truth = 4 + 0.2 * np.sin(x / 25) * np.cos(y / 30)
    stack = Stack((truth + np.random.default_rng(1).laplace(0, 0.05, (4, *truth.shape))).astype(np.float32))
    found = []
    for enough in (100_000, 20_000):
        monkeypatch.setattr(sample, "ENOUGH", enough)
        found.append(fuse_stack(stack, backend="cpu"))
    whole, part = found
    ratio = part.parameters["alpha"][0] / whole.parameters["alpha"][0]
    assert 0.49 < ratio < 2.01
    assert part.parameters["local"] == whole.parameters["local"]
    errors = [np.sqrt(np.nanmean((result.depth - truth) ** 2)) for result in found]
    assert errors[1] < 1.1 * errors[0]


def test_specks_are_what_stands_alone_and_the_reference_did_not_measure(on_host: Any) -> None:
    weights = np.zeros((3, 60, 80), np.float32)
    weights[:, 5:45, 5:45] = 1  # a surface
    weights[1:, 5:45, 45:55] = 1  # more of it
    weights[1, 10:30, 60:62] = 1  # a pole, two pixels wide, seen by one
    weights[1, 50, 70] = weights[2, 20, 70] = 1  # one pixel each
    weights[2, 52:54, 30:32] = 1  # four
    weights[0, 55, 10] = 1  # the reference's own
    found = specks(weights, 0, on_host)
    alone = found & (weights.sum(axis=0) > 0)
    assert alone[50, 70] and alone[20, 70] and alone[52:54, 30:32].all()  # noqa: PT018
    assert not alone[5:45, 5:45].any()
    assert not alone[13:27, 60:62].any()
    assert not alone[55, 10]
    sparse = np.zeros((2, 60, 80), np.float32)  # as a lidar's: a pixel in sixteen, none of them beside another
    sparse[1, ::4, ::4] = 1
    assert not (specks(sparse, 0, on_host) & (sparse[1] > 0)).any()
    sparse[0, :, :40] = 1  # dense where the reference looks, which does not make specks of the rest
    assert not (specks(sparse, 0, on_host) & (sparse[1] > 0)).any()


def test_tiles_by_index_are_those_by_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device, where one look-up takes all tiles."""
    observed, maps = np.ones((480, 640), np.bool_), np.random.default_rng(0).random((3, 480, 640)).astype(np.float32)
    by_slices = sample_of(observed, BACKEND)
    monkeypatch.setattr(sample, "on_host", lambda array: False)
    by_index = sample_of(observed, BACKEND)
    assert by_slices.origins is None
    assert by_index.origins is not None
    np.testing.assert_array_equal(by_index.stack(Stack(maps)).depths, by_slices.stack(Stack(maps)).depths)
    np.testing.assert_array_equal(by_index.plane(maps[0]), by_slices.plane(maps[0]))


def test_the_first_pixel_of_an_image_is_no_gap_between_tiles() -> None:
    tiles = [
        ((slice(0, 2), slice(0, 1)), (slice(0, 2), slice(0, 1))),
        ((slice(2, 4), slice(3, 4)), (slice(0, 2), slice(2, 3))),
    ]
    source, gap = sample._origins(tuple(map(sample._corners, tiles)), (2, 3), width=5)
    assert gap.tolist() == [[False, True, False]] * 2
    assert source[~gap].tolist() == [0, 13, 5, 18]


@pytest.mark.parametrize("pixels", [1, 99, 100, 399, 400, 899, 900, 640 * 480])
def test_a_stride_leaves_as_many_pixels_as_asked_or_few_more(pixels: int) -> None:
    """The largest one; a map with fewer is used whole."""
    stride = stride_for(pixels, 100)
    assert stride == 1 or pixels / stride**2 >= 100
    assert pixels / (stride + 1) ** 2 < 100


@pytest.mark.parametrize("size", [(240, 320), (384, 528), (480, 640), (720, 1280)])
@pytest.mark.parametrize("apart", [2, 3, 4, 5, 6, 8, 16])
def test_some_columns_are_some_of_those_that_a_sensor_measures(size: tuple[int, int], apart: int) -> None:
    for first in range(apart):
        maps = np.zeros((1, *size), np.float32)
        maps[..., first::apart] = 1
        assert some_columns(maps, 50_000).mean() == pytest.approx(1 / apart, rel=0.35)
        assert 20_000 < some_columns(maps, 50_000).size < 100_000


@pytest.mark.parametrize("first", [0, 2])
def test_maps_of_every_fourth_column_are_believed_wherever_these_are(first: int) -> None:
    shape = (300, 720)
    rng, maps = np.random.default_rng(0), np.full((5, *shape), np.nan, np.float32)
    surface = 4 + 0.002 * np.arange(shape[1]) + 0.001 * np.arange(shape[0])[:, None]
    for each, noise in zip(maps, (1, 1, 1, 10, 1), strict=True):
        each[:, first::4] = (surface + 0.01 * noise * rng.standard_normal(shape))[:, first::4]
    result = fuse_stack(Stack(maps), backend="cpu", min_confidence=0)
    seen = result.provenance > 0
    assert (result.confidence[seen] >= 0.8).mean() > 0.9
    assert np.sqrt(np.mean((result.depth - surface)[seen] ** 2)) < 0.004
