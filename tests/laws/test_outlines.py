"""Outlines that are exact stay: beside an edge the reference measured in place, others a fraction of a pixel off."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.auto import at_edges, belief, outlines
from cfusion.auto.belief import _unless_outlined
from cfusion.auto.evidence import Evidence
from cfusion.auto.first_surface import first_surface
from cfusion.auto.occlusion import observe
from cfusion.auto.outlines import (
    Tally,
    held_by_reference,
    measured_alike,
    of_reference,
    put_in_place,
    tallied,
    thin_parts,
)
from cfusion.auto.settings import Settings
from cfusion.solvers import PDHG
from cfusion.source import Posed

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(70.0, 70.0, 39.5, 29.5, 80, 60)
HOUSES = ((-4.0, -1.3, 12.0), (-0.4, 0.5, 9.0), (1.1, 5.0, 16.0))  # left and right end, and depth
FAR, NOISE, STEP = 40.0, 0.1, 0.35
COUNT, MIDDLE = 7, 3


def seen_from(across: float) -> np.ndarray:
    """The depth (H, W) of houses before a distant wall, from a camera that moved so far to the right."""
    y, x = (each.astype(float) for each in np.mgrid[: CAMERA.height, : CAMERA.width])
    x, y = (x - CAMERA.cx) / CAMERA.fx, (y - CAMERA.cy) / CAMERA.fy
    depth = np.full(x.shape, FAR)
    for left, right, near in HOUSES:
        house = (left < near * x + across) & (near * x + across < right) & (near * y > -2)
        depth = np.where(house, np.minimum(depth, near), depth)
    return depth


TRUTH = seen_from(0.0)


def views_of(maps: list[np.ndarray]) -> list[View]:
    return [
        View(each.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([STEP * (number - MIDDLE), 0.0, 0.0])))
        for number, each in enumerate(maps)
    ]


def noisy(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [seen_from(STEP * (number - MIDDLE)) + rng.normal(0, NOISE, TRUTH.shape) for number in range(COUNT)]


def jagged(depth: np.ndarray, seed: int) -> np.ndarray:
    """The map with rows that are a pixel or two to the left or right of their place, each row differently."""
    moves = np.random.default_rng(seed).integers(-2, 3, len(depth))
    return np.stack([np.roll(row, move) for row, move in zip(depth, moves, strict=True)])


def outlines_of(views: list[View], surface: np.ndarray = TRUTH) -> outlines.Outlines:
    """What `auto` finds of the outlines of the middle view, given a surface."""
    source = Posed.of(views, len(views) // 2, NUMPY)
    return observe(source, surface.astype(np.float32), Settings(), NUMPY).outlines


def exact(views: list[View], surface: np.ndarray = TRUTH) -> bool | None:
    return outlines_of(views, surface).exact


@pytest.mark.parametrize("count", [3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_a_distant_wall_beside_a_house_stays(count: int, seed: int) -> None:
    """The last column of pixels beside a house was taken for the house: its other views saw it there by rounding."""
    beside = count // 2
    views = views_of(noisy(seed))[MIDDLE - beside : MIDDLE + beside + 1]
    off = np.abs(fuse(views, min_confidence=0.0).depth - TRUTH)
    assert np.nanmax(off) < 1


@pytest.mark.parametrize("count", [3, 7])
def test_pixels_beside_exact_outlines_are_believed(count: int) -> None:
    """They have one view alone on their side; an odd pixel, which no neighbour is like, is still disputed."""
    maps, beside = noisy(0), count // 2
    for row, column in (spots := ((10, 20), (30, 26), (45, 12))):
        maps[MIDDLE][row, column] = 25.0
    result = fuse(views_of(maps)[MIDDLE - beside : MIDDLE + beside + 1], min_confidence=0.0)
    right = np.abs(result.depth - TRUTH) < 1
    assert np.mean(result.confidence[right] < 0.8) < 0.01
    assert all(right[spot] or result.confidence[spot] < 0.8 for spot in spots)


@pytest.mark.parametrize("seed", range(4))
def test_a_thing_that_only_the_reference_saw_is_not_taken_whole(seed: int) -> None:
    """It touches an edge, but is wider than an outline is displaced; else each reading took two pixels more of it.

    What is taken is known to be doubtful.
    """
    maps = noisy(seed)
    maps[MIDDLE][28:33, 34:39] = 5.0
    result = fuse(views_of(maps), min_confidence=0.0)
    off = np.abs(result.depth - TRUTH)[28:33, 34:39] > 1
    assert np.sum(off) < 16
    assert not (result.confidence[28:33, 34:39][off] >= 0.8).any()


def test_a_reference_that_its_front_end_doubts_decides_nothing() -> None:
    surface = TRUTH.astype(np.float32)
    for confidence, changed in ((1.0, True), (0.05, False)):
        maps, sure = noisy(0), np.ones_like(TRUTH)
        maps[MIDDLE][22:32, 42:44] = FAR  # on a house
        sure[22:32, 42:44] = confidence
        views = views_of(maps)
        views[MIDDLE] = replace(views[MIDDLE], confidence=sure)
        observed = observe(Posed.of(views, MIDDLE, NUMPY), surface, Settings(), NUMPY)
        assert observed.outlines.exact
        assert bool((observed.surface[22:32, 42:44] > 30).any()) == changed


def test_only_surfaces_that_the_reference_surely_measured_are_exempt() -> None:
    """A spot of two by two pixels is like itself, but no surface; a doubtful measurement is no outline."""
    depth = np.full((9, 9), 2.0, np.float32)
    depth[:, 5:] = 4.0
    depth[2:4, 1:3] = 3.0  # each has three like it
    noise, everywhere = np.full_like(depth, 0.01), np.ones(depth.shape, np.bool_)
    weight = np.ones_like(depth)
    weight[8], weight[7] = 0.4, 0.5  # at least half of the usual one
    step, bend = _unless_outlined(depth, noise, everywhere, weight, everywhere, np.ones_like(depth))
    assert step[2:4, 1:3].all()
    assert step[8].all()
    assert not step[7].any()
    assert not step[5, 3:7].any()  # the straight outline
    assert np.array_equal(bend > 0, step)


def test_a_spot_among_exact_outlines_is_as_sure_as_without_them() -> None:
    """Pixels of the outline are surer."""
    depth = np.full((9, 9), 2.0, np.float32)
    depth[:, 5:] = 4.0
    depth[2:4, 1:3] = 3.0
    support = np.ones((5, 9, 9), np.bool_)
    evidence = Evidence(support, ~support, np.zeros(support.shape, np.float32), support.astype(np.float32))
    noise = np.full_like(depth, 0.01)
    without, within = (belief.confidence(evidence, depth, noise, noise, NUMPY, outlines_of=of) for of in (None, 0))
    assert np.array_equal(within[2:4, 1:3], without[2:4, 1:3])
    assert (within[6, 4:6] > without[6, 4:6]).all()


@pytest.mark.parametrize(
    ("views", "support", "found"),
    [(2, 1, False), (3, 1, False), (5, 1, True), (5, 2, False), (11, 2, True), (11, 3, False)],
)
def test_half_of_the_others_deny_an_outline_three_at_most(views: int, support: int, found: bool) -> None:
    wrong, nothing = np.zeros((20, 40), np.bool_), np.zeros((20, 40), np.bool_)
    wrong[:, 18] = True
    weights = np.zeros((views, 20, 40), np.float32)
    weights[: support + 1] = 1.0  # the reference is the first
    relief = np.where(np.arange(40) // 4 % 2 == 0, 1.0, 0.0).astype(np.float32) * np.ones((20, 1), np.float32)
    reliefs = (relief,) * 5
    assert tallied(nothing, wrong, wrong, nothing, weights, 0, reliefs, np.float32(0.01), NUMPY).exact is found


def test_blobs_far_from_edges_are_no_exact_outlines() -> None:
    relief = np.zeros((20, 40), np.float32)
    relief[:, 20:] = 1.0
    alike, nothing, weights = np.zeros(relief.shape, np.bool_), np.zeros(relief.shape, np.bool_), np.ones((3, 20, 40))
    alike[:3, :2] = True
    rest = nothing, nothing, nothing, weights, 0, (relief,) * 5, np.float32(0.01), NUMPY
    assert tallied(nothing, *rest).exact
    assert not tallied(alike, *rest).exact


def test_without_the_reference_the_wall_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the law above can fail."""
    for limit in ("DENIED", "SURELY"):
        monkeypatch.setattr(outlines, limit, -1.0)
    off = np.abs(fuse(views_of(noisy(0)), min_confidence=0.0).depth - TRUTH)
    assert (off > 1).sum() > 20


