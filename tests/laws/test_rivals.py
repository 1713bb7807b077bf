"""Where the reference has a hole or is wrong, the surface is what the other views agree on."""

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.auto.rivals import _misfit, _proposed, with_rivals
from cfusion.kernels.depth_noise import CONSTANT
from cfusion.source import Posed

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(140.0, 140.0, 59.5, 44.5, 120, 90)
SHAPE = (90, 120)
POST, WALL, HALF = 2.0, 3.0, 0.06  # a post, eight pixels wide, before a wall
NOISE, STEP = 0.01, 0.08  # of depth; between views
HOLE = np.s_[30:60, 45:75]


def seen_from(position: float) -> np.ndarray:
    """The depth that a camera at this position along x sees."""
    columns = np.broadcast_to(np.arange(SHAPE[1]), SHAPE)
    x = (columns - CAMERA.cx) / CAMERA.fx * POST + position
    return np.where(np.abs(x) < HALF, POST, WALL).astype(np.float32)


TRUTH = seen_from(0.0)


def views_of(count: int, **changes: np.ndarray) -> list[View]:
    """Views beside one another, the middle one at x = 0; `changes` replace the measurements of single views."""
    rng, middle, views = np.random.default_rng(1), count // 2, []
    for k in range(count):
        place = STEP * (k - middle)
        depth = seen_from(place) + rng.normal(0, NOISE, SHAPE).astype(np.float32)
        pose = Pose(np.eye(3), np.array([place, 0.0, 0.0]))
        views.append(View(changes.get(f"view_{k}", depth), CAMERA, pose))
    return views


