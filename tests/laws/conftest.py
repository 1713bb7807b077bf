"""Random problems for the laws: small, with holes, ties and everything an energy may carry."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

from cfusion import kernels
from cfusion.errors import BackendUnavailable
from cfusion.kernels.contract import (
    Box,
    Fidelity,
    Problem,
    State,
    dual_planes,
    links_of,
    primal_planes,
)

ALPHA = (1.0, 2.0, 4.0)


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, a state to start from, and the range that x is stated to lie in."""

    problem: Problem
    state: State
    box: Box

    def on(self, backend: Any) -> tuple[Problem, State]:
        """Copies in the memory of a backend."""

        def there(part: Any) -> Any:
            arrays = {f.name: getattr(part, f.name) for f in fields(part)}
            arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
            return replace(part, **{name: backend.to_device(array, array.dtype) for name, array in arrays.items()})

        problem = replace(there(self.problem), observations=there(self.problem.observations))
        primal, dual = (backend.to_device(part, part.dtype) for part in (self.state.primal, self.state.dual))
        return problem, State(primal, dual)

    def copy_state(self) -> State:
        return State(self.state.primal.copy(), self.state.dual.copy())

    def with_problem(self, **changes: Any) -> "Case":
        return replace(self, problem=replace(self.problem, **changes))


def random_domain(rng: np.random.Generator, shape: tuple[int, int], holes: float) -> np.ndarray:
    """Pixels that take part; at least one."""
    domain = rng.random(shape) >= holes
    domain[tuple(rng.integers(0, shape))] = True
    return domain


def random_case(
    seed: int = 0,
    shape: tuple[int, int] = (7, 9),
    *,
    order: int = 2,
    fidelity: Fidelity = Fidelity.L1,
    views: int = 3,
    holes: float = 0.2,
    missing: float = 0.3,
    weighted: bool = False,
    edge: bool = False,
    tensor: bool = False,
    anchored: bool = False,
    dtype: Any = np.float64,
) -> Case:
    """Noisy observations of a slope with a step; values on a coarse grid, so that ties are common."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, shape, holes)
    y, x = np.mgrid[: shape[0], : shape[1]]
    surface = 0.1 * x - 0.05 * y + (x > shape[1] // 2)
    depths = surface + rng.laplace(0, 0.4, (views, *shape))
    depths = np.where(rng.random(depths.shape) < 0.5, np.round(depths, 1), depths)
    unknown = (rng.random(depths.shape) < missing) | ~domain
    depths = np.where(unknown, np.nan, depths).astype(dtype)
    weights = None
    if weighted:
        weights = np.where(rng.random(depths.shape) < 0.1, 0, rng.uniform(0.2, 3, depths.shape))
        weights = np.where(unknown, 0, weights).astype(dtype)
    reference = kernels.load("numpy")
    seen, start = reference.order_observations(depths, weights, fidelity)
    problem = Problem(
        fidelity,
        0.15,
        seen,
        (rng.uniform(0.5, 2, shape) * domain).astype(dtype),
        links_of(domain),
        ALPHA[:order],
        edge=rng.uniform(0.2, 1, shape).astype(dtype) if edge else None,
        tensor=random_tensor(rng, shape).astype(dtype) if tensor else None,
        prox_centre=(surface + rng.normal(0, 0.1, shape)).astype(dtype) if anchored else None,
        prox_weight=0.7 if anchored else 0.0,
    )
    state = State(np.zeros((primal_planes(order), *shape), dtype), np.zeros((dual_planes(order), *shape), dtype))
    state.primal[0] = start
    known = depths[np.isfinite(depths)]
    low, high = (float(known.min()), float(known.max())) if known.size else (-1.0, 1.0)
    return Case(problem, state, Box(2 * low - high, 2 * high - low))


def random_tensor(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Components xx, xy, yy of a symmetric root with eigenvalues in [0.3, 1]."""
    angle, small = rng.uniform(0, np.pi, shape), rng.uniform(0.3, 1, shape)
    nx, ny = np.cos(angle), np.sin(angle)
    return np.stack([1 - (1 - small) * nx * nx, -(1 - small) * nx * ny, 1 - (1 - small) * ny * ny])


@pytest.fixture(params=["numpy", "cpu"])
def on_host(request: pytest.FixtureRequest) -> Any:
    """The backends that compute on the host, one after the other."""
    try:
        return kernels.load(request.param)
    except BackendUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    return random_case


@pytest.fixture(scope="session")
def make_domain() -> Callable[..., np.ndarray]:
    return random_domain