@pytest.mark.parametrize("count", [2, 3, 5, 7])
def test_jagged_outlines_are_not_exact(count: int) -> None:
    """Half of the other views, three at most, that confirm the surface deny the reference."""
    maps, first = noisy(0), MIDDLE - count // 2
    assert exact(views_of(maps)[first : first + count])
    maps[MIDDLE] = jagged(maps[MIDDLE], 0)
    assert exact(views_of(maps)[first : first + count]) is False


def test_misplaced_outlines_are_jagged_or_of_errors_that_neighbours_share() -> None:
    maps, rng = noisy(0), np.random.default_rng(0)
    assert not outlines_of(views_of(maps)).misplaced
    alike = [
        seen_from(STEP * (k - MIDDLE)) + np.kron(rng.normal(0, NOISE, (15, 20)), np.ones((4, 4))) for k in range(7)
    ]
    assert not outlines_of(views_of(alike)).misplaced  # by none is an outline denied
    for each, misplaced in ((alike, True), (noisy(0), False)):  # by few
        each[MIDDLE][20:26] = jagged(each[MIDDLE], 0)[20:26]
        assert outlines_of(views_of(each)).misplaced == misplaced
    maps[MIDDLE] = jagged(maps[MIDDLE], 0)
    assert outlines_of(views_of(maps)).misplaced


