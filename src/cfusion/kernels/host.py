"""What the backends that compute on the host share: NumPy's arrays, where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from cfusion.kernels.contract import INSIDE, Floats, Problem, State

arrays = np


def to_device(array: Any, dtype: Any) -> Any:
    """A copy of that type, for the backend to keep and to overwrite."""
    return np.array(array, dtype)


def to_host(array: Any) -> Any:
    """The array itself."""
    return array


def lane() -> AbstractContextManager[Any]:
    """Nothing to arrange."""
    return nullcontext()


def side_by_side(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """One after the other: the kernels use every core already."""
    return [work(item) for item in items]


def adapted(misfit: Floats, problem: Problem, rate: Floats, strength: Floats) -> tuple[Floats, float]:
    """What `Backend.adapt` gives at this misfit."""
    inside = (problem.links & INSIDE) > 0
    lam = np.where(inside, strength / (misfit + rate), 0).astype(misfit.dtype)
    known = lam[inside].astype(np.float64)
    return lam, float(np.sum(rate[inside] * known - strength[inside] * np.log(known)))


def sample(state: State, every: int) -> Floats:
    """As `Backend.sample`: the rows of all planes in one array."""
    return np.concatenate([state.primal[:, ::every], state.dual[:, ::every]])


def travelled(kept: Floats, state: State, every: int) -> tuple[list[float], list[float]]:
    """As `Backend.travelled`."""
    change = sample(state, every) - kept
    squares = [float(np.sum(plane * plane, dtype=np.float64)) for plane in change]
    return squares[: len(state.primal)], squares[len(state.primal) :]