def with_hole(count: int) -> list[View]:
    """The same, with a hole across the post in the reference's map."""
    holed = views_of(count)[count // 2].depth.copy()
    holed[HOLE] = np.nan
    return views_of(count, **{f"view_{count // 2}": holed})


def right(depth: np.ndarray) -> float:
    """The share of the pixels in the hole that have the true depth."""
    return float(np.mean(np.abs(depth - TRUTH)[HOLE] < 0.1))


@pytest.mark.parametrize("count", [3, 7])
def test_a_hole_across_a_post_is_seen_by_the_others(count: int) -> None:
    """Interpolated, it is a ramp between post and wall, at which no view is read rightly."""
    ramp = np.where(np.isnan(with_hole(count)[count // 2].depth), np.float32(2.5), TRUTH)
    mended = with_rivals(Posed.of(with_hole(count), count // 2, NUMPY), ramp, NUMPY)
    assert right(ramp) == 0
    assert right(mended) > 0.9
    outside = np.ones(SHAPE, np.bool_)
    outside[HOLE] = False
    assert np.array_equal(mended[outside], TRUTH[outside])
    result = fuse(with_hole(count), reference=count // 2, min_confidence=0.0, backend="numpy")
    assert right(result.depth) > 0.9


def test_what_the_reference_alone_measured_is_replaced() -> None:
    """A blob in front of the wall that six of seven views see through; the true surface is unchanged."""
    views = views_of(7)
    wrong = views[3].depth.copy()
    wrong[20:40, 85:105] = 2.6
    source = Posed.of(views_of(7, view_3=wrong), 3, NUMPY)
    blob = np.where(wrong == 2.6, np.float32(2.6), TRUTH)
    assert np.abs(with_rivals(source, blob, NUMPY) - TRUTH).max() < 6 * NOISE
    assert np.array_equal(with_rivals(source, TRUTH, NUMPY), TRUTH)


def test_a_rival_that_others_see_through_is_not_taken() -> None:
    """Two views measured something in front of the wall, where the reference has a hole; four see the wall."""
    views = with_hole(7)
    for k in (1, 5):
        depth = views[k].depth.copy()
        shift = round(STEP * (k - 3) * CAMERA.fx / 2.6)
        depth[HOLE[0], 20 - shift : 40 - shift] = 2.6
        views[k] = View(depth, CAMERA, views[k].pose)
    views[3] = View(np.where(np.arange(SHAPE[1]) < 45, np.float32(np.nan), views[3].depth), CAMERA, views[3].pose)
    mended = with_rivals(Posed.of(views, 3, NUMPY), TRUTH, NUMPY)
    assert np.array_equal(mended, TRUTH)


@pytest.mark.parametrize(("width", "taken"), [(3, False), (4, True), (9, True)])
def test_thin_holes_stay_as_they_are(width: int, taken: bool) -> None:
    """Beside an edge, a pixel belongs to either side: what is thinner than four pixels may be an edge."""
    views = views_of(7)
    edge = 64  # the first column of the wall beside the post
    holed, surface = views[3].depth.copy(), TRUTH.copy()
    holed[:, edge : edge + width], surface[:, edge : edge + width] = np.nan, 2.5
    mended = with_rivals(Posed.of(views_of(7, view_3=holed), 3, NUMPY), surface, NUMPY)
    right = np.abs(mended - TRUTH)[:, edge : edge + width] < 6 * NOISE
    assert right.mean() > 0.7 if taken else np.array_equal(mended, surface)


def test_background_is_no_hole() -> None:
    """Where the reference measured little of its image, the rest is background, and stays unknown."""
    views = views_of(7)
    few = np.where(np.arange(SHAPE[1]) < 50, views[3].depth, np.float32(np.nan))
    surface = np.where(np.isnan(few), few, TRUTH)
    mended = with_rivals(Posed.of(views_of(7, view_3=few), 3, NUMPY), surface, NUMPY)
    assert np.array_equal(mended, surface, equal_nan=True)


def test_measurements_of_little_confidence_propose_nothing() -> None:
    """Nor do they vote."""
    views = with_hole(5)
    ramp = np.where(np.isnan(views[2].depth), np.float32(2.5), TRUTH)
    doubted = [
        View(view.depth, CAMERA, view.pose, confidence=np.full(SHAPE, 1.0 if k == 2 else 1e-3, np.float32))
        for k, view in enumerate(views)
    ]
    assert np.array_equal(with_rivals(Posed.of(doubted, 2, NUMPY), ramp, NUMPY), ramp)


def test_two_views_propose_nothing() -> None:
    """One other view may be wrong as well as the reference."""
    views = with_hole(3)[:2]
    ramp = np.where(np.isnan(views[1].depth), np.float32(2.5), TRUTH)
    assert np.array_equal(with_rivals(Posed.of(views, 1, NUMPY), ramp, NUMPY), ramp)


def test_a_measurement_of_the_surface_a_pixel_further_is_no_contradiction() -> None:
    """Later surfaces have exact edges, beside which views are read wrongly."""
    views = views_of(7)
    source, shifted = Posed.of(views, 3, NUMPY), np.roll(TRUTH, 1, axis=1)
    shifted[:, :50] = TRUTH[:, :50]
    assert np.array_equal(with_rivals(source, shifted, NUMPY, within=1), shifted)


@pytest.mark.parametrize("jagged", [True, False])
def test_jagged_outlines_of_the_reference_are_mended(jagged: bool) -> None:
    """A reference whose edges are often elsewhere than the surface that others confirm is outvoted pixel by pixel.

    One whose edges are exact is not: there, a single pixel is where a view was read beside its place.
    """
    views = views_of(11)
    own, surface = views[5].depth.copy(), TRUTH.copy()
    wrong = np.zeros(SHAPE, np.bool_)
    rows = np.arange(10, 70 if jagged else 14)
    for edge in (54, 65):  # beside the post
        wrong[rows, edge] = True
    own[wrong] = POST
    wrong[1::2] = False  # in half of the rows the surface follows the reference
    surface[wrong] = POST
    mended = with_rivals(Posed.of(views_of(11, view_5=own), 5, NUMPY), surface, NUMPY)
    right = np.abs(mended - TRUTH)[wrong] < 0.1
    assert right.mean() > 0.5 if jagged else np.array_equal(mended, surface)


def test_a_view_that_looks_past_a_pillar_says_nothing_against_it() -> None:
    """A near pillar, wide baselines: most views see only the wall behind, some have a hole where the pillar is."""
    near, views = 0.8, []
    columns = np.broadcast_to(np.arange(SHAPE[1]), SHAPE)
    rng = np.random.default_rng(4)

    def seen(place: float) -> np.ndarray:
        x = (columns - CAMERA.cx) / CAMERA.fx * near + place
        return np.where(np.abs(x) < 0.06, near, WALL).astype(np.float32)

    truth = seen(0.0)
    for k in range(9):
        place = 0.15 * (k - 4)
        depth = seen(place) + rng.normal(0, NOISE, SHAPE).astype(np.float32)
        if k == 4:
            depth[HOLE] = np.nan
        views.append(View(depth, CAMERA, Pose(np.eye(3), np.array([place, 0.0, 0.0]))))
    mended = with_rivals(Posed.of(views, 4, NUMPY), truth, NUMPY)
    assert np.array_equal(mended, truth)


@pytest.mark.parametrize("confirmed", [True, False])
def test_what_neighbours_confirm_is_no_error_of_the_reference(confirmed: bool) -> None:
    """A thing that the reference and its two neighbours measured, and eight other views did not."""
    views = views_of(11)
    thing = np.s_[20:44, 85:109]
    for k in (4, 5, 6) if confirmed else (5,):
        depth = views[k].depth.copy()
        shift = round(STEP * (k - 5) * CAMERA.fx / 2.6)
        depth[thing[0], thing[1].start - shift : thing[1].stop - shift] = 2.6
        views[k] = View(depth, CAMERA, views[k].pose)
    surface = TRUTH.copy()
    surface[thing] = 2.6
    mended = with_rivals(Posed.of(views, 5, NUMPY), surface, NUMPY)
    assert np.mean(np.abs(mended - surface)[thing] > 0.1) < 0.1 if confirmed else np.abs(mended - TRUTH).max() < 0.1


def test_a_stray_in_the_sky_is_no_surface() -> None:
    """What the surface does not know, and one view alone measured."""
    views = views_of(5)
    sky = np.s_[:30]
    for k, view in enumerate(views):
        depth = view.depth.copy()
        depth[sky] = np.nan
        if k == 3:
            depth[5:25, 30:60] = 2.6
        views[k] = View(depth, CAMERA, view.pose)
    surface = TRUTH.copy()
    surface[sky] = np.nan
    assert np.array_equal(with_rivals(Posed.of(views, 2, NUMPY), surface, NUMPY), surface, equal_nan=True)


def test_the_ten_nearest_views_vote() -> None:
    """Wide views see edges from their other side."""
    ramp = np.where(np.isnan(with_hole(15)[7].depth), np.float32(2.5), TRUTH)
    every, some = (with_rivals(Posed.of(views, len(views) // 2, NUMPY), ramp, NUMPY) for views in _nested())
    assert np.array_equal(every, some)
    assert right(every) > 0.9


def _nested() -> tuple[list[View], list[View]]:
    views = with_hole(15)
    return views, views[2:13]


@pytest.mark.parametrize("without", [(0, 2, 6), (0, 2, 5, 6)], ids=["half", "third"])
def test_of_two_surfaces_past_each_other_the_reference_sees_the_nearer_one(without: tuple[int, ...]) -> None:
    """In its hole: others see the wall past the post, and three or two of six the post as well."""
    wall, views = TRUTH.copy(), with_hole(7)
    wall[HOLE] = WALL
    for k in without:
        views[k] = View(np.where(views[k].depth < 2.5, np.float32(np.nan), views[k].depth), CAMERA, views[k].pose)
    mended = with_rivals(Posed.of(views, 3, NUMPY), wall, NUMPY)
    assert right(wall) < 0.8
    assert right(mended) > 0.9


@pytest.mark.parametrize(
    ("depths", "own_share", "found"),
    [
        ([np.nan, 2.0, 2.02, 2.04, 3.0, 3.0, 3.0], 0.5, 2.02),  # the nearest that enough agree on, in their middle
        ([np.nan, 2.0, 2.02, 3.0, 3.0, 3.0], 0.5, 2.0),  # also if more agree on what is behind
        ([np.nan, 2.0, 2.02, 3.0, 3.01, 3.02, 3.03, 3.04], 0.5, 3.02),  # two of seven are fewer than half of five
        ([np.nan, 2.0, 3.0, 4.0, 5.0], 0.5, np.nan),  # no two agree
        ([3.0, 3.01, 2.0, 2.0, 2.0, 2.0], 0.5, 3.0),  # the reference's own, if a pair agrees with it
        ([3.0, 3.01, 2.0, 2.0, 2.0, 2.0], 1.0, 2.0),  # unless it takes as many as agree on anything
        ([3.0, 2.0, 2.0, 2.0, np.nan], 0.5, 2.0),
    ],
)
def test_a_rival_is_what_enough_views_agree_on(depths: list[float], own_share: float, found: float) -> None:
    points, fewest = np.array(depths, np.float32)[:, None], np.full(1, 2, np.float32)
    proposed = _proposed(points, 0, own_share, CONSTANT, np.float32(0.1), fewest, NUMPY)
    np.testing.assert_array_equal(proposed, np.float32([found]))


def test_a_view_that_measured_something_in_front_has_no_vote() -> None:
    away, one = np.array([-9.0, -1.0, 1.0, 9.0, np.nan], np.float32)[:, None, None], np.ones((5, 1, 1), np.float32)
    misfit, votes = _misfit(away, one, np.float32(0))
    np.testing.assert_array_equal(misfit.ravel(), [2, 1, 1, 4, 2])
    np.testing.assert_array_equal(votes.ravel(), [0, 1, 1, 1, 0])
