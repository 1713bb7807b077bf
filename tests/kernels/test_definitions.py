"""What the definitions of maps and trials promise, by hand and as laws; other backends are held to them elsewhere."""

import numpy as np
import pytest

from cfusion import Pose, kernels
from cfusion.auto.noise import view_distances
from cfusion.auto.surface import add_plane, blend, steps
from cfusion.geometry import Stack
from cfusion.kernels.contract import Fidelity, HeldOut
from cfusion.kernels.numpy.sight import even_slope
from cfusion.result import _measured, _standard_error
from cfusion.source import UploadedViews

BACKENDS = [kernels.load(name) for name in ("numpy", "cpu")]
REFERENCE = BACKENDS[0]
SHAPE = (23, 31)
WHOLE = (slice(0, SHAPE[0]), slice(0, SHAPE[1]))


def maps(views=5, seed=0):
    """Positive depths with holes, and weights of which some are zero."""
    rng = np.random.default_rng(seed)
    depths = rng.uniform(1, 3, (views, *SHAPE)).astype(np.float32)
    depths[rng.random(depths.shape) < 0.3] = np.nan
    weights = np.where(np.isnan(depths) | (rng.random(depths.shape) < 0.1), 0, rng.uniform(0.2, 2, depths.shape))
    return depths, weights.astype(np.float32)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_a_split_loses_and_doubles_nothing(weighted):
    depths, weights = maps()
    weights = weights if weighted else None
    turns = np.eye(5, dtype=np.bool_)
    (kept, kept_weights), (out, out_weights), known = REFERENCE.split_folds(depths, weights, turns, 4)
    assert np.array_equal(np.where(np.isnan(kept), out, kept), depths, equal_nan=True)
    assert not (~np.isnan(kept) & ~np.isnan(out)).any()
    assert known == ((~np.isnan(kept)).sum(), (~np.isnan(out)).sum())
    if weighted:
        assert np.array_equal(kept_weights + out_weights, weights)
        assert not (kept_weights * out_weights).any()
    for turned in (np.s_[:, ::-1], np.s_[:, :, ::-1]):  # a mirrored image is split alike
        mirrored = REFERENCE.split_folds(np.ascontiguousarray(depths[turned]), None, turns, 4)
        assert np.array_equal(mirrored[0][0], kept[turned], equal_nan=True)


def test_gains_change_their_sign_with_the_sides():
    depths, weights = maps()
    rng = np.random.default_rng(1)
    x, other = rng.uniform(0, 1, (2, *SHAPE)).astype(np.float32)
    for held in (
        HeldOut(depths, None, WHOLE, np.ones(SHAPE, np.bool_), 1.5, False),
        HeldOut(depths, weights, WHOLE, rng.random(SHAPE) < 0.7, 0.5, True),
    ):
        gain, chance, error = REFERENCE.score_difference(x, other, held)
        back, same_chance, other_error = REFERENCE.score_difference(other, x, held)
        assert (back, same_chance) == pytest.approx((-gain, chance))
        assert gain == pytest.approx(error - other_error)
        assert REFERENCE.score_difference(x, x, held)[:2] == (0.0, 0.0)
        values = (1 / depths if held.inverse else depths) - held.centre
        weight = np.where(held.inside, np.isfinite(depths) if held.weights is None else weights, 0)
        by_hand = np.nansum(weight * np.abs(other - values)) / weight.sum()
        assert error == pytest.approx(by_hand, rel=1e-6)


def test_maps_compared_by_hand():
    depths, _ = maps()
    depths[4] = np.nan
    apart = view_distances(depths, REFERENCE)
    assert np.array_equal(apart, apart.T)
    assert np.isinf(apart[4]).all()
    assert np.isinf(np.diag(apart)).all()
    assert apart[1, 2] == pytest.approx(np.nanmedian(np.abs(depths[1] - depths[2])), rel=1e-6)


@pytest.mark.parametrize("inverse", [False, True], ids=["depth", "inverse"])
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.NAME)
def test_coordinates_of_a_task_are_undone(backend, inverse):
    depths, weights = maps(views=3)
    window = (slice(2, 20), slice(5, 31))
    found = backend.sort_observations(depths, weights, window, 0.6, inverse, Fidelity.L1, np.float32)
    domain = np.zeros(SHAPE, np.bool_)
    domain[window] = found.observations.total > 0
    depth = backend.to_image(found.median, domain, window, float("nan"), 0.6, inverse)
    assert np.array_equal(np.isnan(depth), ~domain)
    tied = np.where(weights > 0, depths, np.nan)[:, domain]
    assert (depth[domain] >= np.nanmin(tied, axis=0) - 1e-5).all()
    assert (depth[domain] <= np.nanmax(tied, axis=0) + 1e-5).all()
    alone = (weights[:, domain] > 0).sum(axis=0) == 1
    np.testing.assert_allclose(depth[domain][alone], np.nansum(tied[:, alone], axis=0), rtol=1e-5)
    seen = (weights[(slice(None), *window)] > 0).sum()
    assert (found.n_observations, found.pixels) == (seen, domain.sum())


def test_surfaces_blend_and_tilt():
    one, other = maps()[0][:2]
    both = ~np.isnan(one) & ~np.isnan(other)
    assert np.array_equal(blend(one, other, 0.0)[both], one[both])
    np.testing.assert_allclose(blend(one, other, 1.0), other, rtol=1e-6)
    assert np.array_equal(np.isnan(blend(one, other, 0.5)), np.isnan(other))
    plane = add_plane(np.zeros(SHAPE, np.float32), 0.5, -0.25)
    assert plane[3, 4] == 3 * 0.5 - 4 * 0.25
    np.testing.assert_allclose(add_plane(add_plane(one, 0.5, -0.25), -0.5, 0.25), one, atol=1e-5)
    down, right = steps(plane)
    assert (down[:-1] == 0.5).all()
    assert (right[:, :-1] == -0.25).all()
    assert np.isnan(down[-1]).all()


