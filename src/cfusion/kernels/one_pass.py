"""Array functions in one pass: on a GPU a function of pixels becomes one kernel; on the host NumPy runs it directly.

    @one_pass
    def misfit(depths, surface, scale):          # (K, H, W), (H, W), a number
        return np.minimum(np.abs(depths - surface) / scale, 4).sum(axis=0)

The functions that `tracing` supports may be used. Positional arguments are arrays and numbers; keywords select what is
computed. The Python text is the only definition, also for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")
FUNCTIONS: list[Callable[..., Any]] = []  # all of them, for tests


def rewrite(function: Callable[..., Any], targets: Sequence[Any], *arguments: Any, **choices: Any) -> None:
    """Write a function's result for each view into stacks (K, H, W), which may be among its arguments.

    On the host view by view, to save memory for intermediate arrays.
    """
    if not isinstance(targets[0], np.ndarray):
        _on_gpu()(function.__wrapped__, arguments, choices, targets)  # type: ignore[attr-defined]
        return
    for k in range(len(targets[0])):
        given = [each[k : k + 1] if getattr(each, "ndim", 0) == 3 else each for each in arguments]
        made = function(*given, **choices)
        for target, part in zip(targets, made if isinstance(made, tuple) else (made,), strict=True):
            target[k] = part[0]


def added_up(function: Callable[..., tuple[Any, ...]], *arguments: Any) -> list[Any]:
    """The sums (H, W) over views of each stack that a function returns; on the host view by view."""
    if not isinstance(arguments[0], np.ndarray):
        sums = _on_gpu()(_sums_of(function), arguments, {})
        return list(sums) if isinstance(sums, tuple) else [sums]
    totals: list[Any] = []
    for k in range(len(arguments[0])):
        made = function(*(each[k : k + 1] if getattr(each, "ndim", 0) == 3 else each for each in arguments))
        totals = (
            [total + part[0] for total, part in zip(totals, made, strict=True)] if k else [each[0] for each in made]
        )
    return totals


@cache
def _on_gpu() -> Callable[..., Any]:
    """The function that runs another as one kernel; CuPy is imported only if it is in use."""
    run: Callable[..., Any] = import_module("cfusion.kernels.cuda.passing").run
    return run


@cache
def _sums_of(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    def sums(*arguments: Any) -> tuple[Any, ...]:
        return tuple(each.sum(axis=0, dtype=each.dtype) for each in function(*arguments))

    return sums


def one_pass(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run as one kernel if an array is on a GPU."""

    @wraps(function)
    def run(*arguments: P.args, **choices: P.kwargs) -> R:
        for each in arguments:
            if hasattr(type(each), "__cuda_array_interface__"):
                result: R = _on_gpu()(function, arguments, choices)
                return result
        return function(*arguments, **choices)

    FUNCTIONS.append(run)
    return run
