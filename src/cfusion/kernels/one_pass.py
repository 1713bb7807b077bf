"""Array functions in one pass: on a GPU a function of pixels becomes one kernel; on the host NumPy runs it directly.

    @one_pass
    def misfit(depths, surface, scale):          # (K, H, W), (H, W), a number
        return np.minimum(np.abs(depths - surface) / scale, 4).sum(axis=0)

The functions that `tracing` supports may be used. Positional arguments are arrays and numbers; keywords select what is
computed. The Python text is the only definition, also for the GPU. On the host a function whose pixels are independent
of other rows, as `tracing` finds, runs on bands of rows in threads.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache, wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

import numpy as np

from cfusion.kernels.threads import ENOUGH, in_bands, threads
from cfusion.kernels.tracing import Kind, Traced, follow, picked

P = ParamSpec("P")
R = TypeVar("R")
FUNCTIONS: list[Callable[..., Any]] = []  # all of them, for tests
ACROSS_ROWS = ("total", "neighbour", "nearest", "looked up", "row", "column", "height - 1", "width - 1")
_shared = ContextVar("_shared", default=False)  # whether this thread already runs a part of a pass


def rewrite(function: Callable[..., Any], targets: Sequence[Any], *arguments: Any, **choices: Any) -> None:
    """Write a function's result for each view into stacks (K, H, W), which may be among its arguments.

    On the host view by view, to save memory for intermediate arrays.
    """
    if not isinstance(targets[0], np.ndarray):
        _on_gpu()(function.__wrapped__, arguments, choices, targets)  # type: ignore[attr-defined]
        return

    def write(k: int) -> None:
        made = function(*_of_view(k, arguments), **choices)
        for target, part in zip(targets, made if isinstance(made, tuple) else (made,), strict=True):
            target[k] = part[0]

    _each(write, range(len(targets[0])), targets[0][0].size)


def added_up(function: Callable[..., tuple[Any, ...]], *arguments: Any) -> list[Any]:
    """The sums (H, W) over views of each stack that a function returns; on the host view by view."""
    if not isinstance(arguments[0], np.ndarray):
        sums = _on_gpu()(_sums_of(function), arguments, {})
        return list(sums) if isinstance(sums, tuple) else [sums]
    totals: list[Any] = []
    made: dict[int, tuple[Any, ...]] = {}
    for first in range(0, len(arguments[0]), threads()):
        some = range(first, min(first + threads(), len(arguments[0])))
        _each(lambda k: made.update({k: function(*_of_view(k, arguments))}), some, arguments[0][0].size)
        for parts in (made.pop(k) for k in some):
            totals = (
                [total + part[0] for total, part in zip(totals, parts, strict=True)]
                if totals
                else [each[0] for each in parts]
            )
    return totals


def by_view(function: Callable[..., R], stack: Any) -> list[R]:
    """The results of a function for each view (1, H, W) of a stack, in order; on a GPU for the whole stack."""
    if not isinstance(stack, np.ndarray):
        return [function(stack)]
    made: dict[int, R] = {}
    _each(lambda k: made.update({k: function(stack[k : k + 1])}), range(len(stack)), stack[0].size)
    return [made[k] for k in range(len(stack))]


def _of_view(k: int, arguments: Sequence[Any]) -> list[Any]:
    return [each[k : k + 1] if np.ndim(each) == 3 else each for each in arguments]


def _each(work: Callable[[int], None], views: range, pixels: int) -> None:
    """Call `work` for each view; large views in several threads."""

    def in_turn(start: int, stop: int) -> None:
        _shared.set(True)
        for k in views[start:stop]:
            work(k)

    if _shared.get() or pixels < ENOUGH or len(views) < 2:
        for k in views:
            work(k)
    else:
        in_bands((len(views), pixels), (in_turn,))


def _on_host(function: Callable[..., Any], arguments: Sequence[Any], choices: dict[str, Any]) -> Any:
    """The results for NumPy arrays, computed on bands of rows if the pixels are independent of other rows."""
    rows = _rows(arguments)
    if rows is None:
        return function(*arguments, **choices)
    height, width = rows
    kinds = tuple(Kind.of(each, per_view=np.shape(each)[-2:] == (1, 1)) for each in arguments)
    made = _of_pixels(function, kinds, tuple(choices.items()))
    if made is None:
        return function(*arguments, **choices)
    many = [(kind.pixels, len(each)) for each, kind in zip(arguments, kinds, strict=True) if kind.views]
    views = min(many)[1] if many else 1  # numbers per view come first: they may select views
    out = [np.empty((*_stacked(each, views), height, width), each.dtype) for each in made]

    def of_band(start: int, stop: int) -> None:
        _shared.set(True)
        band = [each[..., start:stop, :] if kind.pixels else each for each, kind in zip(arguments, kinds, strict=True)]
        parts = function(*band, **choices)
        for whole, part in zip(out, parts if isinstance(parts, tuple) else (parts,), strict=True):
            whole[..., start:stop, :] = part

    in_bands(rows, (of_band,))
    return out[0] if len(out) == 1 else tuple(out)


def _rows(arguments: Sequence[Any]) -> tuple[int, int] | None:
    """The shape (H, W) of the maps if it is the same for all and large enough for several threads, else None."""
    shapes = {each.shape[-2:] for each in arguments if isinstance(each, np.ndarray)} - {(1, 1)}
    if len(shapes) != 1 or any(each.ndim not in (2, 3) for each in arguments if isinstance(each, np.ndarray)):
        return None
    shape: tuple[int, int] = shapes.pop()
    alone = _shared.get() or shape[0] * shape[1] < 2 * ENOUGH or threads() < 2
    return None if alone else shape


@cache
def _of_pixels(
    function: Callable[..., Any], kinds: tuple[Kind, ...], choices: tuple[tuple[str, Any], ...]
) -> list[Traced] | None:
    """The traced results for such arguments; None if a pixel depends on other rows."""
    made = follow(function, kinds, dict(choices))
    return made if all(each.pixels and not _crosses_rows(each) for each in made) else None


def _crosses_rows(value: Any) -> bool:
    if not isinstance(value, Traced):
        return False
    return value.formula in ACROSS_ROWS or any(_crosses_rows(each) for each in value.inputs)


def _stacked(value: Traced, views: int) -> tuple[int, ...]:
    if value.formula == "stack":
        return (len(value.inputs),)
    return (views,) if value.views else ()


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
        made: R = _on_host(function, arguments, choices)
        return made

    FUNCTIONS.append(run)
    return run


def some_views(stack: Any, views: Sequence[int]) -> Any:
    """These views (n, H, W) of a stack; on a GPU CuPy's own indexing would upload their list."""
    if isinstance(stack, np.ndarray):
        return stack[list(views)]
    return _picked(stack, np.array(views, np.int32)[:, None, None])


@one_pass
def _picked(stack: Any, views: Any) -> Any:
    return picked(stack, views)


@one_pass
def times(values: Any, factors: Any) -> Any:
    """Values (K, H, W) times factors (H, W), or one per view."""
    return values * factors