def test_observations_are_accounted_for():
    depths = np.array([[[1.0, 2.0, np.nan, 1.0]], [[3.0, np.nan, np.nan, 1.0]]], np.float32)
    depth = np.array([[2.0, 2.5, 4.0, np.nan]], np.float32)
    provenance, sigma = _measured(Stack(depths), depth), _standard_error(Stack(depths), depth)
    assert provenance.tolist() == [[2, 1, 0, -1]]
    np.testing.assert_allclose(sigma, [[1.0, 0.5 * np.sqrt(2), np.nan, np.nan]], rtol=1e-6)
    filled = np.zeros(depths.shape, np.bool_)
    filled[0, 0, 0] = True
    assert _measured(Stack(depths, filled=filled), depth).tolist() == [[1, 1, 0, -1]]
    weights = np.where(np.isnan(depths), 0, 1).astype(np.float32)
    weights[1, 0, 0] = 0
    assert _measured(Stack(depths, weights), depth).tolist() == [[1, 1, 0, -1]]


def test_motions_of_a_batch_are_those_of_its_poses():
    rng = np.random.default_rng(0)
    turns = [np.linalg.qr(rng.normal(0, 1, (3, 3)))[0] for _ in range(4)]
    poses = [Pose(turn * np.linalg.det(turn), rng.normal(0, 1, 3)) for turn in turns]
    batch = UploadedViews(list(range(4)), np.empty(0), None, np.empty(0), poses)
    for k, pose in enumerate(poses):
        there = (poses[2].inverse() @ pose).matrix()[:3]
        np.testing.assert_allclose(batch.reference_from_view(poses[2])[k], there, atol=1e-12)
        np.testing.assert_allclose(
            batch.view_from_reference(poses[2])[k], (pose.inverse() @ poses[2]).matrix()[:3], atol=1e-12
        )


@pytest.mark.parametrize("backend", BACKENDS, ids=["numpy", "cpu"])
@pytest.mark.parametrize(
    "side", [np.s_[:1], np.s_[-1:], np.s_[:, :1], np.s_[:, -1:]], ids=["top", "bottom", "left", "right"]
)
def test_what_is_known_at_one_side_reaches_the_other_and_does_not_go_round(backend, side):
    observed, start = np.zeros(SHAPE, np.bool_), np.zeros(SHAPE, np.float32)
    observed[side], start[side] = True, 3
    inside = np.ones(SHAPE, np.bool_)
    assert (backend.extrapolate(start, observed, inside) == 3).all()
    across = observed.all(axis=1).any()
    inside[(SHAPE[0] // 2) if across else np.s_[:, SHAPE[1] // 2]] = False  # nothing beyond the middle is reached
    reached = backend.extrapolate(start, observed, inside) == 3
    assert (backend.extrapolate(start, observed, inside)[~reached] == 0).all()
    assert reached[:, 3].mean() < 0.6 if across else reached[3].mean() < 0.6


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (6, 7)], ids=str)
def test_the_slope_of_one_pixel_is_that_of_the_definition(shape: tuple[int, int]) -> None:
    """Zero where no neighbour is known, as in a single row, or beside holes."""
    numba = pytest.importorskip("numba")
    from cfusion.kernels.cpu import sight

    even_slope_at = numba.njit(lambda depth, i, j: sight._even_slope(depth, i, j))
    rng = np.random.default_rng(0)
    depth = rng.uniform(1, 2, shape).astype(np.float32)
    depth[rng.random(shape) < 0.3] = np.nan
    slopes = even_slope(depth)
    for i, j in np.argwhere(np.isfinite(depth)).tolist():
        assert even_slope_at(depth, i, j) == slopes[i, j]
        assert np.isfinite(slopes[i, j])


@pytest.mark.parametrize("backend", BACKENDS, ids=["numpy", "cpu"])
def test_a_state_is_carried_over_on_what_both_have_and_nowhere_else(backend):
    """Pixels of both domains, and of these the links of the receiving one; only depth is shifted."""
    rng = np.random.default_rng(6)
    domain, inside = rng.random(SHAPE) < 0.6, rng.random((12, 19)) < 0.7
    links = backend.links_of(domain)
    state = backend.initial_state(np.zeros(SHAPE, np.float32), links, 2)
    other = backend.initial_state(np.zeros((12, 19), np.float32), backend.links_of(inside), 2)
    for planes in (state.primal, state.dual, other.primal, other.dual):
        planes[:] = rng.normal(size=planes.shape)
    before, down, right = [state.primal.copy(), state.dual.copy()], 2, 3  # the first pixel of the state in the other
    backend.transfer_state(state, links, other, inside, (down, right), 0.5)
    for row, column in np.ndindex(SHAPE):
        there = row + down, column + right
        both = there[0] < 12 and there[1] < 19 and domain[row, column] and inside[there]
        x, v = state.primal[0, row, column], state.primal[1:, row, column]
        assert x == (other.primal[0][there] + np.float32(0.5) if both else before[0][0, row, column])
        assert np.array_equal(v, other.primal[(slice(1, None), *there)] if both else before[0][1:, row, column])
        for plane, dual in enumerate(state.dual):
            linked = both and links[row, column] >> plane & 1
            assert dual[row, column] == (other.dual[plane][there] if linked else before[1][plane, row, column])
