"""Array functions in one pass: on a GPU a whole function of pixels is one kernel; on the host NumPy runs it as it is.

    @one_pass
    def misfit(depths, surface, scale):          # (K, H, W), (H, W), a number
        return np.minimum(np.abs(depths - surface) / scale, 4).sum(axis=0)

What may be written is what `tracing` follows. Positional arguments are arrays and numbers, keywords decide what is
computed. The text of the function is its definition: nothing else states it for a GPU.
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
    """Write what a function makes of each view into stacks (K, H, W), which may be among its arguments.

    View by view on the host, where what lies between finds no room for all of them.
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
    """(H, W) the sums over the views of each of the stacks that a function makes; view by view on the host."""
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
    """What runs a function as one kernel; CuPy is imported only where there are arrays of it."""
    run: Callable[..., Any] = import_module("cfusion.kernels.cuda.passing").run
    return run


@cache
def _sums_of(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    def sums(*arguments: Any) -> tuple[Any, ...]:
        return tuple(each.sum(axis=0, dtype=each.dtype) for each in function(*arguments))

    return sums


def one_pass(function: Callable[P, R]) -> Callable[P, R]:
    """The function, as one kernel where an array lies on a GPU."""

    @wraps(function)
    def run(*arguments: P.args, **choices: P.kwargs) -> R:
        for each in arguments:
            if hasattr(type(each), "__cuda_array_interface__"):
                result: R = _on_gpu()(function, arguments, choices)
                return result
        return function(*arguments, **choices)

    FUNCTIONS.append(run)
    return run
