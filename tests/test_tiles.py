"""A frame fused in tiles is the frame fused at once, but for what smoothing reaches across a margin."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from cfusion import METHODS, Orthographic, Pinhole, Pose, Stack, Status, View, fuse, fuse_stack
from cfusion.errors import InputError
from cfusion.tiles import HALO, LEAST, crop_camera, crop_stack, crop_view, fuse_in_tiles

SHAPE = (150, 330)


def wavy_stack(seed=0):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    surface = 5 + 0.4 * np.sin(x / 30) * np.cos(y / 25) + 0.5 * (x > 170)
    depths = surface + rng.laplace(0, 0.1, (5, *SHAPE))
    depths[:, 40:44, 100:105] = np.nan
    camera = Pinhole(300.0, 300.0, 164.5, 74.5, SHAPE[1], SHAPE[0])
    return Stack(depths.astype(np.float32), camera=camera), surface


def running(stack, most_pixels, heard=None):
    """Fuse parts of a stack, as a device does that has room for so many pixels."""

    def run(window, method):
        rows, columns = window
        if (rows.stop - rows.start) * (columns.stop - columns.start) > most_pixels:
            raise MemoryError
        if heard is not None:
            heard.append((window, method))
        return fuse_stack(crop_stack(stack, window), method, backend="cpu")

    return run


@pytest.mark.parametrize("name", ["l1", "median", "adapt-hprior"])
def test_tiles_give_what_all_at_once_gives(name):
    stack, surface = wavy_stack()
    method, whole = METHODS[name], fuse_stack(stack, name, backend="cpu")
    found = fuse_in_tiles(SHAPE, method, running(stack, 36_000))
    assert found.parameters["tiles"] == 2
    known = ~np.isnan(whole.depth)
    assert np.array_equal(known, ~np.isnan(found.depth))
    assert np.array_equal(found.provenance, whole.provenance)
    error = np.abs(whole.depth - surface)[known].mean()
    apart = np.abs(found.depth - whole.depth)[known]
    assert apart.mean() < 0.05 * error
    seam = np.abs(found.depth - whole.depth)[:, 155:175]
    assert np.nanmean(seam) < 0.2 * error
    assert np.isnan(found.gap)
    assert found.depth.shape == found.sigma.shape == found.confidence.shape == SHAPE


def test_what_is_left_open_is_chosen_once():
    stack, _ = wavy_stack()
    heard = []
    found = fuse_in_tiles(SHAPE, METHODS["auto"], running(stack, 27_000, heard))
    assert found.parameters["tiles"] == len(heard) >= 3
    first, *others = [method.parameters() for _, method in heard]
    assert "alpha" not in first
    assert all(each["alpha"] == found.parameters["alpha"] for each in others)
    assert len({str(each) for each in others}) == 1


def test_every_pixel_is_in_one_core_and_parts_have_their_margin():
    stack, _ = wavy_stack()
    heard = []
    fuse_in_tiles(SHAPE, METHODS["median"], running(stack, 27_000, heard))
    columns = sorted((window[1].start, window[1].stop) for window, _ in heard)
    assert columns[0][0] == 0
    assert columns[-1][1] == SHAPE[1]
    assert all(before[1] - after[0] == 2 * HALO for before, after in zip(columns, columns[1:], strict=False))


def test_a_part_that_nobody_saw_stays_unknown_and_all_of_them_are_refused():
    stack, _ = wavy_stack()
    dark = Stack(np.where(np.arange(SHAPE[1]) < 100, stack.depths, np.nan))
    found = fuse_in_tiles(SHAPE, METHODS["median"], running(dark, 25_000))
    assert np.isnan(found.depth[:, 110:]).all()
    assert np.isfinite(found.depth[:, :90]).mean() > 0.99
    with pytest.raises(InputError, match="give maps with known depths"):
        fuse_in_tiles(
            SHAPE, METHODS["median"], running(Stack.unchecked(0 * stack.depths * np.nan, None, None, None), 25_000)
        )


def test_what_cannot_be_cut_any_smaller_is_too_large():
    stack, _ = wavy_stack()
    with pytest.raises(MemoryError):
        fuse_in_tiles(SHAPE, METHODS["median"], running(stack, LEAST * LEAST))


@pytest.mark.parametrize("camera", [Pinhole(40.0, 41.0, 30.0, 22.0, 64, 48), Orthographic(0.1, 30.0, 20.0, 64, 48)])
def test_a_part_of_a_camera_sees_the_same_points(camera):
    window = slice(10, 31), slice(5, 40)
    depth = np.random.default_rng(0).uniform(2, 3, (48, 64))
    part = crop_camera(camera, window)
    assert part.shape == (21, 35)
    np.testing.assert_allclose(part.back_project(depth[window]), camera.back_project(depth)[window], rtol=1e-12)


def test_a_part_of_the_reference_is_fused_from_whole_views():
    rng = np.random.default_rng(1)
    camera = Pinhole(60.0, 60.0, 39.5, 29.5, 80, 60)
    views = [
        View(
            3 + rng.laplace(0, 0.02, (60, 80)),
            camera,
            Pose(np.eye(3), np.array([0.05 * k, 0, 0])),
            rng.random((60, 80)),
        )
        for k in range(3)
    ]
    window = slice(12, 50), slice(20, 70)
    part = [crop_view(view, window) if k == 1 else view for k, view in enumerate(views)]
    assert part[1].image.shape == (38, 50)
    whole, cut = (fuse(each, "median", reference=1, backend="cpu") for each in (views, part))
    np.testing.assert_array_equal(cut.depth[5:-5, 5:-5], whole.depth[window][5:-5, 5:-5])


def numbered(shape, statuses=(), fits=lambda rows, columns: True):
    """Parts that hold the number of each pixel of the whole; the next status each."""
    whole = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    blank = fuse_stack(Stack(np.ones((1, 2, 2))), "median", backend="numpy")
    waiting = list(statuses)

    def run(window, method):
        part = whole[window]
        if not fits(*part.shape):
            raise MemoryError
        status = waiting.pop(0) if waiting else Status.converged
        maps = {
            "depth": part,
            "sigma": part + 0.25,
            "confidence": part + 0.5,
            "provenance": (part % 999).astype(np.int16),
        }
        return replace(blank, **maps, status=status, iterations=7)

    return whole, run


@pytest.mark.parametrize("shape", [(128, 128), (131, 128), (128, 131), (140, 500), (500, 260)])
def test_every_pixel_comes_from_its_own_place(shape):
    whole, run = numbered(shape, fits=lambda rows, columns: rows * columns < 60_000)
    found = fuse_in_tiles(shape, METHODS["median"], run)
    np.testing.assert_array_equal(found.depth, whole)
    np.testing.assert_array_equal(found.sigma, whole + 0.25)
    np.testing.assert_array_equal(found.confidence, whole + 0.5)
    np.testing.assert_array_equal(found.provenance, whole % 999)
    assert found.iterations == 7 * found.parameters["tiles"]
    assert (found.history, found.energies, found.views) == ((), {}, ())


@pytest.mark.parametrize("shape", [(100, 300), (300, 100)])
def test_parts_are_cut_across_their_longer_side_and_begin_in_one_corner(shape):
    """Cores and their margins: nearly square in the end, so that little is fused twice."""
    seen = []
    _, run = numbered(shape)
    fuse_in_tiles(shape, METHODS["median"], lambda window, method: (seen.append(window), run(window, method))[1])
    tall = shape[0] > shape[1]
    reach = [(0, 150 + HALO), (150 - HALO, 300)]
    assert [(w[0].start, w[0].stop) if tall else (w[1].start, w[1].stop) for w in seen] == reach
    assert all((w[1] if tall else w[0]) == slice(0, 100) for w in seen)


@pytest.mark.parametrize("two", permutations([*Status], 2))
def test_the_whole_ended_as_its_worst_part(two):
    """What is certified is better than what is not, and that better than what was cut short."""
    best_first = ["closed_form", "converged", "at_rounding", "partial_optimum", "settled", "iteration_limit"]
    found = fuse_in_tiles((128, 128), METHODS["median"], numbered((128, 128), two)[1])
    assert found.status.name == max((each.name for each in two), key=best_first.index)


@pytest.mark.parametrize(("side", "cut"), [(127, False), (128, True), (255, True)])
def test_a_side_is_cut_in_two_as_long_as_both_are_sixty_four_and_else_too_large(side, cut):
    _, run = numbered((90, side))
    if not cut:
        with pytest.raises(MemoryError):
            fuse_in_tiles((90, side), METHODS["median"], run)
        return
    assert fuse_in_tiles((90, side), METHODS["median"], run).parameters["tiles"] == 2


def test_parts_far_from_the_corner_are_not_cut_smaller():
    """Only what begins at the left has room: the right half is cut once, into 75 pixels each, and given up."""
    seen = []
    _, run = numbered((90, 300))

    def left_only(window, method):
        seen.append(window[1])
        if window[1].start:
            raise MemoryError
        return run(window, method)

    with pytest.raises(MemoryError):
        fuse_in_tiles((90, 300), METHODS["median"], left_only)
    assert [(part.start, part.stop) for part in seen] == [(0, 198), (102, 300), (102, 273)]


def test_a_wide_part_further_down_is_cut_across_its_width():
    seen = []
    _, run = numbered((300, 200))

    def upper_only(window, method):
        seen.append(window)
        if window[0].start and window[1] == slice(0, 200):
            raise MemoryError
        return run(window, method)

    fuse_in_tiles((300, 200), METHODS["median"], upper_only)
    assert [(part.start, part.stop) for _, part in seen] == [(0, 200), (0, 200), (0, 148), (52, 200)]


def test_what_no_part_found_is_unknown():
    """Unknown everywhere: no depth, no sigma, no confidence, no observation."""
    _, run = numbered((90, 300))

    def half(window, method):
        if window[1].start:
            raise InputError("nothing was observed")
        return run(window, method)

    found = fuse_in_tiles((90, 300), METHODS["median"], half)
    there = found.depth[:, 150:], found.sigma[:, 150:], found.confidence[:, 150:], found.provenance[:, 150:]
    assert np.isnan(there[0]).all()
    assert np.isnan(there[1]).all()
    assert (there[2] == 0).all()
    assert (there[3] == -1).all()


def test_a_part_has_all_that_the_whole_has():
    rng = np.random.default_rng(0)
    window = slice(3, 20), slice(7, 30)
    camera = Pinhole(40.0, 41.0, 15.0, 11.0, 40, 30)
    maps = {name: rng.random((30, 40)).astype(np.float32) for name in ("image", "confidence")}
    view = View(1 + rng.random((30, 40)), camera, Pose.identity(), **maps, name="a")
    part = crop_view(view, window)
    for name in ("depth", "image", "confidence"):
        np.testing.assert_array_equal(getattr(part, name), getattr(view, name)[window])
    assert (part.name, part.pose) == ("a", view.pose)
    stack = Stack.unchecked(
        rng.random((3, 30, 40)), rng.random((3, 30, 40)), camera, maps["image"], rng.random((3, 30, 40)) < 0.5
    )
    piece = crop_stack(stack, window)
    for name in ("depths", "weights", "filled"):
        np.testing.assert_array_equal(getattr(piece, name), getattr(stack, name)[:, *window])
    np.testing.assert_array_equal(piece.image, stack.image[window])
    assert piece.camera == part.camera
