"""Array functions of pixels as one kernel each (`cfusion.kernels.one_pass`), compiled when they are first called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.cuda.device import Desk, blocks_of, by_value, desk, kernel_of, source
from cfusion.kernels.cuda.launching import Kernel
from cfusion.kernels.tracing import Kind, Traced, follow
from cfusion.kernels.writing import TYPES, Written, write

THREADS = 256
MOST_BY_VALUE = 3 << 10  # bytes of numbers per view that travel with the launch; more lie in memory
PRELUDE = """
#define UNKNOWN __int_as_float(0x7fc00000)
#define INFINITE __int_as_float(0x7f800000)
"""
ROUNDED = ("-fmad=false",)  # each operation on its own, as NumPy has it


class Lent:
    """Numbers per view that lie in the memory of the device."""

    ndim = 3

    def __init__(self, numbers: Any) -> None:
        self.array = cupy.asarray(numbers)
        self.dtype, self.shape = numbers.dtype, numbers.shape


@dataclass(frozen=True, eq=False)
class _Pass:
    """A compiled function: what it makes, and how it is launched."""

    launch: Kernel
    outputs: list[Traced]
    written: Written


_passes: dict[Any, _Pass] = {}


def run(
    function: Callable[..., Any], arguments: Sequence[Any], choices: dict[str, Any], into: Sequence[Any] | None = None
) -> Any:
    """What the function makes of these arguments, its maps on the device, its sums as numbers.

    Stacks and maps lie on the device, numbers per view (K, 1, 1) on the host. `into`: where to write what it makes,
    which may be among the arguments.
    """
    if any(each.ndim not in (2, 3) for each in arguments if isinstance(each, cupy.ndarray)):
        return function(*arguments, **choices)
    if sum(each.nbytes for each in arguments if isinstance(each, np.ndarray)) > MOST_BY_VALUE:
        arguments = [Lent(each) if isinstance(each, np.ndarray) else each for each in arguments]
    key = (function, into is None, tuple(map(_key_of, arguments)), *choices.items())
    made = _passes.get(key)
    if made is None:
        made = _passes[key] = _compiled(function, arguments, choices, "__restrict__" if into is None else "")
    views, height, width = _sizes(arguments)
    written, kept = made.written, into or [_room(each, views, height, width) for each in made.outputs]
    given = [_passed(each) for each in arguments if each is not None]
    sizes = (np.int32(views), np.int32(height), np.int32(width))
    sums = (desk().argument,) if written.totals else ()
    blocks = Desk.BLOCKS if written.totals else blocks_of(height * width, THREADS)
    grid = (blocks, views if written.for_each_view else 1)
    made.launch(grid, (THREADS,), (*given, *sizes, *(each for each in kept if each is not None), *sums))
    found = iter(desk().read(written.totals) if written.totals else ())
    out = tuple(next(found) if each is None else each for each in kept)
    return out[0] if len(out) == 1 else out


def _key_of(given: Any) -> Any:
    """What a kernel depends on: the kind of an argument, and how many views if their numbers travel with the launch."""
    return (given.dtype.char, len(given)) if isinstance(given, np.ndarray) else _kind(given)


def _kind(given: Any) -> Kind:
    return Kind.of(given, per_view=isinstance(given, np.ndarray | Lent))


def _sizes(arguments: Sequence[Any]) -> tuple[int, int, int]:
    shapes = [each.shape for each in arguments if isinstance(each, cupy.ndarray)]
    per_view = [each.shape for each in arguments if isinstance(each, np.ndarray | Lent)]
    views = next((shape[0] for shape in (*per_view, *shapes) if len(shape) == 3), 1)
    return views, *shapes[0][-2:]


def _room(value: Traced, views: int, height: int, width: int) -> Any:
    """Where a map or a stack will lie; None for a sum."""
    if value.formula == "total":
        return None
    first = (len(value.inputs),) if value.formula == "stack" else (views,) if value.views else ()
    return cupy.empty((*first, height, width), value.dtype)


def _passed(given: Any) -> Any:
    """An argument as a kernel takes it."""
    if isinstance(given, cupy.ndarray):
        return given if given.flags.c_contiguous else cupy.ascontiguousarray(given)
    if isinstance(given, np.ndarray):
        return by_value(given)
    if isinstance(given, Lent):
        return given.array
    return given if isinstance(given, np.generic) else np.int32(given) if isinstance(given, int) else np.float64(given)


def _compiled(function: Callable[..., Any], arguments: Sequence[Any], choices: dict[str, Any], apart: str) -> _Pass:
    """The kernel of a function; `apart` says that what it writes is none of what it reads."""
    kinds = [_kind(each) for each in arguments]
    outputs = follow(function, kinds, choices)
    written = write(outputs)
    structures, parameters = [], []
    for number, (kind, given) in enumerate(zip(kinds, arguments, strict=True)):
        if not kind.dtype:
            continue
        of = TYPES[kind.dtype]
        if kind.views and not kind.pixels:
            held = f"{of} v[{len(given)}]" if isinstance(given, np.ndarray) else f"const {of}* v"
            structures.append(f"struct Views{number} {{ {held}; }};")
            parameters.append(f"Views{number} a{number}")
        else:
            parameters.append(f"const {of}* {apart} a{number}" if kind.pixels else f"{of} a{number}")
    parameters += ["int views", "int height", "int width"]
    for number, each in enumerate(outputs):
        if each.formula != "total":
            parameters.append(f"{TYPES[each.dtype.char]}* {apart} out{number}")
    lines = [
        "for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < height * width; p += gridDim.x * blockDim.x) {",
        "const int i = p / width, j = p % width;",
        *(["const int k = blockIdx.y;"] if written.for_each_view else []),
        *written.lines,
        "}",
    ]
    if written.totals:
        parameters.append("Desk desk")
        lines = [f"double found[{written.totals}] = {{}};", *lines, "add_up(found, desk);"]
    head = f'extern "C" __global__ void __launch_bounds__({THREADS}) over_pixels({", ".join(parameters)})'
    reduce = source("reduce.cuh") if written.totals else ""
    code = "\n".join([PRELUDE, reduce, *structures, head, "{", *lines, "}"])
    return _Pass(kernel_of(code, "over_pixels", ROUNDED), outputs, written)
