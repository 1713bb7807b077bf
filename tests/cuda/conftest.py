"""Random problems on both sides of the bus; every test is skipped, with the reason, where no device can be used."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from cfusion import kernels
from cfusion.errors import BackendUnavailable
from cfusion.kernels.contract import (
    Box,
    Fidelity,
    Observations,
    Problem,
    State,
    Steps,
    dual_planes,
    links_of,
    primal_planes,
)
from cfusion.solvers.steps import choose_steps

ALPHA = (1.0, 2.0, 4.0)
NOISE = 0.4


@pytest.fixture(scope="session")
def cuda() -> Any:
    try:
        return kernels.load("cuda")
    except BackendUnavailable as reason:
        pytest.skip(str(reason))


@dataclass(frozen=True, eq=False)
class Case:
    """The same problem and state on the host and on the device."""

    problem: Problem
    state: State
    steps: Steps
    box: Box
    depths: np.ndarray
    weights: np.ndarray | None
    seed: int

    def on_device(self) -> tuple[Problem, State]:
        import cupy

        def there(array: Any) -> Any:
            return None if array is None else cupy.asarray(array)

        seen = self.problem.observations
        problem = replace(
            self.problem,
            observations=Observations(there(seen.values), there(seen.weights), there(seen.total), there(seen.scatter)),
            confidence=there(self.problem.confidence),
            links=there(self.problem.links),
            edge=there(self.problem.edge),
            tensor=there(self.problem.tensor),
            prox_centre=there(self.problem.prox_centre),
        )
        return problem, State(there(self.state.primal), there(self.state.dual))

    def on_host(self) -> tuple[Problem, State]:
        return self.problem, State(self.state.primal.copy(), self.state.dual.copy())


def random_case(
    shape: tuple[int, int],
    *,
    order: int = 2,
    fidelity: Fidelity = Fidelity.L1,
    views: int = 5,
    holes: float = 0.02,
    missing: float = 0.2,
    weighted: bool = False,
    edge: bool = False,
    tensor: bool = False,
    anchored: bool = False,
    seed: int = 0,
    dtype: Any = np.float32,
) -> Case:
    """Laplace noise on a slope with a step, a hole in the middle, a few strays, pixels that nobody saw."""
    rng = np.random.default_rng([seed, *shape, order, views])
    y, x = np.mgrid[: shape[0], : shape[1]]
    domain = rng.random(shape) >= holes
    domain &= (y - shape[0] // 2) ** 2 + (x - shape[1] // 3) ** 2 > (min(shape) // 5) ** 2
    domain[0, 0] = True
    surface = 0.02 * x - 0.01 * y + (x > shape[1] // 2)
    depths = surface + rng.laplace(0, NOISE, (views, *shape))
    unknown = (rng.random(depths.shape) < missing) | ~domain
    depths = np.where(unknown, np.nan, depths).astype(dtype)
    weights = None
    if weighted:
        weights = np.where(rng.random(depths.shape) < 0.1, 0, rng.uniform(0.2, 3, depths.shape))
        weights = np.where(unknown, 0, weights).astype(dtype)
    seen, start = kernels.load("numpy").order_observations(depths, weights, fidelity)
    angle, small = rng.uniform(0, np.pi, shape), rng.uniform(0.3, 1, shape)
    nx, ny = np.cos(angle), np.sin(angle)
    root = np.stack([1 - (1 - small) * nx * nx, -(1 - small) * nx * ny, 1 - (1 - small) * ny * ny])
    problem = Problem(
        fidelity,
        0.15,
        seen,
        (rng.uniform(0.5, 2, shape) * domain).astype(dtype),
        links_of(domain),
        ALPHA[:order],
        edge=rng.uniform(0.2, 1, shape).astype(dtype) if edge else None,
        tensor=root.astype(dtype) if tensor else None,
        prox_centre=(surface + rng.normal(0, 0.1, shape)).astype(dtype) if anchored else None,
        prox_weight=0.7 if anchored else 0.0,
    )
    state = State(np.zeros((primal_planes(order), *shape), dtype), np.zeros((dual_planes(order), *shape), dtype))
    state.primal[0] = start
    known = depths[np.isfinite(depths)]
    low, high = (float(known.min()), float(known.max())) if known.size else (-1.0, 1.0)
    box = Box(2 * low - high - 1, 2 * high - low + 1)
    return Case(problem, state, choose_steps(problem.alpha, NOISE / np.sqrt(views)), box, depths, weights, seed)


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    return random_case
