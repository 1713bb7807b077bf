"""The only module of mosaics that calls kernels and solvers: iterations, energy and certificate of one window.

A window's problem is the mosaic's, cropped. Values in its core have the bits that the whole mosaic would give, provided
the halo holds everything that the core depends on. An iteration reaches one pixel, a round of the repair two.
"""

import importlib
import importlib.util
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion import kernels
from cfusion.arrays import TINY
from cfusion.energy import TGV, Energy, Huber
from cfusion.geometry import Stack
from cfusion.kernels.contract import INSIDE, Box, Fidelity, Observations, Problem, State, dual_planes, primal_planes
from cfusion.kernels.numpy.certificate import pixel_bound
from cfusion.kernels.numpy.operators import adjoint
from cfusion.solvers.pdhg import PDHG, fixed_confidence
from cfusion.solvers.steps import choose_steps
from cfusion.solvers.task import prepare

ORDER = 2
PRIMAL, DUAL = primal_planes(ORDER), dual_planes(ORDER)
TOP = slice(2, 5)  # planes of the dual of order 2
ROUGH = PDHG(tolerance=2e-4, iterations=480, certify=False)
REACH = 1  # pixels by which an iteration propagates
REPAIR_REACH = 2  # pixels by which a round of the repair propagates
SPARE = 3  # pixels more, for the differences taken at the end
ROWS = 16  # of which the bound is summed at a time: what fits a core's cache
SAFE = 1e-6  # a dual is scaled by this much more than necessary, against rounding

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Core = tuple[slice, slice]


@dataclass(frozen=True)
class Settings:
    """Settings common to all windows: the energy, the steps, the coordinates."""

    alpha: tuple[float, float]
    delta: float  # Huber's corner, in the unit of the heights
    centre: float  # subtracted from every height
    step_scale: float
    slope: tuple[float, float]  # per column, per row: initial value of v
    low: float  # the certificate's box of x, the heights less the centre
    high: float
    energy_floor: float = TINY  # of the whole mosaic: lower energies are rounding errors
    backend: str = "cpu"


@dataclass(frozen=True, eq=False)
class Trial:
    """The solved sample: its step scale, iterations and surface."""

    centre: float
    step_scale: float
    iterations: int
    heights: Floats
    slope: tuple[float, float]


def host_backend(name: str) -> str:
    """The backend for host memory: `cpu` if Numba is installed, `numpy` otherwise."""
    usual = "numpy" if importlib.util.find_spec("numba") is None else "cpu"
    loaded = kernels.load(usual if name == "auto" else name)
    if loaded.arrays is not np:
        from cfusion.errors import InputError

        raise InputError(f"mosaics are computed in host memory; backend {name!r} is not for that, pass 'cpu'")
    return str(loaded.NAME)


def solve_sample(
    heights: Floats,
    weights: Floats | None,
    alpha: tuple[float, float],
    delta: float,
    backend: str,
    tolerance: float | None = None,
) -> Trial:
    """Solve the sample: to a certified tolerance if given, otherwise until its energy settles."""
    loaded = kernels.load(backend)
    task = prepare(Energy(Huber(delta), TGV(ORDER, alpha)), Stack(heights, weights=weights), loaded)
    state = task.initial_state()
    slope = tuple(_start_slope(state, plane) for plane in (1, 2))
    solver = ROUGH if tolerance is None else PDHG(tolerance=tolerance)
    outcome = solver.minimise(task, task.problem(fixed_confidence(task)), state)
    surface = np.asarray(task.whole_depth(state.primal[0]), np.float32)
    return Trial(task.centre, outcome.step_scale, outcome.iterations, surface, (slope[0], slope[1]))


def _start_slope(state: State, plane: int) -> float:
    """The mean slope, over pixels where v exists; the initial value of v."""
    values = state.primal[plane]
    given = values[values != 0]
    return float(given[0]) if given.size else 0.0


