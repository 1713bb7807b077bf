"""Holes are filled by the surface around, by where the image says that it ends, and by the farther surface else."""

import numpy as np
import pytest

from cfusion.errors import ShapeError
from cfusion.frontends import filling
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
    with pytest.raises(ShapeError, match="give the same size"):
        filled(np.ones((4, 5), np.float32), np.ones((4, 6), np.float32))


def one_by_one(disparity: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Narrow holes by the rule as it is told, one hole and one pixel at a time: up to 12 pixels; a line between ends
    within 1; else the split that makes grey values likeliest, each end as 3 x 5 pixels look, the nearer one 1 dearer.
    """
    out = disparity.astype(np.float64)
    height, width = disparity.shape
    for row in range(height):
        column = 0
        while column < width:
            stop = column
            while stop < width and np.isnan(disparity[row, stop]):
                stop += 1
            if 0 < stop - column <= 12 and column > 0 and stop < width:
                left, right = float(disparity[row, column - 1]), float(disparity[row, stop])
                inside = list(range(column, stop))
                if abs(left - right) <= 1:
                    for place in inside:
                        out[row, place] = left + (right - left) * (place - column + 1) / (stop - column + 1)
                else:
                    looks = [look(disparity, image, row, column - 5, left), look(disparity, image, row, stop, right)]
                    dearer = [float(left > right), float(right > left)]

                    def cost(place: int, end: int) -> float:
                        mean, variance = looks[end]  # noqa: B023
                        unlike = min((float(image[row, place]) - mean) ** 2 / variance, 9.0)  # noqa: B023
                        return unlike + float(np.log(variance)) + dearer[end]  # noqa: B023

                    splits = [
                        sum(cost(place, 0) for place in inside[:many]) + sum(cost(place, 1) for place in inside[many:])
                        for many in range(len(inside) + 1)
                    ]
                    many = int(np.argmin(splits))
                    out[row, inside[:many]] = left
                    out[row, inside[many:]] = right
            column = max(stop, column + 1)
    return out


def look(disparity: np.ndarray, image: np.ndarray, row: int, first: int, end: float) -> tuple[float, float]:
    """Mean and variance of what is of an end's surface in three rows and five columns."""
    height, width = disparity.shape
    grey = [
        float(image[i, j])
        for i in range(max(row - 1, 0), min(row + 2, height))
        for j in range(max(first, 0), min(first + 5, width))
        if abs(float(disparity[i, j]) - end) <= 1
    ]
    return float(np.mean(grey)), float(np.var(grey)) + 1e-4


@pytest.mark.parametrize("seed", range(6))
def test_holes_are_filled_by_the_rule_as_it_is_told(seed: int) -> None:
    """Surfaces of random widths and greys, ends from 0 to 3 pixels of disparity apart, holes of 1 to 14 pixels."""
    rng = np.random.default_rng(seed)
    disparity = np.zeros((8, 90), np.float32)
    image = np.zeros((8, 90))
    place = 0
    while place < 90:
        more = int(rng.integers(3, 12))
        disparity[:, place : place + more] = 8 + 0.5 * rng.integers(0, 7)
        image[:, place : place + more] = 0.5 + 0.02 * rng.integers(-6, 7)
        place += more
    image += rng.normal(0, 0.012, image.shape)
    disparity += rng.choice([0, 0.5], disparity.shape).astype(np.float32)
    for row in range(8):
        start = int(rng.integers(0, 4))
        while start < 90:
            stop = start + int(rng.integers(1, 15))
            disparity[row, start:stop] = np.nan
            start = stop + int(rng.integers(1, 9))
    expected = one_by_one(disparity, image)
    np.testing.assert_allclose(by_image(disparity, image), expected, atol=1e-5)
    assert np.isnan(disparity).sum() > np.isnan(expected).sum() > 0


def test_a_gap_has_known_ends_and_twelve_pixels_at_most() -> None:
    disparity = np.full((3, 40), 5, np.float32)
    disparity[0, 1:13] = np.nan  # twelve, from the second pixel on
    disparity[0, 26:39] = np.nan  # thirteen
    disparity[1, 27:39] = np.nan  # twelve, up to the last but one
    disparity[1, :3] = np.nan  # at the border
    disparity[2, 30:] = np.nan  # at the other
    disparity[2, 7] = np.nan
    assert [tuple(map(int, gap)) for gap in zip(*narrow(disparity), strict=True)] == [
        (0, 1, 12),
        (1, 27, 12),
        (2, 7, 1),
    ]


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_outermost_column_tells_what_an_end_looks_like_too(mirrored: bool) -> None:
    """The left end is two columns, of which the first is darker: what lies between their greys is of it."""
    disparity = np.full((3, 14), 10, np.float32)
    image = np.full((3, 14), 0.9)
    disparity[:, :2], image[:, 0], image[:, 1] = 20.0, 0.1, 0.3  # nearer, and so a little dearer
    disparity[:, 2:8], image[:, 2:8] = np.nan, 0.12
    if mirrored:
        disparity, image = disparity[:, ::-1].copy(), image[:, ::-1].copy()
    expected = one_by_one(disparity, image)
    np.testing.assert_allclose(by_image(disparity, image), expected, atol=1e-6)
    assert (expected[1] == 20).sum() == 8


@pytest.mark.parametrize(("row", "first", "rows", "columns"), [(0, 1, (0, 2), (1, 6)), (3, 6, (2, 4), (6, 8))])
def test_an_end_looks_as_what_lies_in_the_image(
    row: int, first: int, rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    """Three rows and five columns, or what of them is inside; nothing at the border counts twice."""
    grey = np.random.default_rng(7).random((4, 8))
    disparity = np.full((4, 8), 10.0, np.float32)
    mean, variance = filling._looks(disparity, grey, np.array([row]), np.array([first]), np.array([10.0], np.float32))
    seen = grey[slice(*rows), slice(*columns)]
    assert mean[0, 0] == pytest.approx(seen.mean())
    assert variance[0, 0] == pytest.approx(seen.var() + filling.LEAST_VARIANCE)
