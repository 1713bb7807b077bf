"""The parts of ELAS, each against its definition."""

from types import SimpleNamespace

import numpy as np
import pytest

from cfusion.frontends.elas import GAMMA, SIGMA, _away, _delaunay, _one_side, _sobel, elas_maps
from cfusion.frontends.stereo import match
from cfusion.kernels.cpu import elas as kernels


def shifted_descriptors(scenes: SimpleNamespace, shift: int = 7) -> tuple[np.ndarray, ...]:
    """Descriptors and textures of a pair in which everything is at one whole disparity."""
    texture, grid = scenes.waves(5, 2, 30.0, 4.0), scenes.pixel_grid(70, 110)
    left, right = (np.rint(255 * texture(grid + np.array([move, 0]))).astype(np.uint8) for move in (0, shift))
    ours, theirs = kernels.descriptors(*_sobel(left)), kernels.descriptors(*_sobel(right))
    return ours[0], theirs[0], ours[1], theirs[1]


def test_descriptors_hold_the_neighbours_responses_and_texture_sums_them() -> None:
    along = np.random.default_rng(0).integers(0, 256, (9, 11), dtype=np.uint8)
    down = np.random.default_rng(1).integers(0, 256, (9, 11), dtype=np.uint8)
    found, texture = kernels.descriptors(along, down)
    window = np.stack([along[2:7, 3:8].ravel(), down[2:7, 3:8].ravel()], axis=1)
    expected = np.delete(window, 12, axis=0).ravel()
    np.testing.assert_array_equal(found[4, 5], expected)
    assert texture[4, 5] == np.abs(expected.astype(int) - 128).sum()


def test_support_points_have_the_disparity_and_are_unique(scenes: SimpleNamespace) -> None:
    ours, theirs, texture, other = shifted_descriptors(scenes)
    grid = kernels.support_points(ours, theirs, texture, other, 5, 32, 200, 0.9)
    assert (grid >= 0).sum() > 60
    assert np.isin(grid, (-1, 7)).mean() > 0.99
    repeating = np.tile(ours[:, 20:36], (1, 6, 1))  # the same again every 16 pixels: no match is unique
    sums = np.tile(texture[:, 20:36], (1, 6))
    assert (kernels.support_points(repeating, repeating, sums, sums, 5, 40, 200, 0.9) < 0).mean() > 0.9
    assert (kernels.support_points(ours, theirs, 0 * texture, other, 5, 32, 200, 0.9) == -1).all()


def test_strays_are_those_nobody_agrees_with() -> None:
    grid = np.full((20, 20), -1, np.int32)
    grid[2:6, 2:6] = 30
    grid[4, 4] = 12
    grid[15, 15] = 30
    kept = kernels.without_strays(grid, 5, 5, 5)
    assert kept[4, 4] == kept[15, 15] == -1
    assert (kept >= 0).sum() == 15


@pytest.mark.parametrize("reach", [1, 2])
def test_who_agrees_is_asked_within_reach_on_every_side(reach: int) -> None:
    grid = np.random.default_rng(1).choice([-1, 10, 12, 15], (9, 11)).astype(np.int32)
    rows, columns = np.indices(grid.shape)
    expected = np.full_like(grid, -1)
    for row, column in np.argwhere(grid >= 0):
        near = (abs(rows - row) <= reach) & (abs(columns - column) <= reach) & (grid >= 0)
        if np.sum(near & (abs(grid - grid[row, column]) <= 2)) - 1 >= 3:
            expected[row, column] = grid[row, column]
    assert np.array_equal(kernels.without_strays(grid, reach, 2, 3), expected)


def test_triangles_cover_the_image_and_planes_pass_through_their_corners() -> None:
    """An affine disparity is its own piecewise linear interpolation."""
    rng = np.random.default_rng(2)
    height, width = 60, 90
    places = np.unique(np.column_stack([rng.integers(5, 85, 40), rng.integers(5, 55, 40)]), axis=0)
    corners = np.array([(u, v) for u in (0, width - 1) for v in (0, height - 1)])
    uv = np.concatenate([places, corners])
    points = np.column_stack([uv, 4 + 0.1 * uv[:, 0] - 0.05 * uv[:, 1]]).astype(np.float32)
    prior = kernels.planes(_delaunay(points, height, width), points, height, width)
    v, u = np.mgrid[:height, :width]
    np.testing.assert_allclose(prior, 4 + 0.1 * u - 0.05 * v, atol=1e-3)