def test_steps_of_misplaced_outlines_are_less_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `auto` finds them."""
    maps = noisy(0)
    maps[MIDDLE] = jagged(maps[MIDDLE], 0)
    found = fuse(views_of(maps), min_confidence=0.0, backend="numpy").confidence
    monkeypatch.setattr(belief, "STEP_SIZE", 0.0)
    without = fuse(views_of(maps), min_confidence=0.0, backend="numpy").confidence
    assert (found <= without).all()
    assert 0.02 < np.mean(found < without) < 0.5


def test_jagged_outlines_of_the_reference_give_way_to_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside an edge other views weigh little: the reference alone had more weight than six that deny it."""
    maps = noisy(0)
    maps[MIDDLE] = jagged(maps[MIDDLE], 0)

    def off() -> int:
        return int((np.abs(fuse(views_of(maps), min_confidence=0.0).depth - TRUTH) > 1).sum())

    found = off()
    monkeypatch.setattr(outlines, "JAGGED", np.inf)
    assert found < 0.6 * off()


def test_two_other_views_outvote_jagged_outlines_once_these_are_known_to_be_inexact() -> None:
    """In the first reading they may be out of place themselves."""
    maps = noisy(0)
    maps[MIDDLE] = jagged(maps[MIDDLE], 0)
    source = Posed.of(views_of(maps)[MIDDLE - 1 : MIDDLE + 2], 1, NUMPY)
    wrong, kept = np.abs(maps[MIDDLE] - TRUTH) > 3, []
    for told in (outlines.UNTOLD, outlines.Outlines(exact=False)):
        observed = observe(source, TRUTH.astype(np.float32), Settings(), NUMPY, outlines=told)
        assert observed.outlines.exact is False
        assert observed.stack.weights is not None
        kept.append(np.mean(observed.stack.weights[1][wrong] > 0))
    untold, inexact = kept
    assert untold > 0.9
    assert inexact < 0.5


