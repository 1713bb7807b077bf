"""cpu.f is reference.f, for every f of the contract: random inputs for each, and none without.

What is returned and what is written into is compared, to the rounding of float32.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass, replace
from inspect import get_annotations, signature
from typing import Any

import numpy as np
import pytest

from cfusion import BrownConrady, Orthographic, Pinhole, Pose, kernels
from cfusion.geometry.quaternion import rotation_of
from cfusion.kernels import contract
from cfusion.kernels.contract import Box, Fidelity, Problem, State, links_of
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.solvers.steps import choose_steps

REFERENCE, CPU = kernels.load("numpy"), kernels.load("cpu")
SHAPE = (17, 23)
TENSOR = np.float32([1.5, 0.3, 1.5])[:, None, None]  # xx, xy, yy: definite
WINDOW = (slice(2, 15), slice(1, 20))
INPUTS: dict[str, Callable[[np.random.Generator], list[tuple[Any, ...]]]] = {}
PINHOLE, PARALLEL = Pinhole(20.0, 22.0, 10.3, 8.2, 23, 17), Orthographic(0.2, 11.0, 8.0, 23, 17)
BENT = BrownConrady(20.0, 22.0, 10.3, 8.2, 23, 17, k1=-0.2, k2=0.05, p1=0.01, p2=-0.02, k3=0.01)
KINDS = PINHOLE, PARALLEL, BENT


def members() -> list[str]:
    """Everything that the Protocols of the contract ask for."""
    protocols = [each for each in vars(contract).values() if getattr(each, "_is_protocol", False)]
    names = {name for each in protocols for name in (*vars(each), *get_annotations(each))}
    return sorted(name for name in names if not name.startswith("_"))


def inputs(make: Callable[[np.random.Generator], list[tuple[Any, ...]]]) -> None:
    """Several lists of arguments for the function of that name."""
    INPUTS[make.__name__.removeprefix("for_")] = make


def maps(rng: np.random.Generator, views: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Depths with holes around a surface, and weights, some zero."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    depths = (4 + 0.1 * x - 0.05 * y + (x > 12) + rng.laplace(0, 0.1, (views, *SHAPE))).astype(np.float32)
    depths[rng.random(depths.shape) < 0.3] = np.nan
    weights = np.where(np.isnan(depths) | (rng.random(depths.shape) < 0.1), 0, rng.uniform(0.2, 2, depths.shape))
    return depths, weights.astype(np.float32)


def surface(rng: np.random.Generator) -> np.ndarray:
    """One map with holes."""
    return maps(rng, 1)[0][0]


def mask(rng: np.random.Generator, share: float = 0.6) -> np.ndarray:
    return rng.random(SHAPE) < share


def problems(rng: np.random.Generator, iterations: int = 12) -> list[tuple[Problem, State]]:
    """Each order and fidelity, with and without all that a problem may carry; in the middle of a solve."""
    out = []
    kinds = [(1, Fidelity.L2, False, False), (2, Fidelity.HUBER, False, False), (3, Fidelity.L1, True, False)]
    kinds += [(1, Fidelity.HUBER, True, False)]
    for order, fidelity, full, bent in [*kinds, (2, Fidelity.L1, False, False), (2, Fidelity.L1, True, True)]:
        depths, weights = maps(rng)
        seen, start = REFERENCE.order_observations(depths - np.float32(4), weights if full else None, fidelity)
        inside = mask(rng, 0.9)
        problem = Problem(
            fidelity,
            0.15,
            seen,
            (rng.uniform(0.5, 2, SHAPE) * inside).astype(np.float32),
            links_of(inside),
            (1.0, 2.0, 4.0)[:order],
            edge=rng.uniform(0.2, 1, SHAPE).astype(np.float32) if full and not bent else None,
            tensor=rng.uniform(0.3, 0.6, (3, *SHAPE)).astype(np.float32) * TENSOR if bent else None,
            prox_centre=rng.normal(0, 1, SHAPE).astype(np.float32) if full else None,
            prox_weight=0.7 if full else 0.0,
        )
        state = REFERENCE.initial_state(start, problem.links, order)
        REFERENCE.iterate(problem, state, choose_steps(problem.alpha, 0.2), iterations)
        out.append((problem, state))
    return out


def cameras(rng: np.random.Generator) -> list[tuple[Any, Any, np.ndarray]]:
    """Every kind looking at every kind, from another place, turned about every axis: no entry of the rotation is 0."""
    turn = rotation_of(1.0, -0.04, 0.075, 0.05)
    assert (np.abs(turn) > 0.05).all()
    motion = Pose(turn, np.array([0.3, -0.2, 0.1])).matrix()[:3].copy()
    return [(one, other, motion) for one in KINDS for other in KINDS]


@inputs
def for_to_device(rng):
    return [(surface(rng), np.float64), ([1, 2], np.float32), ([surface(rng), surface(rng)], np.float32)]


@inputs
def for_to_host(rng):
    return [(surface(rng),)]


@inputs
def for_precompile(rng):
    return [(SHAPE, 2, Fidelity.L1, posed, True) for posed in (False, True)]


@inputs
def for_stream(rng):
    return [()]


@inputs
def for_links_of(rng):
    return [(mask(rng),), (mask(rng, 0.05),)]


@inputs
def for_count_observations(rng):
    depths, weights = maps(rng)
    return [(depths, None), (depths, weights), (np.full_like(depths, np.nan), None)]


@inputs
def for_sort_observations(rng):
    depths, weights = maps(rng)
    kinds = ((None, False, Fidelity.L1), (weights, True, Fidelity.HUBER), (weights, False, Fidelity.L2))
    return [
        (depths, given, WINDOW, 0.2, inverse, kind, real)
        for given, inverse, kind in kinds
        for real in (np.float32, np.float64)
    ]


@inputs
def for_initial_state(rng):
    return [(np.nan_to_num(surface(rng)), links_of(mask(rng)), order) for order in (1, 2, 3)]


@inputs
def for_transfer_state(rng):
    out = []
    for problem, state in problems(rng):
        other = REFERENCE.initial_state(
            rng.normal(0, 1, (12, 19)).astype(np.float32), links_of(np.ones((12, 19), bool)), 3
        )
        order = problem.order
        cut = State(other.primal[: order * (order + 1) // 2], other.dual[: order * (order + 3) // 2] + np.float32(1))
        out.append((state, problem.links, cut, rng.random((12, 19)) < 0.7, (-2, 3), 0.4))
    return out


@inputs
def for_extrapolate(rng):
    observed = mask(rng, 0.3)
    return [(np.where(observed, surface(rng), 0).astype(np.float32), observed, mask(rng, 0.9) | observed)]


@inputs
def for_local_noise_weights(rng):
    depths, weights = maps(rng)
    alone = np.where(mask(rng, 0.02), depths, np.float32(np.nan))  # windows with a single observation
    return [(depths, None, surface(rng)), (depths, weights, surface(rng)), (alone, None, surface(rng))]


@inputs
def for_score_difference(rng):
    depths, weights = maps(rng)
    shape = tuple(part.stop - part.start for part in WINDOW)
    x, other = rng.normal(0, 1, (2, *shape)).astype(np.float32)
    inside = rng.random(shape) < 0.8
    held = contract.HeldOut(depths, None, WINDOW, inside, 4.0, False)
    return [(x, other, held), (x, other, replace(held, weights=weights, inverse=True))]


@inputs
def for_split_folds(rng):
    depths, weights = maps(rng)
    return [(depths, given, np.eye(4, dtype=np.bool_), block) for given in (None, weights) for block in (1, 4)]


@inputs
def for_medians(rng):
    rows = maps(rng)[0]
    rows[2] = np.nan
    many = rng.normal(0, 1, (3, 1 << 15)).astype(np.float32)  # enough to be counted
    many[0, ::3], many[1, :-5], many[2, ::2] = np.nan, 1e-3, np.inf
    alike = np.repeat(np.float32([[-2.0, -0.0, 0.0, 3.5]]), 1 << 13, axis=1)
    return [(rows,), (rows.reshape(4, -1), 4.0), (many,), (many[:, 1:], 0.0), (-many,), (alike,), (alike[:, 1:], -1.0)]


@inputs
def for_iterate(rng):
    return [(problem, state, choose_steps(problem.alpha, 0.2), 3) for problem, state in problems(rng)]


@inputs
def for_energy(rng):
    return problems(rng)


@inputs
def for_bound(rng):
    return [(*each, Box(-3.0, 4.0), rounds) for each in problems(rng, 60) for rounds in (0, 5)]


@inputs
def for_snapshot_rows(rng):
    return [(state, 4) for _, state in problems(rng)]


@inputs
def for_measure(rng):
    some = problems(rng)
    kept = [None, *(REFERENCE.snapshot_rows(state, 4) + np.float32(0.1) for _, state in some[1:])]
    return [(*each, given, 4) for each, given in zip(some, kept, strict=True)]


@inputs
def for_follow(rng):
    ones = np.ones(SHAPE, np.float32)
    return [(*each, 0.5 * ones, 2 * ones, REFERENCE.snapshot_rows(each[1], 4), 4) for each in problems(rng)]


@inputs
def for_misfit(rng):
    return [(problem, state.primal[0]) for problem, state in problems(rng)]


@inputs
def for_weighted_median(rng):
    return [(problem.observations,) for problem, _ in problems(rng)]


@inputs
def for_reproject(rng):
    depth = surface(rng)
    depth[3, 4:9] = [0.0, -1.0, 1e-3, 0.0, 2.0]
    return [(depth, one.numbers, other.numbers, motion) for one, other, motion in cameras(rng)]


def seen_by_others(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """A surface with what is behind others, its camera, and two that look at it."""
    out = []
    for one, other, motion in cameras(rng):
        x = surface(rng)
        x[2, :4] = [-1.0, 1e-3, 30.0, -4.0]
        motions = np.stack([motion, motion])
        out += [(x, one.numbers, np.stack([other.numbers, each.numbers]), motions) for each in (other, BENT)]
    return out


@inputs
def for_parallax(rng):
    return seen_by_others(rng)


@inputs
def for_hidden(rng):
    limits = np.where(mask(rng), 0.0, 0.5).astype(np.float32)
    return [(*each, [SHAPE, (9, 12)], limits) for each in seen_by_others(rng)]


@inputs
def for_pooled(rng):
    maps_of = [rng.random((2, *SHAPE)).astype(np.float32), rng.normal(0, 1, (1, 3, 5)), mask(rng)[None]]
    return [(each, radius, passes) for each in maps_of for radius, passes in ((1, 1), (3, 3), (8, 2))]


@inputs
def for_cosines(rng):
    return [(maps(rng)[0], camera.numbers) for camera in KINDS]


@inputs
def for_splat_nearest(rng):
    u, v = rng.uniform(-3, 26, (2, 500))
    z, values = rng.choice([1.0, 2.0, np.nan, 3.5], 500), rng.uniform(0, 1, 500).astype(np.float32)
    return [(u, v, z, values, SHAPE), (u, v, z, None, SHAPE)]


@inputs
def for_close_mask(rng):
    return [(mask(rng, 0.2), radius) for radius in (0, 1, 4)]


@inputs
def for_local_depth_range(rng):
    return [(surface(rng), radius) for radius in (1, 3)]


@inputs
def for_fill_natural(rng):
    return [(surface(rng), mask(rng, 0.7))]


@inputs
def for_to_image(rng):
    part = rng.normal(0, 0.05, tuple(each.stop - each.start for each in WINDOW)).astype(np.float32)
    return [(part, mask(rng), WINDOW, outside, 0.03, inverse) for outside in (np.nan, 0.0) for inverse in (False, True)]


@inputs
def for_read_view(rng):
    """Nearest, between pixels, with a confidence, towards points beside, behind and at the view."""
    depth = surface(rng)
    trust = rng.uniform(0, 1, SHAPE).astype(np.float32)
    out = []
    for one, other, motion in cameras(rng):
        x = surface(rng)
        x[2, :6] = [-1.0, 0.0, 1e-3, 30.0, -4.0, 0.2]
        for agreement, given in ((0.0, np.empty((0, 0), np.float32)), (0.3, trust), (1e9, trust)):
            out.append((x, one.numbers, other.numbers, motion, depth, given, agreement))
    return out


@inputs
def for_reject_occluded(rng):
    out = []
    for holes in (False, True):
        depths, weights = maps(rng)
        seen = rng.random(depths.shape) < 0.9
        out.append((depths, weights, surface(rng), DepthNoise(4.0, 2), [0.2, np.inf, 0.3, 0.1], seen, 1, holes))
    return out


def assert_same(one: Any, other: Any, where: str) -> None:
    """The same tree of dataclasses, sequences, arrays and numbers."""
    if isinstance(one, np.ndarray) and one.dtype.kind == "f":
        assert (one.shape, one.dtype) == (other.shape, other.dtype), where
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5, err_msg=where)
    elif isinstance(one, np.ndarray):
        assert np.array_equal(one, other), where
        assert one.dtype == other.dtype, where
    elif is_dataclass(one):
        for field in fields(one):
            if not field.name.startswith("_") and field.name != "workspace":  # which is the backend's own
                assert_same(getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}")
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), where
        for k, (part, same) in enumerate(zip(one, other, strict=True)):
            assert_same(part, same, f"{where}[{k}]")
    elif isinstance(one, float | np.floating):
        assert float(other) == pytest.approx(float(one), rel=2e-5, abs=1e-9, nan_ok=True), where
    elif isinstance(one, AbstractContextManager) or callable(one):
        assert type(one) is type(other), where
    else:
        assert one == other, where


@pytest.mark.parametrize("name", members())
def test_every_function_is_the_definition(name: str) -> None:
    if not callable(getattr(REFERENCE, name)) or name == "arrays":
        assert hasattr(CPU, name)
        return
    assert name in INPUTS, f"the contract has {name}, and there are no inputs for it here"
    for seed in (0, 1):
        makes = [INPUTS[name](np.random.default_rng(seed)) for _ in range(2)]
        for k, (given, again) in enumerate(zip(*makes, strict=True)):
            defined, ours = getattr(REFERENCE, name)(*given), getattr(CPU, name)(*again)
            assert_same(defined, ours, f"{name}, inputs {k}")
            assert_same(given, again, f"arguments of {name}, inputs {k}")


def test_inputs_are_for_functions_that_are_there() -> None:
    assert set(INPUTS) <= set(members())


@pytest.mark.parametrize("backend", [REFERENCE, CPU], ids=["reference", "cpu"])
def test_medians_of_sides_are_those_of_sizes_and_of_each_side(backend: Any) -> None:
    rows = maps(np.random.default_rng(5))[0] - np.float32(4.5)
    middles, known = backend.medians(rows, sides=True)
    parts = [np.abs(rows), np.where(rows > 0, rows, np.nan), np.where(rows < 0, -rows, np.nan)]
    assert middles == [float(np.nanmedian(row)) for part in parts for row in part]
    assert known == [int(np.isfinite(row).sum()) for part in parts for row in part]


@pytest.mark.parametrize("backend", [REFERENCE, CPU], ids=["reference", "cpu"])
@pytest.mark.parametrize("name", members())
def test_a_backend_takes_what_the_contract_says(name: str, backend: Any) -> None:
    """As many arguments, as few of them needed."""
    protocols = [each for each in vars(contract).values() if getattr(each, "_is_protocol", False)]
    asked = next((vars(each)[name] for each in protocols if name in vars(each)), None)
    if not callable(asked):
        return
    wanted, offered = (list(signature(each).parameters.values()) for each in (asked, getattr(backend, name)))
    wanted = wanted[1:]
    assert len(offered) >= len(wanted)
    assert all(more.default is not more.empty for more in offered[len(wanted) :])
    needed = sum(each.default is each.empty for each in wanted)
    assert sum(each.default is each.empty for each in offered) <= needed


def test_the_contract_stays_small():
    """Each function is written three times: one that an array function can state does not belong here."""
    assert len(set(members()) - {"NAME", "arrays"}) <= 34