def test_without_a_plane_every_disparity_is_searched() -> None:
    """The nearest match wins wherever it lies, listed or not: nothing is extrapolated beyond the support points."""
    rng = np.random.default_rng(5)
    ours = rng.integers(0, 256, (8, 60, 48), dtype=np.uint8)
    nothing = np.zeros((1, 3), np.int32), np.zeros((1, 3, 32), np.int32)
    unknown = np.full(ours.shape[:2], np.nan, np.float32)
    for shift in (0, 5, 31):
        theirs = np.roll(ours, -shift, axis=1)
        found = kernels.map_disparities(ours, theirs, unknown, *nothing, 20, -1, 0.01, np.zeros(25, np.float32), 0.0)
        np.testing.assert_allclose(found[3:-3, 3 + shift : -3], shift, atol=0.5)


@pytest.mark.parametrize("true", [0.0, 0.25, 1.5, 2.25, 6.75, 7.0, 7.25, 9.0])
def test_disparities_between_two_are_found_where_both_neighbours_are(true: float) -> None:
    """Of a ramp, whose costs are |d - true|; the first and the last one, of eight or up to the border, stay whole."""
    most, width = 8, 50
    ramp = np.tile(4 * np.arange(width)[None, :, None], (9, 1, kernels.DIMENSIONS))
    ours, theirs = ramp.astype(np.uint8), (ramp + 4 * true).astype(np.uint8)
    unknown, nothing = (
        np.full((9, width), np.nan, np.float32),
        (np.zeros((1, 3), np.int32), np.zeros((1, 3, most), np.int32)),
    )
    found = kernels.map_disparities(ours, theirs, unknown, *nothing, 20, -1, 0.01, np.zeros(25, np.float32), 0.0)
    for u in range(kernels.MARGIN, width - kernels.MARGIN):
        last = min(most, 1 + u - kernels.MARGIN) - 1
        wanted = true if 0.5 <= true <= last - 0.5 else min(round(true), last)
        assert found[4, u] == pytest.approx(wanted), u


def test_a_pattern_beside_a_blank_wall_says_nothing_about_it(scenes: SimpleNamespace) -> None:
    """Support points end where the pattern does; their planes are not continued, and the distance from them counts."""
    texture, grid = scenes.waves(5, 2, 30.0, 4.0), scenes.pixel_grid(90, 160)
    left, right = (texture(grid + np.array([move, 0])) for move in (0, 7))
    for image, end in ((left, 80), (right, 73)):
        image[:, end:] = 0.5
    found = elas_maps(*(np.rint(255 * each).astype(np.uint8) for each in (left, right)), 32)
    assert found.away[45, 40] < 6
    assert found.away[45, 140] > 50
    matched = match(left.astype(np.float32), right.astype(np.float32), "elas", 32)
    assert np.median(matched.disparity[10:-10, 20:70]) == pytest.approx(7, abs=0.3)
    assert matched.confidence[:, 110:].max() < 0.05 < matched.confidence[10:-10, 20:70].min()


def test_distances_are_those_from_the_nearest_point() -> None:
    rows, columns = np.array([3, 20]), np.array([5, 28])
    v, u = np.mgrid[:25, :40]
    expected = np.min([np.hypot(v - row, u - column) for row, column in zip(rows, columns, strict=True)], axis=0)
    np.testing.assert_allclose(_away(rows, columns, (25, 40)), expected, atol=1e-3)


@pytest.mark.parametrize(("row", "column", "disparity"), [(2, 3, 5), (0, 0, 0), (4, 6, 7)])
def test_support_points_are_listed_in_their_cell_and_those_beside_it(row: int, column: int, disparity: int) -> None:
    """With the disparities beside theirs; up to the border of the image, and of the disparities."""
    support = np.array([(20 * column + 19, 20 * row, disparity)], np.float32)
    counts, listed = kernels.nearby(support, 5, 7, 20, 8)
    beside = [abs(np.arange(count) - place) <= 1 for count, place in ((5, row), (7, column), (8, disparity))]
    np.testing.assert_array_equal(counts, np.outer(beside[0], beside[1]) * beside[2].sum())
    assert listed[row, column, : beside[2].sum()].tolist() == np.flatnonzero(beside[2]).tolist()