def test_outlines_that_were_found_exact_are_never_jagged() -> None:
    """Views that are out of place deny more of them as the surface moves."""
    maps = noisy(0)
    maps[MIDDLE] = jagged(maps[MIDDLE], 0)
    source = Posed.of(views_of(maps), MIDDLE, NUMPY)
    for told, misplaced in ((outlines.UNTOLD, True), (outlines.Outlines(exact=True), False)):
        observed = observe(source, TRUTH.astype(np.float32), Settings(), NUMPY, outlines=told)
        assert observed.outlines.misplaced == misplaced


def test_few_denied_pixels_are_no_jagged_outlines_nor_are_blobs() -> None:
    """Views that are out of place deny up to 5 % of exact outlines; the outlines of blobs are those of nothing."""
    told = Tally(doubted=9, denied=9, displaced=6, beside=100, blobs=1, far=100)
    assert told.jagged
    assert not replace(told, displaced=5).jagged
    assert not replace(told, blobs=2).jagged
    assert not replace(told, beside=99).jagged
    assert not replace(told, blobs=0, far=99).jagged  # without pixels far from edges nobody can tell
    assert replace(told, doubted=2).doubtful
    assert not replace(told, doubted=1).doubtful
    assert not told.exact
    assert replace(told, denied=2).exact
    assert not replace(told, denied=3).exact
    assert not told.in_place
    assert replace(told, displaced=2).in_place
    assert not replace(told, displaced=2, blobs=2).in_place


def test_a_near_thing_is_decided_by_a_later_reading_that_is_clear() -> None:
    """A first surface may have edges out of place; a Kinect's outlines are denied again."""
    told = Tally(doubted=30, denied=30, displaced=30, beside=1000, blobs=0, far=1000)
    held = np.zeros((2, 2), np.bool_)

    def after(*denied: int, shared: bool = False) -> bool | None:
        known = outlines.UNTOLD
        for number in denied:
            known = known.read(replace(told, denied=number), False, held, shared=shared)
        return known.exact

    assert after(25) is True
    assert after(25, 60) is True  # decided once
    assert after(51) is False
    assert after(51, 0) is False
    assert after(26) is None
    assert after(26, 11) is None
    assert after(26, 51) is None
    assert after(26, 10) is True
    assert after(50, 20, 0) is True
    assert after(0, shared=True) is None
    known = outlines.UNTOLD.read(replace(told, denied=0, beside=99), False, held, shared=False)
    assert known.exact is False  # too few edges


def test_what_most_near_views_see_past_does_not_deny_the_reference() -> None:
    """Three views are enough to deny it, but not against three that see past the surface as it does."""
    for past, kept in ((3, True), (1, False)):
        maps = [TRUTH + np.random.default_rng(number).normal(0, NOISE, TRUTH.shape) for number in range(COUNT)]
        surface = TRUTH.copy()
        surface[2:8, 50:60] = 12.0  # before the wall
        for number in [each for each in range(COUNT) if each != MIDDLE][: COUNT - 1 - past]:
            maps[number][2:8, 50:60] = 12.0
        still = [View(each.astype(np.float32), CAMERA, Pose(np.eye(3), np.zeros(3))) for each in maps]
        observed = observe(Posed.of(still, MIDDLE, NUMPY), surface.astype(np.float32), Settings(), NUMPY)
        assert observed.stack.weights is not None
        assert bool((observed.stack.weights[MIDDLE][3:7, 51:59] > 0).all()) == kept, past