def problem_of(heights: Floats, weights: Floats | None, settings: Settings) -> Problem:
    """The problem of a window (K, h, w)."""
    backend = kernels.load(settings.backend)
    known = ~np.isnan(heights) if weights is None else (weights > 0) & ~np.isnan(heights)
    domain: Mask = np.asarray(known.any(axis=0))
    values = (heights - np.float32(settings.centre)).astype(np.float32)
    given = None if weights is None else np.where(known, weights, 0).astype(np.float32)
    window = slice(0, domain.shape[0]), slice(0, domain.shape[1])
    observations = backend.sort_observations(values, given, window, 0.0, False, Fidelity.HUBER, np.float32).observations
    links = backend.links_of(domain)
    return Problem(Fidelity.HUBER, settings.delta, observations, np.asarray(domain, np.float32), links, settings.alpha)


def begin(problem: Problem, settings: Settings) -> State:
    """The initial state: x the median, v the mean slope, the dual zero."""
    backend = kernels.load(settings.backend)
    shape = problem.links.shape
    state = State(np.zeros((PRIMAL, *shape), np.float32), np.zeros((DUAL, *shape), np.float32))
    state.primal[0] = backend.weighted_median(problem.observations)
    for plane, slope in enumerate(settings.slope):
        state.primal[1 + plane] = np.where((problem.links & (1 << plane)) > 0, np.float32(slope), np.float32(0))
    return state


def iterate(problem: Problem, state: State, settings: Settings, count: int) -> None:
    """Iterate in place, with the step sizes common to all windows."""
    backend = kernels.load(settings.backend)
    backend.iterate(problem, state, choose_steps(settings.alpha, settings.step_scale), count)
    state.release()


def core_energy(problem: Problem, state: State, core: Core, settings: Settings) -> tuple[float, float]:
    """Regulariser and fidelity, summed over the terms of the core."""
    backend = kernels.load(settings.backend)
    found = backend.energy(replace(problem, links=_only(problem.links, core)), state)
    return sum(found.regulariser), found.fidelity


def repair(problem: Problem, top: Floats, rounds: int, settings: Settings) -> Floats:
    """The top dual (3, h, w) after some rounds of repair, which reduce its infeasibility."""
    module = importlib.import_module(f"cfusion.kernels.{settings.backend}.certificate")
    out: Floats = module.repaired(problem, _dual_only(top), rounds)
    return out


def core_factor(problem: Problem, top: Floats, core: Core) -> float:
    """The largest factor <= 1 that makes the lower dual of the core feasible."""
    lower = adjoint(top.astype(np.float64), problem.links, ORDER)[(slice(None), *core)]
    length = float(np.sqrt(np.sum(lower * lower, axis=0)).max(initial=0.0))
    return min(1.0, problem.alpha[0] / length) if length > 0 else 1.0


def core_bound(problem: Problem, top: Floats, factor: float, core: Core, settings: Settings) -> float:
    """The core's part of the lower bound that the whole dual, times the factor, gives."""
    scaled = top.astype(np.float64) * (factor * (1 - SAFE))
    slope = adjoint(adjoint(scaled, problem.links, 2), problem.links, 1)[0]
    found, (rows, columns), box = 0.0, core, Box(settings.low, settings.high)
    for first in range(rows.start, rows.stop, ROWS):
        part = slice(first, min(first + ROWS, rows.stop)), columns
        lowest = pixel_bound(_cropped(problem, part), slope[part], box)
        found += float(lowest[(problem.links[part] & INSIDE) > 0].sum())
    return found


def _cropped(problem: Problem, window: Core) -> Problem:
    """The data terms of a part of a window."""
    seen, there = problem.observations, (slice(None), *window)
    weights = None if seen.weights is None else seen.weights[there]
    part = Observations(seen.values[there], weights, seen.total[window], None)
    return replace(problem, observations=part, confidence=problem.confidence[window], links=problem.links[window])


def _dual_only(top: Floats) -> State:
    dual = np.zeros((DUAL, *top.shape[1:]), np.float32)
    dual[TOP] = top
    return State(np.zeros((PRIMAL, 1, 1), np.float32), dual)


def _only(links: Any, core: Core) -> Any:
    out = np.zeros_like(links)
    out[core] = links[core]
    return out
