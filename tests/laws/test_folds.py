"""What is left out: in every block a fifth of the views, each as often as any other; nothing is lost or doubled."""

from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Stack, kernels
from cfusion.auto.folds import leave_out
from cfusion.auto.halves import _splits, refit_pixels

NUMPY = kernels.load("numpy")


def stack_of(views: int, shape: tuple[int, int] = (64, 96), copies: tuple[int, ...] = ()) -> Stack:
    """Maps of noise of their own, but for those that are copies of the first; holes in each."""
    rng = np.random.default_rng(views)
    depths = 3 + rng.laplace(0, 0.1, (views, *shape))
    depths[rng.random(depths.shape) < 0.1] = np.nan
    for k in copies:
        depths[k] = depths[0]
    return Stack(depths.astype(np.float32), rng.uniform(0.5, 1, depths.shape).astype(np.float32))


@pytest.mark.parametrize("views", [3, 4, 5, 8, 10, 12, 20])
def test_a_fifth_of_the_views_in_every_block_each_in_its_turn(views: int) -> None:
    stack = stack_of(views)
    kept, out, _ = leave_out(stack, NUMPY)
    known, stays, held = (~np.isnan(each.depths) for each in (stack, kept, out))
    assert (stays ^ held == known).all()
    np.testing.assert_array_equal(np.where(stays, kept.depths, out.depths), stack.depths)
    at_once = max(1, round(0.2 * views))
    never = ~known.any(axis=(1, 2))
    assert not never.any()
    blocks = held[:, ::8, ::8] | held[:, 3::8, 3::8] | held[:, 5::8, 6::8]
    assert set(blocks.sum(axis=0).ravel().tolist()) <= {at_once - 1, at_once}  # a hole at all three is rare
    assert np.median(blocks.sum(axis=0)) == at_once
    share = held.sum(axis=(1, 2)) / known.sum(axis=(1, 2))
    np.testing.assert_allclose(share, at_once / views, atol=0.35 * at_once / views)


def test_what_is_held_out_weighs_what_it_weighed() -> None:
    stack = stack_of(5)
    kept, out, _ = leave_out(stack, NUMPY)
    for part in (kept, out):
        there = ~np.isnan(part.depths)
        np.testing.assert_array_equal(part.weights[there], stack.weights[there])


def test_copies_are_left_out_together() -> None:
    stack = stack_of(8, copies=(3, 6))
    _, out, _ = leave_out(stack, NUMPY)
    held = ~np.isnan(out.depths)
    np.testing.assert_array_equal(held[0], held[3])
    np.testing.assert_array_equal(held[0], held[6])
    assert (held[0] != held[1]).any()


@pytest.mark.parametrize("views", [1, 2])
def test_of_two_views_a_fifth_of_the_pixels(views: int) -> None:
    """A fit has to reach for these: no other view measured them."""
    stack = stack_of(views)
    kept, out, reach = leave_out(stack, NUMPY)
    assert reach > 0 == leave_out(stack_of(3), NUMPY)[2]
    known, stays, held = (~np.isnan(each.depths) for each in (stack, kept, out))
    assert (stays ^ held == known).all()
    assert held.sum() / known.sum() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(("shape", "side"), [((16, 90), 4), ((64, 64), 8), ((400, 300), 32)])
def test_blocks_grow_with_the_image_from_four_pixels_to_thirty_two(shape: tuple[int, int], side: int) -> None:
    """A block is left out as a whole: who is held out changes at its border only."""
    rng = np.random.default_rng(0)
    stack = Stack((3 + rng.laplace(0, 0.1, (5, *shape))).astype(np.float32))
    held = ~np.isnan(leave_out(stack, NUMPY)[1].depths)
    changes = np.flatnonzero((held[:, :, 1:] != held[:, :, :-1]).any(axis=(0, 1))) + 1
    inner = changes[changes < shape[1] // 2 - side]
    assert len(inner) > 0
    assert (np.diff(inner) % side == 0).all()
    assert np.diff(inner).min(initial=side) == side


def test_halves_hold_half_of_the_views_in_every_block_and_then_whole_views() -> None:
    """First every view is halved by blocks, those of even and odd turn changing places; then views stay together."""
    stack = stack_of(6, (96, 128))
    by_blocks, by_views = _splits(stack, NUMPY)
    known = ~np.isnan(stack.depths)
    one, other = by_blocks
    assert ((~np.isnan(one.depths)) ^ (~np.isnan(other.depths)) == known).all()
    here, there = (~np.isnan(by_blocks[0].depths[:, rows, :]) for rows in (slice(50, 78), slice(82, 94)))
    first, second = (part[:, :, 66:94].any(axis=(1, 2)) for part in (here, there))
    assert first.sum() == second.sum() == 3
    assert (first != second).all()  # the next block has the others
    maps = [each.tobytes() for half in by_views for each in half.depths]
    assert sorted(maps) == sorted(each.tobytes() for each in stack.depths)
    assert [half.views for half in by_views] == [3, 3]


def test_copies_of_one_map_are_no_halves() -> None:
    assert list(_splits(stack_of(3, copies=(1, 2)), NUMPY)) == []


@pytest.mark.parametrize("place", [(0, 0), (0, 1), (2, 3)])
def test_a_single_pixel_has_no_halves(place: tuple[int, int]) -> None:
    """Whichever half it falls into, the other one is empty, and nothing can be compared."""
    depths = np.full((1, 4, 5), np.nan, np.float32)
    depths[0][place] = 3.0
    fitted = SimpleNamespace(task=SimpleNamespace(stack=Stack(depths), backend=NUMPY))
    assert refit_pixels(fitted, np.ones((4, 5), np.bool_)) is None  # type: ignore[arg-type]
