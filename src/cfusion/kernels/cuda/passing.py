"""Array functions of pixels as one kernel each (`cfusion.kernels.one_pass`), compiled when first called."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.cuda.device import Desk, blocks_of, by_value, desk, kernel_of, source
from cfusion.kernels.cuda.launching import Kernel
from cfusion.kernels.tracing import Kind, Traced, follow
from cfusion.kernels.writing import STRIDED, TYPES, Written, write

THREADS = 256
MOST_BY_VALUE = 3 << 10  # bytes of numbers per view passed by value; more are stored in memory
PRELUDE = """
#define UNKNOWN __int_as_float(0x7fc00000)
#define INFINITE __int_as_float(0x7f800000)
"""
ROUNDED = ("-fmad=false",)  # each operation rounded on its own, as in NumPy


@dataclass(frozen=True, eq=False)
class _Pass:
    """A compiled function: its outputs, its launch, and the arguments that determine its size."""

    launch: Kernel
    outputs: list[Traced]
    written: Written
    of_pixels: int
    of_views: int | None
    lent: bool  # numbers per view are stored in memory


_passes: dict[Any, _Pass | None] = {}


def run(
    function: Callable[..., Any], arguments: Sequence[Any], choices: dict[str, Any], into: Sequence[Any] | None = None
) -> Any:
    """The function's result for these arguments, with maps on the device and sums as numbers.

    Stacks and maps are on the device, numbers per view (K, 1, 1) on the host. `into`: arrays to write to, which may be
    among the arguments. Arrays of other shapes are left to CuPy.
    """
    key = (function, into is None, tuple([_key_of(each) for each in arguments]), *choices.items())
    if key not in _passes:
        _passes[key] = _compiled(function, arguments, choices, "__restrict__" if into is None else "")
    made = _passes[key]
    if made is None:
        return function(*arguments, **choices)
    views = 1 if made.of_views is None else len(arguments[made.of_views])
    grid, sizes, rooms = _plan(made, views, *arguments[made.of_pixels].shape[-2:])
    kept = into or [None if room is None else cupy.empty(*room) for room in rooms]
    given = [_passed(each, made.lent) for each in arguments if each is not None]
    given += (*sizes, *(each for each in kept if each is not None))
    totals = made.written.totals
    if not totals:
        made.launch(grid, (THREADS,), given)
        return kept[0] if len(kept) == 1 else tuple(kept)
    sums = desk()
    made.launch(grid, (THREADS,), (*given, sums.argument))
    found = iter(sums.read(totals))
    out = tuple(next(found) if each is None else each for each in kept)
    return out[0] if len(out) == 1 else out


@lru_cache(maxsize=1024)
def _plan(made: _Pass, views: int, height: int, width: int) -> tuple[Any, tuple[np.int32, ...], list[Any]]:
    """The grid of a pass over so many pixels, their number as its arguments, and shapes and types of its outputs."""
    each_view = views if made.written.for_each_view else 1
    grid = (Desk.BLOCKS,) if made.written.totals else (blocks_of(height * width, THREADS), each_view)
    rooms = [_room(each, views, height, width) for each in made.outputs]
    return grid, (np.int32(views), np.int32(height), np.int32(width)), rooms


def _key_of(given: Any) -> Any:
    """What a kernel depends on: type and rank of an array, and how many numbers per view are passed by value."""
    kind = type(given)
    if kind is cupy.ndarray:
        return given.dtype.char, given.ndim, given._c_contiguous
    if kind is not np.ndarray:
        return kind
    if given.shape[1:] != (1, 1):
        raise TypeError(f"an array of {given.shape} on the host; only numbers per view, (K, 1, 1), are passed by value")
    return kind, given.dtype.char, _places(len(given))


def _places(numbers: int) -> int:
    """Capacity for this many numbers per view, rounded up, so that one kernel serves many numbers of views."""
    return max(8, 1 << (numbers - 1).bit_length())


def _room(value: Traced, views: int, height: int, width: int) -> Any:
    """Shape and type of a map or a stack; None for a sum."""
    if value.formula == "total":
        return None
    if value.views:
        return (views, height, width), value.dtype
    return ((len(value.inputs), height, width) if value.formula == "stack" else (height, width)), value.dtype


def _passed(given: Any, lent: bool) -> Any:
    """An argument in the form that a kernel takes."""
    kind = type(given)
    if kind is cupy.ndarray:
        return given if given._c_contiguous else _strided(given)
    if kind is np.ndarray:
        if lent:
            return cupy.asarray(given)
        return by_value(given).ljust(_places(len(given)) * given.itemsize, b"\0")
    return np.float64(given) if kind is float else np.int32(given) if kind is int else given


def _strided(given: Any) -> bytes:
    """`Strided` of a part of an array, such as every third column."""
    places = (0, *(stride // given.itemsize for stride in given.strides))[-3:]
    return struct.pack("4q", given.data.ptr, *places)


def _compiled(
    function: Callable[..., Any], arguments: Sequence[Any], choices: dict[str, Any], apart: str
) -> _Pass | None:
    """The kernel of a function; `apart` says that its outputs are none of its inputs."""
    if any(each.ndim not in (2, 3) for each in arguments if isinstance(each, cupy.ndarray)):
        return None
    kinds = [Kind.of(each, per_view=isinstance(each, np.ndarray)) for each in arguments]
    lent = sum(_places(len(each)) * each.itemsize for each in arguments if isinstance(each, np.ndarray)) > MOST_BY_VALUE
    outputs = follow(function, kinds, choices)
    on_device = [(f"a{number}", each) for number, each in enumerate(arguments) if isinstance(each, cupy.ndarray)]
    strided = {name for name, each in on_device if not each._c_contiguous}
    written = write(outputs, strided)
    structures, parameters = [STRIDED], []
    for number, (kind, given) in enumerate(zip(kinds, arguments, strict=True)):
        if not kind.dtype:
            continue
        of = TYPES[kind.dtype]
        if kind.views and not kind.pixels:
            held = f"const {of}* v" if lent else f"{of} v[{_places(len(given))}]"
            structures.append(f"struct Views{number} {{ {held}; }};")
            parameters.append(f"const __grid_constant__ Views{number} a{number}")  # else each thread copies it
        elif f"a{number}" in strided:
            parameters.append(f"const Strided<{of}> a{number}")
        else:
            parameters.append(f"const {of}* {apart} a{number}" if kind.pixels else f"{of} a{number}")
    parameters += ["int views", "int height", "int width"]
    for number, each in enumerate(outputs):
        if each.formula != "total":
            parameters.append(f"{TYPES[each.dtype.char]}* {apart} out{number}")
    code = _text(structures, parameters, written)
    many = [number for number, kind in enumerate(kinds) if kind.views]
    of_views = min(many, key=lambda number: kinds[number].pixels) if many else None  # numbers per view come first
    of_pixels = next(number for number, kind in enumerate(kinds) if kind.pixels)
    return _Pass(kernel_of(code, "over_pixels", ROUNDED), outputs, written, of_pixels, of_views, lent)


def _text(structures: list[str], parameters: list[str], written: Written) -> str:
    """The whole source of a kernel."""
    lines = [
        "for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < height * width; p += gridDim.x * blockDim.x) {",
        "const int i = p / width, j = p % width;",
        *(["const int k = blockIdx.y;"] if written.for_each_view else []),
        *written.lines,
        "}",
    ]
    if written.totals:
        parameters = [*parameters, "Desk desk"]
        lines = [f"double found[{written.totals}] = {{}};", *lines, "add_up(found, desk);"]
    head = f'extern "C" __global__ void __launch_bounds__({THREADS}) over_pixels({", ".join(parameters)})'
    reduce = source("reduce.cuh") if written.totals else ""
    return "\n".join([PRELUDE, reduce, *structures, head, "{", *lines, "}"])
