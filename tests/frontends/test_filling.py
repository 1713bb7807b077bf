"""Holes are filled by the surface around, by where the image says that it ends, and by the farther surface else."""

import numpy as np
import pytest

from cfusion.errors import ShapeError
from cfusion.frontends.filling import WIDEST, by_image, filled, narrow
from cfusion.metrics import fill_background

HEIGHT, WIDTH = 12, 60
NEAR, FAR, EDGE = 40.0, 10.0, 30


def board(bright: float = 0.8, dark: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """A near board left of column EDGE before a far wall, and an image in which they look different; both noisy."""
    rng = np.random.default_rng(3)
    columns = np.broadcast_to(np.arange(WIDTH), (HEIGHT, WIDTH))
    image = np.where(columns < EDGE, bright, dark) + rng.normal(0, 0.005, (HEIGHT, WIDTH))
    return np.where(columns < EDGE, NEAR, FAR).astype(np.float32), np.clip(image, 0, 1).astype(np.float32)


@pytest.mark.parametrize("first", range(EDGE - 9, EDGE + 1, 3))
@pytest.mark.parametrize("flipped", [False, True])
def test_the_image_says_where_the_nearer_surface_ends(first: int, flipped: bool) -> None:
    truth, image = board()
    if flipped:
        truth, image = truth[:, ::-1], image[:, ::-1]
    holes = truth.copy()
    start = WIDTH - first - 9 if flipped else first
    holes[:, start : start + 9] = np.nan
    np.testing.assert_array_equal(filled(holes, image), truth)
    colour = np.repeat(image[..., None], 3, axis=2)
    np.testing.assert_array_equal(filled(holes, colour), truth)


def test_where_both_sides_look_alike_it_is_the_farther_one() -> None:
    truth, image = board(bright=0.5, dark=0.5)
    holes = truth.copy()
    holes[:, EDGE - 4 : EDGE + 4] = np.nan
    found = filled(holes, np.full_like(image, 0.5))
    np.testing.assert_array_equal(found, fill_background(holes))
    assert (found[:, EDGE - 4 : EDGE] == FAR).all()


def test_within_one_surface_a_line_joins_the_ends() -> None:
    plane = (20 + 0.08 * np.arange(WIDTH)[None, :] + 0.1 * np.arange(HEIGHT)[:, None]).astype(np.float32)
    holes = plane.copy()
    holes[:, 20:30] = np.nan
    np.testing.assert_allclose(filled(holes, np.zeros_like(plane)), plane, atol=1e-5)


def test_wide_holes_and_those_at_the_border_follow_kittis_rule() -> None:
    truth, image = board()
    holes = truth.copy()
    holes[:, : EDGE - 10] = np.nan
    holes[:, EDGE - 2 : EDGE - 1 + WIDEST] = np.nan
    assert len(narrow(holes).row) == 0
    np.testing.assert_array_equal(by_image(holes, image), holes)
    np.testing.assert_array_equal(filled(holes, image), fill_background(holes))


def test_what_was_known_stays_and_nothing_is_unknown() -> None:
    rng = np.random.default_rng(8)
    known = rng.uniform(1, 50, (HEIGHT, WIDTH)).astype(np.float32)
    holes = np.where(rng.random((HEIGHT, WIDTH)) < 0.6, np.float32(np.nan), known)
    found = filled(holes, rng.random((HEIGHT, WIDTH)).astype(np.float32))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[np.isfinite(holes)], known[np.isfinite(holes)])
    gaps = narrow(holes)
    assert (gaps.width <= WIDEST).all()
    assert np.isnan(holes[gaps.row, gaps.start + gaps.width - 1]).all()
    assert np.isfinite(holes[gaps.row, gaps.start + gaps.width]).all()


def test_an_image_of_another_size_is_named() -> None:
    with pytest.raises(ShapeError, match="of one size"):
        filled(np.ones((4, 5), np.float32), np.ones((4, 6), np.float32))