def test_map_disparities_minimise_the_energy() -> None:
    """Against a search over all disparities, on descriptors without any structure."""
    rng = np.random.default_rng(3)
    height, width, most, beta, sigma, gamma = 12, 50, 16, 0.0015, 1.0, 3.0
    ours, theirs = (rng.integers(0, 256, (height, width, 48), dtype=np.uint8) for _ in range(2))
    prior = (4 + 0.1 * np.mgrid[:height, :width][1]).astype(np.float32)
    support = np.array([(22, 5, 13)], np.float32)
    counts, listed = kernels.nearby(support, 1, 3, 20, most)
    assert counts.tolist() == [[3, 3, 3]]
    assert sorted(listed[0, 0, :3]) == [12, 13, 14]
    offset = np.arange(3 * kernels.TABLE_STEPS + 1) / kernels.TABLE_STEPS
    penalty = -np.log(gamma + np.exp(-(offset**2) / (2 * sigma**2))).astype(np.float32)
    found = kernels.map_disparities(ours, theirs, prior, counts, listed, 20, -1, beta, penalty, -np.log(gamma))
    for v, u in ((5, 30), (6, 20), (7, 44), (8, 10)):
        mu = prior[v, u]
        energies = {
            d: beta * np.abs(ours[v, u].astype(int) - theirs[v, u - d]).sum()
            - np.log(gamma + (np.exp(-((round(abs(d - mu) * 8) / 8) ** 2) / 2) if abs(d - mu) <= 3 else 0))
            for d in range(min(most, u - kernels.MARGIN + 1))
            if abs(d - mu) <= 3 or d in (12, 13, 14)
        }
        best = min(energies, key=energies.__getitem__)
        assert abs(found[v, u] - best) <= 0.5


def test_both_sides_agree(scenes: SimpleNamespace) -> None:
    """Left pixel u at disparity d is right pixel u - d, which finds the same d towards the other side."""
    ours, theirs, *_ = shifted_descriptors(scenes)
    prior = np.full(ours.shape[:2], 6.0, np.float32)
    counts, listed = np.zeros((4, 6), np.int32), np.zeros((4, 6, 32), np.int32)
    penalty = np.zeros(25, np.float32)
    left = kernels.map_disparities(ours, theirs, prior, counts, listed, 20, -1, 0.01, penalty, 0.0)
    right = kernels.map_disparities(theirs, ours, prior, counts, listed, 20, +1, 0.01, penalty, 0.0)
    inner = (slice(5, -5), slice(12, -12))
    np.testing.assert_allclose(left[inner], 7, atol=0.3)
    np.testing.assert_allclose(right[inner], 7, atol=0.3)


def test_what_does_not_move_has_disparity_zero() -> None:
    """The ends of the range are disparities too: 0, and the last before the border."""
    ours = np.random.default_rng(4).integers(0, 256, (8, 24, 48), dtype=np.uint8)
    nothing = np.zeros((1, 2), np.int32), np.zeros((1, 2, 9), np.int32)
    for shift, inner in ((0, np.s_[3:-3, 3:-3]), (3, np.s_[3:-3, 6:-3])):
        prior = np.full(ours.shape[:2], 1.5, np.float32)
        theirs = np.roll(ours, -shift, axis=1)
        found = kernels.map_disparities(ours, theirs, prior, *nothing, 20, -1, 0.01, np.zeros(25, np.float32), 0.0)
        np.testing.assert_allclose(found[inner], shift, atol=0.5)


def support_by_hand(ours, theirs, texture, v, u, sign, least, ratio, most):
    """The disparity of the least cost over four corners, unless texture, room or a rival forbids it; or -1."""
    room = u - 5 if sign < 0 else ours.shape[1] - 6 - u
    end = min(most, room + 1)
    if texture[v, u] < least or end < 4:
        return -1
    corners = [(dv, du) for dv in (-2, 2) for du in (-2, 2)]
    costs = [
        sum(np.abs(ours[v + dv, u + du].astype(int) - theirs[v + dv, u + sign * d + du]).sum() for dv, du in corners)
        for d in range(end)
    ]
    best = int(np.argmin(costs))
    rivals = [cost for d, cost in enumerate(costs) if abs(d - best) > 1]
    return -1 if any(costs[best] >= ratio * cost for cost in rivals) else best


@pytest.mark.parametrize("seed", range(3))
def test_support_points_by_their_rule_one_by_one(seed: int) -> None:
    """Images of noise, shifted by 3 and by 6; textures about the least one; borders, and what both sides agree on."""
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 256, (22, 40, kernels.DIMENSIONS)).astype(np.uint8)
    right = np.roll(left, -3, axis=1)
    right[11:] = np.roll(left, -6, axis=1)[11:]
    right = np.clip(right.astype(int) + rng.integers(-40, 41, right.shape), 0, 255).astype(np.uint8)
    textures = [rng.integers(8, 14, (22, 40)).astype(np.int32) for _ in range(2)]
    step, most, least, ratio = 2, 9, 9, 0.85
    found = kernels.support_points(left, right, *textures, step, most, least, ratio)
    assert found.shape == (11, 20)
    for row in range(11):
        for column in range(20):
            v, u, expected = row * step, column * step, -1
            if 5 <= v < 17 and 5 <= u < 35:
                d = support_by_hand(left, right, textures[0], v, u, -1, least, ratio, most)
                if d >= 0:
                    back = support_by_hand(right, left, textures[1], v, u - d, 1, least, ratio, most)
                    expected = d if back >= 0 and abs(back - d) <= 1 else -1
            assert found[row, column] == expected, (row, column)
    assert {3, 6} <= set(found.ravel().tolist())