def test_what_the_reference_holds_has_the_mass_of_a_usual_pixel() -> None:
    """It makes up for what other views lack, and for no more; where it measured nothing it holds nothing."""
    weights = np.ones((4, 3, 3), np.float32)
    weights[1:, 0, 0] = 0  # the reference alone
    weights[2:, 0, 1] = 0  # and with another one
    weights[0, 0, 2] = 0
    held = np.zeros((3, 3), np.bool_)
    held[0] = held[1] = True
    usual = weights.sum() / 9
    assert np.array_equal(held_by_reference(weights, held, ~held, 0), weights)
    found = held_by_reference(weights, held, np.ones_like(held), 0)
    assert found[0, 0, 0] == pytest.approx(usual)
    assert found[0, 0, 1] == pytest.approx(usual - 1)
    assert found[0, 0, 2] == 0
    rest = np.ones((3, 3), np.bool_)
    rest[0] = False
    assert np.array_equal(found[:, rest], weights[:, rest])
    assert np.array_equal(found[1:], weights[1:])


def test_thin_parts_are_rods_and_gaps_but_neither_steps_nor_slopes() -> None:
    """In front of the surface, or behind it, two pixels to both sides, by twelve noise scales."""
    unit, scale = np.full((20, 30), 2.0, np.float32), np.float32(0.01)
    limit = float(outlines.STEP * 2.0 * 0.01)
    for wide, change in ((1, -0.5), (2, -0.5), (1, 0.5), (2, 0.5), (1, -1.01 * limit)):
        for turned in (False, True):
            surface = np.full((20, 30), 5.0, np.float32)
            part = np.zeros(surface.shape, np.bool_)
            part[(slice(None), slice(10, 10 + wide)) if turned else (slice(10, 10 + wide), slice(None))] = True
            surface[part] += change
            inner = np.zeros(surface.shape, np.bool_)
            inner[2:-2, 2:-2] = True
            found = thin_parts(surface, unit, scale)
            assert np.array_equal(found & inner, part & inner), (wide, change)
    step, slope = np.full((20, 30), 5.0, np.float32), np.arange(30, dtype=np.float32) + np.zeros((20, 1), np.float32)
    step[:, 15:] = 9.0
    shallow, blind = np.full((20, 30), 5.0, np.float32), np.full((20, 30), np.nan, np.float32)
    shallow[:, 10] -= 0.99 * limit
    blind[:, 10] = 3.0
    for none in (step, slope, shallow, blind):
        assert not thin_parts(none, unit, scale).any()


def test_thin_parts_of_the_surface_are_held_from_the_first_reading_on() -> None:
    """Beside their edges other views weigh next to nothing, so that smoothing took them, though all views agreed."""
    post = TRUTH.copy()
    post[:, 10:12] = 5.0
    maps = [post + np.random.default_rng(number).normal(0, NOISE, TRUTH.shape) for number in range(3)]
    still = [
        View(each.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([0.02 * k, 0.0, 0.0])))
        for k, each in enumerate(maps)
    ]
    observed = observe(Posed.of(still, 1, NUMPY), post.astype(np.float32), Settings(), NUMPY)
    weights = observed.stack.weights
    assert weights is not None
    assert np.median(weights[:, :, 10:12].sum(axis=0)) > 0.8 * np.median(weights.sum(axis=0))
    assert observed.outlines.held is not None
    assert observed.outlines.held[:, 10:12].all()


def test_what_the_front_end_of_the_reference_is_not_sure_of_is_not_held() -> None:
    """Its weight was raised to that of a usual pixel, however little confidence it has, and whatever others see."""
    post, sure = TRUTH.copy(), np.ones(TRUTH.shape)
    post[:, 10:12] = 5.0
    sure[:30, 10:12] = 0.1
    views = [
        View(post.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([0.02 * k, 0.0, 0.0])), confidence=sure)
        for k in range(3)
    ]
    weights = observe(Posed.of(views, 1, NUMPY), post.astype(np.float32), Settings(), NUMPY).stack.weights
    assert weights is not None
    assert np.median(weights[1, :30, 10:12]) < 0.2 * np.median(weights[1, 30:, 10:12])


