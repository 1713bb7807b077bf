"""What the backends that compute on the host share: NumPy's arrays, where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from cfusion.kernels.contract import Floats, State

arrays = np


def to_device(array: Any, dtype: Any) -> Any:
    """A copy of that type, for the backend to keep and to overwrite."""
    return np.array(array, dtype)


def to_host(array: Any) -> Any:
    """The array itself."""
    return array


def sample(state: State, every: int) -> Floats:
    """As `Backend.sample`: the rows of all planes in one array."""
    return np.concatenate([state.primal[:, ::every], state.dual[:, ::every]])


def travelled(kept: Floats, state: State, every: int) -> tuple[list[float], list[float]]:
    """As `Backend.travelled`."""
    change = sample(state, every) - kept
    squares = [float(np.sum(plane * plane, dtype=np.float64)) for plane in change]
    return squares[: len(state.primal)], squares[len(state.primal) :]
