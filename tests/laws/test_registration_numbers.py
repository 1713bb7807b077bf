"""The parts of registration, each against what it is defined to be: effects, fits, certainty, expectation, places."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, kernels
from cfusion.auto import registration
from cfusion.auto.registration import FAR, NEAR, USUAL, Reach, _expected, _most, _off, _places, _told
from cfusion.geometry.pose import turned_by
from cfusion.kernels.depth_noise import CONSTANT
from cfusion.source import Motions

CAMERA = Pinhole(60.0, 70.0, 30.5, 21.0, 64, 48)
NUMPY = kernels.load("numpy")
EVERYTHING = Reach(0.0, -1.0, 0.0)
TILT = np.array([0.3, -0.2])  # z = 4 + 0.3 x - 0.2 y, in the camera's frame


def _effects(places, view_from_reference, reach):
    """Of one view (7, n), along the reference's rays; NaN where it is not sure."""
    turn, shift = view_from_reference[:, :3], view_from_reference[:, 3]
    about = registration._about(-(turn.T @ shift)[None], np.array([places.scaled]))[0]
    sure = registration._sure(places, view_from_reference[None], reach)[0]
    return np.where(sure, about @ places.effect / (places.normal * places.ray).sum(0), np.nan)


def _fit(residual, effect, block, share, least):
    """Of one view, and the same whatever other views are fitted with it."""
    residual = np.where(np.isfinite(effect[0]), residual, np.nan)
    effect, own = np.nan_to_num(effect), np.eye(len(effect))
    blocks = block, block // 4
    alone = registration._fits(residual[None], effect, own[None], blocks, share, least)
    three = np.stack([np.full_like(residual, np.nan), residual, 2 * residual])
    together = registration._fits(three, effect, np.stack([own] * 3), blocks, share, least)
    for one, many in zip(alone, together, strict=True):
        np.testing.assert_allclose(many[1], one[0], rtol=1e-9, atol=1e-15)
    return tuple(each[0] for each in alone)