def test_of_inexact_outlines_nothing_is_held_that_most_see_past() -> None:
    """A thin part of the surface may be a row of pixels that a sensor displaced."""
    post = TRUTH.copy()
    post[:, 10:12] = 5.0
    source = Posed.of(
        [
            View(each.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([0.02 * k, 0.0, 0.0])))
            for k, each in enumerate([TRUTH, TRUTH, TRUTH, post, TRUTH, TRUTH])
        ],
        3,
        NUMPY,
    )
    own = []
    for told in (outlines.Outlines(exact=True), outlines.Outlines(exact=False)):
        weights = observe(source, post.astype(np.float32), Settings(), NUMPY, outlines=told).stack.weights
        assert weights is not None
        own.append(np.median(weights[3, :, 10:12]))
    assert own[1] < 0.5 * own[0]


def test_outlines_that_were_put_in_place_are_held_in_the_next_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the surface has them, so nothing is wrong any more, and a fit would lose them to the other views.

    Not only where they are thin parts.
    """
    monkeypatch.setattr(at_edges, "thin_parts", lambda surface, unit, scale: surface < surface)
    source = Posed.of(views_of(noisy(0)), MIDDLE, NUMPY)
    surface, _ = first_surface(source, [None] * source.n_views, Settings(), PDHG(), NUMPY)
    first = observe(source, surface, Settings(), NUMPY)
    placed = np.abs(surface - first.surface) > 1
    assert placed.sum() > 20
    assert first.outlines.held is not None
    assert first.outlines.held[placed].all()
    weights = [
        observe(source, first.surface, Settings(), NUMPY, outlines=told).stack.weights
        for told in (first.outlines, outlines.Outlines(exact=True))
    ]
    held, lost = (np.median(each[MIDDLE][placed]) for each in weights if each is not None)
    assert held > 2 * lost


@pytest.mark.parametrize("count", [3, 5, 7])
def test_small_errors_of_the_reference_are_no_outlines(count: int) -> None:
    """They are alike and thin as an outline, but beside nothing that the surface has, and most others deny them."""
    maps, wrong = noisy(0), np.zeros(TRUTH.shape, np.bool_)
    for row, column in ((6, 8), (10, 30), (8, 60), (40, 12), (30, 36), (36, 65)):
        wrong[row, column - 1 : column + 2] = wrong[row - 1 : row + 2, column] = True
    maps[MIDDLE][wrong] *= 0.6
    first = MIDDLE - count // 2
    views = views_of(maps)[first : first + count]
    assert exact(views)
    found = fuse(views, reference=MIDDLE - first, min_confidence=0.0).depth
    assert np.mean(np.abs(found - TRUTH)[wrong] > 1) < 0.2


@pytest.mark.parametrize("only_in_reference", [True, False])
def test_the_outlines_of_what_moved_are_no_jagged_ones(only_in_reference: bool) -> None:
    """It covers whole squares, where displaced outlines are strips of a pixel or two."""
    maps = noisy(0)
    for number, each in enumerate(maps):
        if (number == MIDDLE) == only_in_reference:
            each[20:40, 30:50] = 6.0
    told = outlines_of(views_of(maps))
    assert not told.misplaced


def test_neither_noise_nor_little_confidence_makes_outlines_jagged() -> None:
    maps, rng = noisy(0), np.random.default_rng(1)
    maps[MIDDLE] = TRUTH + rng.normal(0, 10 * NOISE, TRUTH.shape)
    assert not outlines_of(views_of(maps)).misplaced
    maps[MIDDLE] = jagged(noisy(0)[MIDDLE], 0)
    views = views_of(maps)
    views = [replace(view, confidence=np.ones_like(TRUTH)) for view in views]
    views[MIDDLE] = replace(views[MIDDLE], confidence=np.where(np.abs(maps[MIDDLE] - TRUTH) > 2, 0.01, 1.0))
    assert outlines_of(views).exact is False
    assert not outlines_of(views).misplaced


def test_a_reference_that_is_wrong_in_blobs_has_no_exact_outlines() -> None:
    maps = noisy(0)
    maps[MIDDLE][20:32, 5:15] += 4  # on the first house
    maps[MIDDLE][40:50, 60:70] += 4
    assert exact(views_of(maps)) is False


def test_a_blind_reference_has_no_outlines() -> None:
    """Nothing is denied where nothing was measured."""
    maps = noisy(0)
    maps[MIDDLE] = np.full_like(TRUTH, np.nan)
    assert not exact(views_of(maps))


def test_a_single_odd_pixel_is_noise() -> None:
    """Two of its eight neighbours have to measure the same."""
    own = np.full((5, 5), 2.0, np.float32)
    own[2, 2] = 3.0
    wrong, unit, flat = own > 2.5, np.ones_like(own), np.full_like(own, 2)
    assert not measured_alike(wrong, own, flat, unit, np.float32(0.01)).any()
    own[2, 3] = 3.0
    assert not measured_alike(own > 2.5, own, flat, unit, np.float32(0.01)).any()
    own[1, 2] = 3.0
    assert measured_alike(own > 2.5, own, flat, unit, np.float32(0.01))[2, 2]
    own[1, 2] = own[2, 3] = 2.0
    flat[1:3, 3] = 3.0  # the reference measured 2 there, as the surface is
    assert not measured_alike(own > 2.5, own, np.full_like(own, 2), unit, np.float32(0.01)).any()
    assert measured_alike(own > 2.5, own, flat, unit, np.float32(0.01))[2, 2]


def test_the_reference_alone_is_believed_there_and_nowhere_else() -> None:
    """The surface takes its measurement over; the others are dropped; its weight is that of a usual pixel."""
    depths = np.full((3, 4, 4), 2.0, np.float32)
    depths[1, 1, 1] = 5.0
    weights, alike = np.ones_like(depths), depths[1] > 4
    surface, near = np.full((4, 4), 2.0, np.float32), np.full((4, 4), 3.0, np.float32)
    where, placed = put_in_place(alike, near, np.float32(0.1), surface, depths, 1, NUMPY)
    assert np.array_equal(where, alike)
    assert placed[1, 1] == 5
    assert (placed[~alike] == 2).all()
    kept, mass = of_reference(depths, weights, where, 1)
    assert np.isnan(kept[[0, 2], 1, 1]).all()
    assert mass[:, 1, 1].tolist() == [0, 3, 0]
    assert (mass[:, ~alike] == 1).all()
    assert np.array_equal(kept[:, ~alike], depths[:, ~alike])
    flat, _ = put_in_place(alike, np.zeros((4, 4), np.float32), np.float32(0.1), surface, depths, 1, NUMPY)
    assert not flat.any()  # far from edges the reference is as wrong as any view


def test_choices_are_judged_with_what_all_views_measured() -> None:
    """Thin parts beside edges would not be missed by what is left."""
    source = Posed.of(views_of(noisy(0)), MIDDLE, NUMPY)
    surface, _ = first_surface(source, [None] * source.n_views, Settings(), PDHG(), NUMPY)
    observed = observe(source, surface, Settings(), NUMPY)
    left_out = np.isfinite(observed.judging.depths) & ~np.isfinite(observed.stack.depths)
    assert observed.outlines.exact
    assert left_out.any()
    assert not left_out[MIDDLE].any()
    assert np.sum(np.abs(surface - TRUTH) > 1) > 20
    assert np.sum(np.abs(observed.surface - TRUTH) > 1) < 5