def test_a_triangle_has_the_pixels_inside_it_and_no_others() -> None:
    """By the signs of three areas; those on an edge belong to it too."""
    points = np.array([(2, 1, 5), (17, 4, 8), (6, 13, 2)], np.float32)
    prior = kernels.planes(np.array([[0, 1, 2]], np.int32), points, 16, 20)
    v, u = np.mgrid[:16, :20]
    inside = np.ones((16, 20), np.bool_)
    for (x0, y0, _), (x1, y1, _) in zip(points, np.roll(points, -1, axis=0), strict=True):
        inside &= (x1 - x0) * (v - y0) - (y1 - y0) * (u - x0) >= 0
    np.testing.assert_array_equal(np.isfinite(prior), inside)
    slopes = np.linalg.solve(np.column_stack([points[:, :2], np.ones(3)]), points[:, 2])
    np.testing.assert_allclose(prior[inside], (slopes[0] * u + slopes[1] * v + slopes[2])[inside], atol=1e-4)


def test_the_table_of_the_prior_has_eight_entries_per_pixel_up_to_three_sigma() -> None:
    """Entry k is -log(gamma + exp(-(k / 8)^2 / (2 sigma^2))): the prior a fraction of a pixel beside the plane."""
    given: list[np.ndarray] = []
    watched = SimpleNamespace(**{**vars(kernels), "map_disparities": lambda *each: given.append(each[-2])})
    descriptors = np.zeros((40, 60, 48), np.uint8)
    support = np.array([[10.0, 10.0, 5.0], [45.0, 12.0, 5.0], [30.0, 30.0, 5.0]])
    _one_side(watched, descriptors, descriptors, support, -1, 32)
    (table,) = given
    assert len(table) == np.ceil(3 * SIGMA) * 8 + 1
    for k in (0, 1, 8, len(table) - 1):
        wanted = -np.log(GAMMA + np.exp(-((k / 8) ** 2) / (2 * SIGMA**2)))
        assert table[k] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("apart", [1, 2, 5])
def test_a_match_between_two_disparities_is_unique_and_one_of_two_places_is_not(apart: int) -> None:
    """Each point is the mean of two of the other image: of neighbours it lies between them, else it may be either."""
    theirs = np.random.default_rng(0).integers(0, 256, (40, 80, kernels.DIMENSIONS), dtype=np.uint8)
    either = [np.roll(theirs, shift, axis=1).astype(np.int32) for shift in (7, 7 + apart)]
    ours, texture = (sum(either) // 2).astype(np.uint8), np.full((40, 80), 1000, np.int32)
    costs = np.empty(16, np.int32)
    found = kernels._support_disparity(ours, theirs, texture, 20, 50, -1, 200, 0.9, costs)
    assert found in (7, 8) if apart == 1 else found == kernels.NOTHING
    four = np.ix_((18, 22), (48, 52))  # corners of the square around the point
    for disparity, cost in enumerate(costs):
        assert cost == np.abs(ours[four].astype(int) - np.roll(theirs, disparity, axis=1)[four]).sum()


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_plane_does_not_lead_beyond_the_image(sign: int) -> None:
    """Near its border fewer disparities are possible than the plane suggests; inside, those within the table."""
    rng = np.random.default_rng(2)
    height, width, most, mu = 9, 40, 12, 6
    ours, theirs = rng.integers(0, 256, (2, height, width, kernels.DIMENSIONS)).astype(np.uint8)
    prior = np.full((height, width), float(mu))
    nothing = np.zeros((1, 2), np.int32), np.zeros((1, 2, most), np.int32)
    penalty = np.zeros(3 * kernels.TABLE_STEPS + 1, np.float32)
    found = kernels.map_disparities(ours, theirs, prior, *nothing, 20, sign, 0.01, penalty, 0.0)
    found = found[kernels.MARGIN : height - kernels.MARGIN, kernels.MARGIN : width - kernels.MARGIN]
    possible = np.arange(found.shape[1]) if sign < 0 else np.arange(found.shape[1])[::-1]
    assert (np.isnan(found) == (possible < mu - 3)).all()
    known = ~np.isnan(found)
    assert (found <= np.minimum(possible, mu + 3.5))[known].all()
    assert (found >= mu - 3.5)[known].all()
    assert np.unique(np.round(found[known])).size > 4  # of random ones