def plane(camera: Pinhole | Orthographic) -> np.ndarray:
    """(h, w) depths of the tilted plane."""
    rows, columns = np.indices(camera.shape)
    if isinstance(camera, Orthographic):
        x, y = (columns - camera.cx) * camera.pixel_size, (rows - camera.cy) * camera.pixel_size
        return 4 + TILT[0] * x + TILT[1] * y
    x, y = (columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy
    return 4 / (1 - TILT[0] * x - TILT[1] * y)


@pytest.mark.parametrize("camera", [CAMERA, Orthographic(0.05, 30.5, 21.0, 64, 48)])
@pytest.mark.parametrize("every", [1, 3])
def test_places_of_a_plane(camera, every):
    depth = plane(camera)
    places = _places(camera.numbers, depth[::every, ::every], every, 1e-9)
    assert places.smooth.all()
    np.testing.assert_allclose(places.point.T, camera.back_project(depth)[::every, ::every].reshape(-1, 3), atol=1e-12)
    normal = np.array([*TILT, -1]) / np.sqrt(1 + TILT @ TILT)
    np.testing.assert_allclose(np.abs(normal @ places.normal), 1, rtol=1e-9)
    along = places.point / depth[::every, ::every].ravel() if isinstance(camera, Pinhole) else np.eye(3)[:, 2:]
    np.testing.assert_allclose(places.ray - along, 0, atol=1e-12)
    for motion in np.eye(6):  # of a point by w x X + t, along the normal
        moved = np.cross(motion[:3], places.point.T) + motion[3:]
        np.testing.assert_allclose(motion @ places.effect[:6], (moved * places.normal.T).sum(1), atol=1e-9)


def test_blocks_are_squares_of_neighbours_about_as_many_as_wanted():
    camera = Pinhole(100.0, 100.0, 64.0, 48.0, 128, 96)
    places = _places(camera.numbers, plane(camera), 1, 1e-9)
    rows, columns = np.indices(camera.shape).reshape(2, -1)
    block, wide = places.blocks
    names, sizes = np.unique(block, return_counts=True)
    assert 100 <= len(names) <= 225
    for name in names:
        inside = block == name
        assert len(np.unique(wide[inside])) == 1
        assert (wide == wide[inside][0]).sum() <= 4 * sizes.max()
        assert max(np.ptp(rows[inside]), np.ptp(columns[inside])) <= 9
        assert sizes[names == name] == (np.ptp(rows[inside]) + 1) * (np.ptp(columns[inside]) + 1)


def test_places_are_where_the_surface_bends_no_more_than_four_times_the_usual_or_than_noise():
    camera = Orthographic(1.0, 0.0, 0.0, 200, 8)
    x = np.arange(200) / 200.0
    depth = np.broadcast_to(5 + x**5, camera.shape)  # bends by 20 x^3: usually by an eighth of the most
    for noise, last in ((0.0, 0.5), (0.7 * 20 / 200**2, 0.7), (1.0, 2.0)):
        smooth = _places(camera.numbers, depth, 1, noise).smooth[4]
        np.testing.assert_array_equal(smooth[3:-3], (x**3 <= last)[3:-3] if noise else smooth[3:-3])
        assert abs(smooth.mean() - min(last, 1) ** (1 / 3)) < 0.03


def test_no_place_touches_a_step_or_what_is_unknown():
    depth = plane(CAMERA)
    depth[:, 30:] += 1.0
    depth[10, 10] = np.nan
    smooth = _places(CAMERA.numbers, depth, 1, 0.01).smooth
    assert not smooth[:, 29:31].any()
    assert not smooth[9:12, 10].any()
    assert not smooth[10, 9:12].any()
    assert smooth.mean() > 0.85


@pytest.mark.parametrize("camera", [CAMERA, Orthographic(0.05, 30.5, 21.0, 64, 48)])
def test_the_effect_of_a_motion_is_how_far_the_plane_moves_along_the_ray(camera):
    """By differences: the plane moves with the view's points, or grows from the view's camera."""
    depth, small = plane(camera), 1e-6
    places = _places(camera.numbers, depth, 1, 1e-9)
    view_from_reference = Pose(turned_by(np.array([0.1, -0.2, 0.05])), np.array([0.2, -0.1, 0.3]))
    effects = _effects(places, view_from_reference.matrix()[:3], EVERYTHING)
    normal, point, ray = places.normal.T, places.point.T, places.ray.T
    centre = view_from_reference.inverse().translation
    for number, (*motion, growth) in enumerate(np.eye(7)):
        moved = Pose(turned_by(small * np.array(motion[:3])), small * np.array(motion[3:]))
        there, across = moved.apply(point), normal @ moved.rotation.T
        there = there + small * growth * (there - centre) * (camera is CAMERA)  # heights have no scale
        found = ((there - point) * across).sum(1) / (ray * across).sum(1) / small
        np.testing.assert_allclose(effects[number], found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reach", [NEAR, FAR])
def test_what_is_seen_flat_or_from_elsewhere_or_from_behind_tells_nothing(reach):
    """Cosines of the view's ray with the normal, and of both rays: just above, and just below what is looked at."""
    camera = Pinhole(5000.0, 5000.0, 1.0, 1.0, 3, 3)
    for cosine, tells in ((reach.flattest + 0.02, True), (reach.flattest - 0.02, False)):
        slope = np.tan(np.arccos(cosine))
        columns = np.indices(camera.shape)[1]
        depth = 4 / (1 - slope * (columns - 1) / 5000)
        effects = _effects(_places(camera.numbers, depth, 1, 1.0), np.eye(3, 4), reach)
        assert np.isfinite(effects).all() == np.isfinite(effects).any() == tells
    level = _places(camera.numbers, np.full((3, 3), 4.0), 1, 1.0)
    for cosine, tells in ((reach.widest + 0.02, True), (reach.widest - 0.02, False)):
        aside = 4 * np.tan(np.arccos(cosine))  # a camera that far beside, turned to the point, sees it at that angle
        angle = np.arccos(cosine)
        turn = turned_by(np.array([0.0, angle, 0.0]))
        pose = Pose(turn, turn @ np.array([-aside, 0.0, 0.0]))
        seen = _effects(level, pose.matrix()[:3], Reach(0.0, reach.widest, 0.0))
        assert np.isfinite(seen).all() == np.isfinite(seen).any() == tells
    behind = np.concatenate([np.eye(3), [[0.0], [0.0], [-5.0]]], axis=1)
    assert np.isnan(_effects(level, behind, EVERYTHING)).all()
    backwards = np.concatenate([np.diag([-1.0, 1.0, -1.0]), [[0.0], [0.0], [9.0]]], axis=1)
    assert np.isnan(_effects(level, backwards, EVERYTHING)).all()


def problem(seed: int, noise: float, alike: float = 0.0, reach: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noise of pixels, of which some is shared by each of the blocks, or by some together; effects; blocks."""
    rng, blocks = np.random.default_rng(seed), 200
    block = np.repeat(np.arange(blocks), 10)
    effect = np.repeat(rng.normal(size=(6, blocks // reach)), 10 * reach, axis=1)
    shared = alike * np.repeat(rng.normal(size=blocks // reach), 10 * reach)
    return noise * (rng.normal(size=len(block)) + shared), effect, block


MOTION = np.array([3.0, -2.0, 1.0, 2.0, -1.0, 3.0]) * 1e-3


def test_a_motion_is_found_and_its_effect_is_told_in_sizes_of_what_is_left():
    residual, effect, block = problem(0, 1e-4)
    step, _, square = _fit(residual - MOTION @ effect, effect, block, 0.2, 0.0)
    np.testing.assert_allclose(step, MOTION, atol=2e-5)
    size = np.median(np.abs(residual))
    assert np.sqrt(MOTION @ square @ MOTION) == pytest.approx(np.sqrt(((MOTION @ effect) ** 2).mean()) / size, rel=0.02)
    square = _fit(residual - MOTION @ effect, effect, block, 0.2, 10 * size)[2]
    assert np.sqrt(MOTION @ square @ MOTION) == pytest.approx(
        np.sqrt(((MOTION @ effect) ** 2).mean()) / (10 * size), rel=1e-6
    )


@pytest.mark.parametrize("alike", [0.0, 2.0])
def test_the_covariance_is_that_of_many_draws_also_of_noise_that_neighbours_share(alike):
    fits = []
    for seed in range(150):
        residual, effect, block = problem(seed, 1e-3, alike=alike)
        fits.append(_fit(residual - MOTION @ effect, effect, block, 0.2, 0.0)[:2])
    steps, covariances = (np.stack(each) for each in zip(*fits, strict=True))
    told = np.trace(covariances.mean(axis=0))
    assert told == pytest.approx(steps.var(axis=0).sum(), rel=0.2)
    assert np.abs(steps.mean(axis=0) - MOTION).max() < 4 * np.sqrt(told / 6 / 150)


@pytest.mark.parametrize("reach", [4, 10])
def test_errors_that_reach_beyond_a_block_make_a_motion_less_sure(reach):
    """A network errs alike over a fifth of the image: by blocks alone, its errors would be motions beyond doubt."""
    fits = []
    for seed in range(100):
        residual, effect, block = problem(seed, 1e-3, alike=2.0, reach=reach)
        fits.append(_fit(residual, effect, block, 0.2, 0.0)[:2])
    steps, covariances = (np.stack(each) for each in zip(*fits, strict=True))
    told = np.trace(covariances.mean(axis=0)) / steps.var(axis=0).sum()
    assert 0.6 < told < 5  # by single blocks: a quarter, a tenth


def test_what_is_nine_sizes_off_has_no_say_and_what_is_four_off_has():
    residual, effect, block = problem(1, 1e-4)
    clean = _fit(residual, effect, block, 0.2, 0.0)[0]
    size = np.median(np.abs(residual))
    loud = np.arange(len(residual)) % 20 == 0
    for sizes, heard in ((9, False), (4, True)):
        pulled = np.where(loud, sizes * size * np.sign(effect[0]), residual)
        away = np.abs(_fit(pulled, effect, block, 0.2, 0.0)[0] - clean).max()
        assert (away > 5e-6) == heard


def test_what_nothing_tells_is_not_moved_and_all_of_it_stays_possible():
    """Along a direction without effect the step is none, and its covariance what poses may be off at most."""
    residual, effect, block = problem(2, 1e-4)
    effect[3] = 0
    step, covariance, _ = _fit(residual - MOTION @ effect, effect, block, 0.2, 0.0)
    assert abs(step[3]) < 1e-12
    assert np.sqrt(covariance[3, 3]) == pytest.approx(0.02, rel=0.05)
    assert np.sqrt(covariance[0, 0]) < 1e-4
    silent = _fit(np.zeros_like(residual), effect, block, 0.2, 0.0)
    assert np.isinf(silent[1]).all()  # without any noise nothing is known about it
    assert not silent[0].any()


@pytest.mark.parametrize(
    ("known", "share", "enough"), [(155, 0.0, True), (145, 0.0, False), (900, 0.5, False), (1100, 0.5, True)]
)
def test_with_too_few_pixels_a_view_stays_where_it_is(known, share, enough):
    residual, effect, block = problem(3, 1e-4)
    seen = np.random.default_rng(0).permutation(len(residual)) < known
    for one, other in ((np.where(seen, residual, np.nan), effect), (residual, np.where(seen, effect, np.nan))):
        step, covariance, square = _fit(one, other, block, share, 0.0)
        assert np.isfinite(covariance).all() == step.any() == square.any() == enough


def spread(seed: int, views: int = 6, size: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """Motions and their covariances."""
    rng = np.random.default_rng(seed)
    roots = size * rng.normal(size=(views, 6, 6))
    return 3 * size * rng.normal(size=(views, 6)), roots @ roots.transpose(0, 2, 1) + size**2 * np.eye(6)


@pytest.mark.parametrize("seed", range(4))
def test_off_is_as_sure_as_the_reference_and_three_quarters_of_the_others_say(seed):
    motions, covariances = spread(seed)
    covariances[4] = np.inf  # could not be looked at
    off = _off(motions, covariances, 1)
    apart = lambda j, k: motions[j] - motions[k]  # noqa: E731
    told = lambda j, k: apart(j, k) @ np.linalg.inv(covariances[j] + covariances[k]) @ apart(j, k)  # noqa: E731
    for k in (0, 2, 3, 5):
        others = sorted(told(k, j) for j in (0, 1, 2, 3, 5) if j != k)  # the least of four; three are at least as sure
        assert off[k] == pytest.approx(min(told(1, k), others[0]), rel=1e-9)
    assert off[1] == off[4] == 0
    many, wide = spread(seed, 9)
    told_many = [(many[0] - m) @ np.linalg.inv(wide[0] + w) @ (many[0] - m) for m, w in zip(many, wide, strict=True)]
    assert _off(many, wide, 8)[0] == pytest.approx(min(told_many[8], sorted(told_many[1:])[1]), rel=1e-9)


@pytest.mark.parametrize(("size", "scale"), [(USUAL[1], USUAL[1]), (USUAL[5], USUAL[3]), (USUAL[4], USUAL[1])])
def test_a_motion_is_the_expected_one_given_how_far_off_poses_and_scales_are(size, scale):
    """The posterior mean at the sizes under which the motions are likeliest; of the reference and the unknown, none."""
    rng = np.random.default_rng(1)
    _, covariances = spread(2, 40, size / 10)
    covariances = np.pad(covariances, ((0, 0), (0, 1), (0, 1)))
    covariances[:, 6, 6] = (size / 20) ** 2
    motions = size * rng.normal(size=(40, 7))
    motions[:, 6] = scale * np.where(np.arange(40) % 2, 1, -1)
    covariances[7] = np.inf
    found = _expected(motions, covariances, 3, np.inf)
    assert not found[[3, 7]].any()
    others = [k for k in range(40) if k not in (3, 7)]

    usual = np.diag([size**2] * 6 + [scale**2])
    for k in others:
        whole = covariances[k] + covariances[3] + usual
        np.testing.assert_allclose(found[k], usual @ np.linalg.inv(whole) @ motions[k], rtol=1e-6)


def test_scales_that_are_off_by_little_are_left():
    """By 0.1 %, however surely."""
    _, covariances = spread(2, 40, 1e-4)
    covariances = np.pad(covariances, ((0, 0), (0, 1), (0, 1)))
    covariances[:, 6, 6] = 1e-8
    motions = np.concatenate([1e-3 * np.random.default_rng(5).normal(size=(40, 6)), np.full((40, 1), 1e-3)], axis=1)
    assert not _expected(motions, covariances, 3, np.inf)[:, 6].any()
    motions[:, 6] = 4e-3
    assert _expected(motions, covariances, 3, np.inf)[0, 6] == pytest.approx(4e-3, rel=0.1)


def test_scales_that_chance_explains_are_none():
    """Poses are off, and the numbers of the scale by no more than their covariance says."""
    rng, size = np.random.default_rng(5), USUAL[2]
    _, covariances = spread(2, 40, size / 10)
    covariances = np.pad(covariances, ((0, 0), (0, 1), (0, 1)))
    covariances[:, 6, 6] = size**2
    motions = size * rng.normal(size=(40, 7))
    found = _expected(motions, covariances, 3, np.inf)
    assert np.abs(found[:, 6]).max() < 0.1 * size
    assert np.abs(found[:, :6]).max() > size


def test_sizes_of_motions_are_halves_of_one_another_from_the_largest_on():
    """Any size from the least that matters to the largest that is moved is within a factor of two of one of them."""
    assert all(one == 2 * other for one, other in pairwise(USUAL))
    assert registration.LARGEST / 2 < USUAL[0] <= registration.LARGEST
    assert USUAL[-1] < np.radians(0.01)


@pytest.mark.parametrize(
    ("moved", "of", "most"), [(0, 1, False), (1, 3, True), (1, 4, False), (2, 5, True), (2, 6, False), (3, 6, True)]
)
def test_nobodys_pose_is_exact_where_half_of_the_others_are_off(moved, of, most):
    views = np.arange(8)
    assert _most(views < moved, views < of) is most


def told(monkeypatch, views, reach=NEAR, samples=10_000):
    """What a look says about views with (motion along x, how surely it is off, effect in sizes of what is left)."""
    size = np.array([max(abs(motion), 1e-3) for motion, _, _ in views])
    motions = np.array([[0.0, 0.0, 0.0, motion, 0.0, 0.0, 0.0] for motion, _, _ in views])
    fits = (
        motions,
        np.stack([np.full((7, 7), np.inf) if off is None else np.eye(7) * 1e-9 for _, off, _ in views]),
        np.stack([np.eye(7) * (worth / each) ** 2 for each, (_, _, worth) in zip(size, views, strict=True)]),
    )
    monkeypatch.setattr(registration, "_fits", lambda *given: fits)
    monkeypatch.setattr(registration, "_off", lambda *given: np.array([off or 0.0 for _, off, _ in views]))
    monkeypatch.setattr(registration, "_expected", lambda motions, *given: motions)
    surface = plane(CAMERA).astype(np.float32)
    depths = np.stack([surface + np.float32(0.01)] * len(views))
    still = np.broadcast_to(np.eye(3, 4), (len(views), 3, 4))
    cameras = np.stack([CAMERA.numbers] * len(views))
    source = SimpleNamespace(n_views=len(views), reference=0, places=lambda: (CAMERA.numbers, cameras, still))
    read = SimpleNamespace(reading=SimpleNamespace(depths=depths), growth=CONSTANT, slope=0.0)
    return _told(source, surface, read, samples, reach, Motions.none(len(views)), NUMPY)


REFERENCE, STILL = (0.0, 0.0, 0.0), (0.001, 1.0, 1.0)


@pytest.mark.parametrize(
    ("view", "moves"),
    [
        ((0.005, 60.0, 1.0), True),
        ((0.005, 40.0, 1.0), False),  # not sure
        ((0.005, 60.0, 0.25), False),  # sure, and no matter
        ((0.005, 60.0, 0.35), True),
        ((0.019, 60.0, 1.0), True),
        ((0.021, 60.0, 1.0), False),  # more than a little out of place
        ((0.005, None, 1.0), False),  # could not be looked at
    ],
)
def test_a_view_is_moved_if_it_is_surely_a_little_off_and_that_matters(monkeypatch, view, moves):
    found = told(monkeypatch, [REFERENCE, view, STILL, STILL, STILL])
    assert found.motions.numbers.any(axis=1).tolist() == [False, moves, False, False, False]
    assert found.known.tolist() == [True, view[1] is not None, True, True, True]
    assert found.motions.depth == pytest.approx(np.median(plane(CAMERA)))


def test_where_half_are_off_the_others_are_moved_if_they_likely_are(monkeypatch):
    sure, likely, unlikely = (0.005, 60.0, 1.0), (0.004, 14.0, 0.1), (0.004, 10.0, 1.0)
    found = told(monkeypatch, [REFERENCE, sure, sure, likely, unlikely])
    assert found.motions.numbers.any(axis=1).tolist() == [False, True, True, True, False]
    found = told(monkeypatch, [REFERENCE, sure, likely, likely, unlikely])
    assert found.motions.numbers.any(axis=1).tolist() == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("view", "hint"),
    [((0.005, 30.0, 0.2), 30), ((0.005, 30.0, 0.1), 1), ((0.03, 30.0, 1.0), 1), ((0.002, 5.0, 1.0), 5)],
)
def test_a_hint_is_what_might_be_moved_and_might_matter(monkeypatch, view, hint):
    assert told(monkeypatch, [REFERENCE, view, STILL]).hint == hint


def test_a_motion_is_that_against_the_reference(monkeypatch):
    """What the surface does to all of them is no motion of any."""
    found = told(monkeypatch, [(0.001, 0.0, 0.0), (0.006, 60.0, 1.0), STILL, STILL])
    np.testing.assert_allclose(found.motions.numbers[1], [0, 0, 0, 0.005, 0, 0, 0])
    assert not found.motions.numbers[0].any()


def test_nothing_is_told_by_nothing(monkeypatch):
    unseen = SimpleNamespace(reading=SimpleNamespace(depths=np.full((2, 48, 64), np.nan)), growth=CONSTANT, slope=0.0)
    source = SimpleNamespace(n_views=2)
    found = _told(source, plane(CAMERA), unseen, 100, NEAR, Motions.none(2), NUMPY)
    assert (found.hint, found.known.any(), found.motions.any()) == (0.0, False, False)


@pytest.mark.parametrize(("samples", "every"), [(10_000, 1), (3072 // 4, 2), (3072 // 9, 3)])
def test_about_so_many_pixels_are_looked_at(monkeypatch, samples, every):
    seen = []
    places = registration._places
    monkeypatch.setattr(registration, "_places", lambda *given: (seen.append(given), places(*given))[1])
    told(monkeypatch, [REFERENCE, STILL], samples=samples)
    _, depth, step, noise = seen[0]
    assert step == every
    np.testing.assert_array_equal(depth, plane(CAMERA).astype(np.float32)[::every, ::every])
    assert noise == pytest.approx(0.01, rel=1e-3)
