"""An array function in one pass is the function: its kernel, emulated or on a GPU, against NumPy's run of its text."""

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.noise_laws import LAWS

from cfusion import kernels, result
from cfusion.auto import (
    assess,
    at_edges,
    belief,
    cross_validation,
    edges,
    evidence,
    first_surface,
    fit,
    halves,
    holes,
    misreading,
    noise,
    occlusion,
    outlines,
    pooling,
    reading,
    registration,
    rivals,
    rounding,
    small_parts,
    specks,
    surface,
    uncertainty,
    variable,
    votes,
)
from cfusion.confidence import geometric
from cfusion.energy import Prior
from cfusion.errors import BackendUnavailable
from cfusion.kernels import one_pass as passes
from cfusion.kernels import threads
from cfusion.kernels.depth_noise import unit_of
from cfusion.kernels.numpy.pulling import confirmed
from cfusion.kernels.tracing import Kind, Traced, follow, heaped, looked_up, neighbour, picked, row_and_column
from cfusion.kernels.writing import STRIDED, TYPES, write
from cfusion.solvers import joint, task
from cfusion.source import splat

PRELUDE = """#include <math.h>
#include <stddef.h>
#define UNKNOWN NAN
#define INFINITE INFINITY
static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }
"""
SHAPES = ((9, 14), (2, 3), (1, 7), (6, 1))
VIEWS = 4
BENT = [0.0, 9.0, 9.5, 6.2, 4.1, -0.1, 0.02, 0.01, 0.003, 0.001]
STRAIGHT, PARALLEL = [0.0, 9.0, 9.5, 6.2, 4.1, 0, 0, 0, 0, 0], [1.0, 3.0, 3.0, 6.2, 4.1, 0, 0, 0, 0, 0]


Case = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]  # a function, arguments, choices


def emulate(given: list[Case], folder: Path) -> list[tuple[Any, ...]]:
    """What the kernels of array functions make of NumPy's arrays, one pixel after the other on the CPU."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    emulated = [_Emulated(number, *case) for number, case in enumerate(given)]
    code = "\n".join([PRELUDE, STRIDED, *(each.code() for each in emulated)])
    library = folder / f"{hashlib.sha256(code.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        library.with_suffix(".cpp").write_text(code)
        options = ["-O1", "-ffp-contract=off", "-shared", "-fPIC"]
        subprocess.run([compiler, *options, library.with_suffix(".cpp"), "-o", library], check=True)
    loaded = ctypes.CDLL(str(library))
    return [each.run(loaded) for each in emulated]


class _Emulated:
    """One function, traced for its arguments."""

    def __init__(self, number: int, function: Callable[..., Any], arguments: tuple[Any, ...], choices: Any) -> None:
        self.name, self.arguments = f"run{number}", arguments
        self.kinds = [Kind.of(each, per_view=getattr(each, "shape", ())[1:] == (1, 1)) for each in arguments]
        self.outputs = follow(getattr(function, "__wrapped__", function), self.kinds, choices)
        maps = [(f"a{number}", each) for number, each in enumerate(arguments) if self.kinds[number].pixels]
        self.strided = {name for name, each in maps if not each.flags.c_contiguous}
        self.written = write(self.outputs, self.strided)

    def run(self, library: Any) -> tuple[Any, ...]:
        given = list(zip(self.arguments, self.kinds, strict=True))
        many = [(len(each), kind.pixels) for each, kind in given if kind.views]
        views = min(many, key=lambda each: each[1])[0] if many else 1
        shape = next(each.shape[-2:] for each, kind in given if kind.pixels)
        made = [_room(each, views, shape) for each in self.outputs]
        found = np.zeros(max(self.written.totals, 1))
        arrays = [self._lent(number, each) for number, each in enumerate(self.arguments) if each is not None]
        arrays += [*(each for each in made if each is not None), found]
        getattr(library, self.name)(views, *shape, *(ctypes.c_void_p(each.ctypes.data) for each in arrays))
        sums = iter(found.tolist())
        return tuple(next(sums) if each is None else each for each in made)

    def _lent(self, number: int, given: Any) -> Any:
        if f"a{number}" not in self.strided:
            return np.ascontiguousarray(given)
        return np.array([given.ctypes.data, *(0, *(each // given.itemsize for each in given.strides))[-3:]])

    def code(self) -> str:
        """A function that loops over the pixels; all it is given are pointers."""
        structs, parameters, unpacked = [], [], []
        for number, (kind, given) in enumerate(zip(self.kinds, self.arguments, strict=True)):
            if not kind.dtype:
                continue
            of = TYPES[np.asarray(given).dtype.char]
            parameters.append(f"const {of}* p{number}")
            if kind.views and not kind.pixels:
                structs.append(f"struct {self.name}_{number} {{ {of} v[{len(given)}]; }};")
                unpacked.append(f"const {self.name}_{number} a{number} = *(const {self.name}_{number}*)p{number};")
            elif f"a{number}" in self.strided:
                unpacked.append(f"const Strided<{of}> a{number} = *(const Strided<{of}>*)p{number};")
            else:
                pointer = "*" if kind.pixels else ""
                unpacked.append(f"const {of}{pointer} a{number} = {'' if kind.pixels else '*'}p{number};")
        kept = [(n, each) for n, each in enumerate(self.outputs) if each.formula != "total"]
        parameters += [f"{TYPES[each.dtype.char]}* out{number}" for number, each in kept]
        loops = "for (int i = 0; i < height; i++) for (int j = 0; j < width; j++)"
        loops += " for (int k = 0; k < views; k++) {" if self.written.for_each_view else " {"
        body = "\n".join([*unpacked, loops, "const size_t p = (size_t)i * width + j;", *self.written.lines, "}"])
        head = ", ".join(["int views", "int height", "int width", *parameters, "double* found"])
        return f'{" ".join(structs)}\nextern "C" void {self.name}({head}) {{\n{body}\n}}\n'


def _room(value: Traced, views: int, shape: tuple[int, ...]) -> Any:
    if value.formula == "total":
        return None
    first = (len(value.inputs),) if value.formula == "stack" else (views,) if value.views else ()
    return np.full((*first, *shape), 77, value.dtype)  # what is not written shows


def on_gpu(given: list[Case], _: Path) -> list[tuple[Any, ...]]:
    """The same on a device."""
    try:
        backend = kernels.load("cuda")
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    run, out = import_module("cfusion.kernels.cuda.passing").run, []
    for function, arguments, choices in given:
        stays = [getattr(each, "ndim", 0) < 2 or each.shape[1:] == (1, 1) for each in arguments]
        there = [x if kept else _uploaded(backend, x) for x, kept in zip(arguments, stays, strict=True)]
        made = run(getattr(function, "__wrapped__", function), there, choices)
        out.append(tuple(each if isinstance(each, float) else backend.to_host(each) for each in _several(made)))
    return out


def _uploaded(backend: Any, array: Any) -> Any:
    """An array on the device, as far apart in memory as here."""
    if array.flags.c_contiguous:
        return backend.to_device(array, array.dtype)
    rows, columns = 2, array.strides[-1] // array.itemsize
    wide = np.repeat(np.repeat(array, columns, axis=-1), rows, axis=-2)
    return backend.to_device(wide, array.dtype)[..., ::rows, ::columns]


def _several(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


RUNS = {"emulated": emulate, "gpu": on_gpu}


class Inputs:
    """Random maps and stacks, with holes."""

    def __init__(self, shape: tuple[int, int], seed: int) -> None:
        self.rng, self.shape = np.random.default_rng(seed), shape

    def map(self, dtype: Any = np.float32, holes: float = 0.2, centre: float = 2.0) -> np.ndarray:
        values = self.rng.normal(centre, 1, self.shape).astype(dtype)
        values[self.rng.random(self.shape) < holes] = np.nan
        return values

    def stack(self, holes: float = 0.2) -> np.ndarray:
        return np.stack([self.map(holes=holes) for _ in range(VIEWS)])

    def positive(self, *first: int) -> np.ndarray:
        values = self.rng.uniform(0.1, 2, (*first, *self.shape)).astype(np.float32)
        return np.where(self.rng.random(values.shape) < 0.3, 0, values).astype(np.float32)

    def unit(self) -> np.ndarray:
        return self.rng.uniform(0.5, 2, self.shape).astype(np.float32)

    def mask(self, *first: int) -> np.ndarray:
        return self.rng.random((*first, *self.shape)) < 0.5

    def doubles(self) -> np.ndarray:
        return self.rng.random(self.shape)

    def per_view(self, dtype: Any = np.float32) -> np.ndarray:
        return self.rng.uniform(0.2, 1, (VIEWS, 1, 1)).astype(dtype)


def cases(i: Inputs) -> list[Case]:
    """Every function in one pass, with arguments."""
    f32, reliefs = np.float32, [i.positive() for _ in range(5)]
    out: list[Case] = [
        *((unit_of, (i.map(), *law.numbers), {"law": law.law}) for law in LAWS),
        *((surface._local_slope, (i.map(), *law.numbers), {"law": law.law}) for law in LAWS),
        *((noise._step_sizes, (i.map(), *law.numbers), {"law": law.law}) for law in LAWS),
        *(
            (
                confirmed,
                (*(i.stack(), i.positive(VIEWS), i.map(), i.mask(VIEWS)), i.per_view(), np.int32(1), *law.numbers),
                {"law": law.law, "holes": holes},
            )
            for law in LAWS
            for holes in (False, True)
        ),
        (surface.blend, (i.map(), i.map(), 0.3), {}),
        (surface.add_plane, (i.map(), 0.1, -0.2), {}),
        (edges.edge_weights, (i.map(), i.unit()), {}),
        (passes.times, (i.positive(VIEWS), i.per_view()), {}),
        *((passes._picked, (each, np.int32([2, 0])[:, None, None]), {}) for each in (i.stack(), i.mask(VIEWS))),
        (geometric._completed, (i.stack(), i.per_view(), 0.3), {}),
        (geometric._where_known, (i.stack(), i.positive(VIEWS)), {}),
        (joint._strength, (i.positive(),), {"prior": Prior(shape=1.5)}),
        *((noise._known, (i.positive(VIEWS), i.stack(), i.map(), *law.numbers), {"law": law.law}) for law in LAWS),
        (
            noise._apart,
            (i.stack(), np.int32([1, 2, 2, 3, 3, 3])[:, None, None], np.int32([0, 0, 1, 0, 1, 2])[:, None, None]),
            {},
        ),
        (noise._not_positive, (i.map(centre=0),), {}),
        (noise._together, (i.map(), i.map(), i.map()), {}),
        (noise._steep, (i.map(), 0.2, 0.3), {}),
        (
            noise._beside_edges,
            (i.positive(VIEWS), i.doubles(), i.per_view(np.float64), (np.arange(VIEWS) == 2)[:, None, None]),
            {},
        ),
        (misreading._believed, (i.map(), i.map(), f32(0.4), f32(0.5)), {}),
        (misreading._mean_size, (i.map(np.float64, 0), i.doubles()), {}),
        (misreading._reliefs, (i.unit(), *reliefs), {}),
        (misreading._pixels, (i.stack(), i.unit()), {}),
        (
            misreading._read_rightly,
            (i.positive(VIEWS), 10 * i.stack(), i.unit(), i.per_view(), i.per_view(), *reliefs),
            {},
        ),
        (misreading._sum, (i.positive(VIEWS),), {}),
        (misreading._given_back, (i.positive(), i.positive(VIEWS)), {}),
        (passes.times, (i.positive(VIEWS), i.unit()), {}),
        (votes.in_units, (i.stack(), i.map(), i.unit()), {}),
        (occlusion._times, (i.unit(), f32(0.3), f32(2.0), f32(0.7), f32(0.4)), {}),
        (occlusion._further, (i.map(), i.map(), i.unit(), f32(0.6), i.positive(VIEWS), 2, f32(0.5)), {}),
        (
            at_edges._seen_past,
            (
                *(i.stack(), np.where(i.mask(VIEWS), 0, i.positive(VIEWS))),
                *((np.arange(VIEWS) != 2)[:, None, None], f32(0.3)),
            ),
            {},
        ),
        (at_edges._further_one, (i.map(), i.map()), {}),
        (occlusion._lone_specks, (0.01 * i.stack(), i.map(), i.unit(), 2, f32(0.5), f32(0.02)), {}),
        (
            at_edges._lost,
            (
                *(i.mask(), i.positive(), i.stack(), np.where(i.mask(VIEWS), 0, i.positive(VIEWS))),
                *((np.arange(VIEWS) != 2)[:, None, None], f32(0.3), i.mask(), i.mask()),
            ),
            {},
        ),
        (at_edges._uncontested, (i.positive(VIEWS), 2, i.mask(), i.mask()), {}),
        *((at_edges._lost_to_smoothing, (i.map(), i.map(), i.unit(), f32(0.1), held), {}) for held in (None, i.mask())),
        (at_edges._either, (i.mask(), i.map(), i.map()), {}),
        (at_edges.support_of, (i.positive(VIEWS), 2), {}),
        (occlusion._denied, (i.mask(), i.positive(), 1.5), {}),
        (
            occlusion._without,
            (i.stack(), i.positive(VIEWS), i.mask(VIEWS), i.mask(VIEWS), (np.arange(VIEWS) != 1)[:, None, None]),
            {},
        ),
        (outlines.thin_parts, (i.map(), i.unit(), f32(0.02)), {}),
        (outlines.measured_alike, (i.mask(), i.map(), i.map(), i.unit(), f32(0.2)), {}),
        (
            outlines._tally,
            (
                *(i.mask(), i.mask(), i.mask(), i.mask(), i.positive()),
                *(i.positive(VIEWS), 2, i.positive(), i.positive(), f32(0.5), f32(2.0)),
            ),
            {},
        ),
        (outlines._mass, (np.where(i.mask(), 0, i.positive(VIEWS)),), {}),
        (outlines._counted, (i.mask(),), {}),
        (outlines._cores, (9 * i.doubles(),), {}),
        (outlines._placed, (i.mask(), i.positive(), i.positive(), f32(0.5), i.map(), i.stack(), 2), {}),
        (
            outlines._held,
            (
                *(np.where(i.mask(VIEWS), 0, i.positive(VIEWS)), i.mask(), i.mask()),
                *((np.arange(VIEWS) == 2)[:, None, None], f32(0.7)),
            ),
            {},
        ),
        (
            outlines._of_reference,
            (i.stack(), i.positive(VIEWS), i.mask(), (np.arange(VIEWS) == 2)[:, None, None], f32(0.7)),
            {},
        ),
        (pooling._weighed, (i.positive(), i.mask()), {}),
        (pooling._weighed, (i.positive(), i.positive()), {}),
        (pooling.ratio, (i.doubles(), i.doubles()), {}),
        (specks._observed, (np.where(i.mask(), 0, i.positive(VIEWS)),), {}),
        (specks._of_others, (i.doubles(), np.where(i.mask(), 0, i.positive(VIEWS)), 2), {}),
        (specks._few, (i.map(), i.positive(VIEWS), 2, f32(0.5)), {}),
        (votes._less, (i.stack(), i.map()), {}),
        (votes._excess, (i.positive(), i.positive(), i.positive(), i.positive()), {}),
        (votes._believed, (i.stack(), i.positive(VIEWS), np.float32(0.3)), {}),
        *((rivals._range, (i.map(), i.positive()), {"within": pixels}) for pixels in (0, 1)),
        *(
            (rivals._contested, (i.map(), i.map(), 4 * i.positive(), 4 * i.positive()), {"holes": each})
            for each in (True, False)
        ),
        (rivals._refuted, (i.map(), 5 * i.positive(), -i.positive(), i.positive(), np.float32(0.2)), {}),
        (rivals._most_of, (25 * i.doubles(), 25 * i.doubles()), {}),
        *((rivals._near, (i.map(), i.map(), i.doubles(), i.doubles()), {"jagged": each}) for each in (True, False)),
        (rivals._least, (i.map(), i.map()), {}),
        (rivals._where_differs, (i.map(), i.map(), i.positive(), i.positive(), i.positive(), i.positive()), {}),
        (fit._specks_moved, (i.map(), i.map(), i.positive(), i.mask(), f32(0.3)), {"inverse": False}),
        (fit._specks_moved, (i.positive(), i.map(), i.positive(), i.mask(), f32(0.3)), {"inverse": True}),
        (small_parts._rods, (i.map(), i.map(), 0.02 * i.unit(), np.float32(6), np.float32(4)), {}),
        (small_parts._where_thin, (i.mask(), i.positive(), i.map(), i.map()), {}),
        (small_parts._elsewhere, (i.map(), np.float32(0.3)), {}),
        (small_parts._most_of, (9 * i.doubles(), f32(6.5)), {}),
        (small_parts._or_rods, (np.stack([i.doubles()]) > 0.5, i.map(), i.map(), i.unit(), f32(0.02)), {}),
        (small_parts._widened, (i.map(), np.where(i.mask(), i.map(), i.map())), {}),
        (small_parts._or_beside, (i.stack(), i.map(), i.map(), i.doubles()), {}),
        (small_parts._or_around, (i.map(), i.map(), i.positive(), i.doubles()), {}),
        (small_parts._or_unseen, (i.map(), i.map(), i.positive(), i.stack() > 0), {}),
        (small_parts._if_apart, (i.stack(), i.stack(), i.stack(), i.map(), i.map(), f32(1)), {}),
        (small_parts._or_unknown, (i.stack(), i.map(), i.map(), i.positive(VIEWS)[:, :1, :1]), {}),
        (small_parts._where_differs, (i.map(), i.map(), i.positive(), i.positive()), {}),
        (votes.seen, (i.map(), i.map(), i.doubles(), 3 * i.doubles()), {}),
        (first_surface._outvoted, (i.map(), i.map(), i.doubles(), 3 * i.doubles()), {}),
        (first_surface._either, (i.mask(), i.map(), i.map()), {}),
        (
            first_surface._not_outvoted,
            (i.map(), i.map(), i.doubles(), 3 * i.doubles(), i.doubles(), 3 * i.doubles()),
            {},
        ),
        (surface.or_else, (i.map(), i.map()), {}),
        *(
            (cross_validation._changed, (i.stack(), before, i.positive(VIEWS)), {})
            for before in (None, i.positive(VIEWS))
        ),
        *(
            (function, (*given, i.map(), *law.numbers), {"law": law.law, "inverse": inverse})
            for function, given in (
                (variable._weights, (i.stack(),)),
                (variable._reweighed, (i.positive(VIEWS),)),
                (variable._factor, ()),
            )
            for law in LAWS
            for inverse in (False, True)
            if not law.even(inverse=inverse)
        ),
        *(
            (holes._of_constant_noise, (i.map(), f32(0.4), *law.numbers), {"law": law.law})
            for law in LAWS
            if not law.even(inverse=True)
        ),
        *(
            (
                uncertainty._from_whole,
                (i.unit(), i.map(), *(each for _ in range(number) for each in (i.map(), i.positive(), i.positive()))),
                {},
            )
            for number in (1, 2)
        ),
        (rounding._spread, (i.stack(), i.unit(), i.unit(), *(i.per_view() for _ in range(4))), {}),
        (uncertainty._variance_of, (0.04 * i.doubles(), i.doubles()), {}),
        (uncertainty._inside_and_known, (i.map(),), {}),
        (uncertainty._bend, (i.map(), i.unit(), 9 * i.doubles(), i.positive(), i.map(np.float64)), {}),
        (uncertainty._beyond_slope, (i.positive(), i.map()), {}),
        (uncertainty._or_told, (i.doubles(), i.mask(), i.doubles(), i.mask()), {}),
        (uncertainty._mean_size, (i.rng.integers(0, 4, i.shape).astype(f32), i.positive()), {}),
        *((uncertainty._products, (i.stack() - f32(2), each), {"lag": 2}) for each in (None, i.mask())),
        (uncertainty._flat, (i.map() - f32(2), i.doubles()), {}),
        (uncertainty._sizes_and_sum, (i.stack() - f32(2),), {}),
        (uncertainty._excess, (i.stack(), i.positive(), i.doubles()), {}),
        (uncertainty._or_of_another_surface, (i.unit(), i.positive(), i.unit(), i.positive(), 0.9), {}),
        (uncertainty._where_any, (i.positive(), i.doubles()), {}),
        (surface.where_known, (i.map(), i.positive()), {}),
        *(
            (
                uncertainty._deviation,
                (
                    i.map(np.float64),
                    i.doubles(),
                    i.positive(),
                    i.positive(),
                    i.doubles(),
                    i.map(),
                    i.positive(),
                    i.unit(),
                    0.4,
                    0.1,
                    0.2,
                    2.4,
                ),
                {"compared": compared},
            )
            for compared in (True, False)
        ),
        *(
            (uncertainty._with_poses, (i.positive(), i.map(), i.map(), *(f32(0.1 * k) for k in range(1, 12))), choice)
            for choice in ({"parallel": False}, {"parallel": True})
        ),
        (assess._at_least_rounding, (i.map(), i.map()), {}),
        (assess._at_least, (i.doubles(), f32(0.3)), {}),
        (belief._in_front, (i.map(), i.map(), 0.02 * i.unit()), {}),
        (belief._unless_in_front, (i.positive(), i.mask(), i.positive()), {}),
        (belief._shares, (i.positive(), i.positive(), i.map()), {}),
        (belief._smooth, (i.map(), i.unit()), {}),
        (belief._unlike, (i.positive(), i.positive()), {}),
        (surface.shown, (i.map(),), {}),
        (belief._or_across_a_hole, (i.mask(), i.positive(), i.positive(), 0.2 * i.unit()), {}),
        (belief._or_an_end, (i.mask(), i.positive()), {}),
        (belief._hidden, (i.mask(), i.positive(), 2 * i.positive(), i.map()), {}),
        (belief._against, (i.mask(), i.mask(), 9 * i.positive(), 0.4 * i.unit(), i.positive()), {}),
        (belief._against, (i.mask(), i.mask(), 9 * i.positive(), 0.4 * i.unit(), None), {}),
        (belief.out_of_line, (i.map(), i.unit()), {}),
        (belief._unless_outlined, (i.map(), 0.4 * i.unit(), i.mask(), i.positive(), i.mask(), i.positive()), {}),
        (surface.where_known, (i.map(), i.doubles()), {}),
        *(
            (
                belief._probability,
                (
                    *(i.positive(), i.positive(), i.map(), i.doubles(), 0.3 * i.doubles(), i.mask(), 9 * i.positive()),
                    *(i.map(np.float64), 0.4),
                ),
                {"told": told, "many": many},
            )
            for told, many in ((False, True), (True, False), (True, True))
        ),
        (belief._unless_alone, (i.positive(), 2 * i.positive(), i.positive(), i.mask()), {}),
        (belief._sights, (i.positive(), np.rint(4 * i.positive()), i.mask(), 12), {}),
        (belief._in_holes, (i.positive(), i.mask(), i.positive()), {}),
        (evidence._said, (i.stack(), i.positive(VIEWS), i.map(), i.unit(), i.per_view()), {}),
        (evidence._mass, (i.positive(VIEWS), i.mask(VIEWS), i.mask(VIEWS)), {}),
        (evidence._trusted, (i.positive(VIEWS), i.mask(VIEWS), i.mask(VIEWS), np.float64(0.7)), {}),
        (holes._holes, (i.mask(), i.mask()), {}),
        (holes._measured, (i.mask().astype(f32),), {}),
        (occlusion._far_off, (i.map(centre=0), i.positive(), i.unit(), f32(0.4), f32(0.6)), {}),
        *(
            (holes._completed, (i.map(), i.mask(), i.map(), 0.1, 0.2, f32(0.3)), {"inverse": each})
            for each in (False, True)
        ),
        (holes._changes, (i.map(), i.map()), {}),
        (holes._within_one, (i.mask(), i.map(), 1.7), {}),
        (holes._to_fill, (i.map(), i.mask(), i.map(), 1.7, 0.1, -0.2), {}),
        (surface.count_known, (i.map(),), {}),
        (registration._sizes, (i.map(), i.stack()), {}),
        (splat._known, (i.map(),), {}),
        (splat._known, (i.stack(),), {}),
        (splat._filled, (i.mask(VIEWS), i.stack()), {}),
        (task._second_differences, (i.map(), i.positive()), {}),
        (halves._asking, (i.positive(), i.mask()), {}),
        (surface.count_known, (i.stack(),), {}),
        *((assess._units, (i.unit(), i.map(), f32(0.3)), {"inverse": each}) for each in (False, True)),
        (assess._or_around, (i.positive(), i.mask(), i.doubles()), {}),
        *((assess._unsure, (i.positive(), i.unit(), i.map()), {"relative": each}) for each in (False, True)),
        (assess._believed, (i.map(), i.positive(), i.map(), f32(0.8)), {}),
        *(
            (assess._fitted, (i.stack(), each, i.map(), i.unit(), i.positive(), f32(1.5)), {})
            for each in (None, i.positive(VIEWS))
        ),
        (reading._sizes, (i.stack(), i.map(), i.unit()), {}),
        (result._provenance, (i.rng.integers(0, 4, i.shape).astype(np.int32), i.map()), {}),
        (result._of_mean, (i.doubles(), i.rng.integers(0, 4, i.shape).astype(np.int32)), {}),
    ]
    return out


@pytest.mark.parametrize("where", RUNS)
@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_a_pass_is_its_text(where: str, shape: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> None:
    given = cases(Inputs(shape, 3))
    for (function, arguments, choices), made in zip(
        given, RUNS[where](given, tmp_path_factory.getbasetemp()), strict=True
    ):
        with np.errstate(all="ignore"):
            defined = _several(function(*arguments, **choices))
        _assert_same(defined, made, f"{function.__module__}.{function.__name__}")


def _assert_same(defined: tuple[Any, ...], made: tuple[Any, ...], what: str) -> None:
    assert len(defined) == len(made), what
    for one, other in zip(defined, made, strict=True):
        one = np.asarray(one)
        if one.ndim:
            assert (one.shape, one.dtype) == (other.shape, other.dtype), what
        np.testing.assert_allclose(other, one, rtol=2e-6, atol=1e-7, err_msg=what)


def test_every_pass_is_tested() -> None:
    tested = {function for function, _, _ in cases(Inputs((3, 4), 0))} | {evidence._float_in_stack}
    missing = [f"{each.__module__}.{each.__name__}" for each in passes.FUNCTIONS if each not in tested]
    assert not [each for each in missing if each.startswith("cfusion.")], "a pass without inputs here"


@pytest.mark.parametrize("where", RUNS)
@pytest.mark.parametrize("camera", [STRAIGHT, PARALLEL, BENT], ids=["straight", "parallel", "bent"])
def test_what_floats_in_a_stack_is_what_floats(where: str, camera: list[float], tmp_path: Path) -> None:
    """On the host only what contradicts is looked at, on a GPU every pixel."""
    i = Inputs((9, 14), 5)
    residual, depth, unit = i.stack(holes=0.1) - np.float32(2.3), i.map(holes=0.1, centre=6), i.unit()
    contradiction, limits = i.mask(VIEWS) & ~np.isnan(residual), i.per_view()
    places = [
        evidence.Placed(np.array(STRAIGHT if k % 2 else PARALLEL), np.eye(3, 4) + 0.05 * i.rng.normal(0, 1, (3, 4)))
        for k in range(VIEWS)
    ]
    ours = contradiction.copy()
    evidence._take_back_occluders(ours, depth, residual, limits, unit, np.array(camera), places)
    assert 0 < (ours != contradiction).sum() < contradiction.sum()
    motions = np.stack([place.view_from_reference for place in places]).reshape(-1, 12).T
    moves = [np.array([place.camera[0] == 0 for place in places]), *motions]
    arguments = (contradiction, residual, depth, unit, limits, *(each[:, None, None] for each in moves), *camera)
    kinds = {"perspective": camera[0] == 0, "bent": any(camera[5:])}
    ((made,),) = RUNS[where]([(evidence._float_in_stack, arguments, kinds)], tmp_path)
    assert np.array_equal(made, ours)


def _everything(stack: Any, low: Any, one: Any, two: Any, number: float, index: int) -> Any:
    """Loops in loops, places beside places, sums of views inside stacks."""
    row, column = row_and_column(low)
    total = np.nan_to_num(stack).sum(axis=0)
    share = np.where(total > 0, stack / np.maximum(total, 1), number)
    slope = neighbour(neighbour(low, 1, 0, 0.0) - low, 0, -1, np.nan)
    around = heaped(np.nan_to_num(low), 1, -2, 3, 1) + heaped(np.nan_to_num(low), 0, 1, 2, 0)
    at = np.where(row > 1, row - 1, row).astype(np.int32), np.where(column > 0, 0, column).astype(np.int32)
    seen = looked_up(low, *np.broadcast_arrays(*at)) if not isinstance(low, Traced) else looked_up(low, *at)
    pairs = np.abs(picked(stack, one) - picked(stack, two))
    scaled = number * low
    return (
        share * (share > 0.1),
        np.clip(neighbour(stack, -1, 2, 0.5), 0, 1.5).sum(axis=0),
        np.stack([slope, around, seen]),
        (~np.isnan(stack)).any(axis=0) & (low > 0),
        (share > 0).sum(),
        stack[index] - stack[0],
        pairs,
        np.sign(low) * row + column**2,
        *(np.abs(low) ** power for power in (0, 0.5, 1, 1.5, 2)),
        *(neighbour(low > 1.0, 0, 1, outside) for outside in (True, False)),
        *(neighbour(low, 1, 0, outside) for outside in (np.inf, -np.inf)),
        *(each - neighbour(each, 1, -1, 0.0) for each in (scaled, around, total, row * column, seen)),
    )


@pytest.mark.parametrize("where", RUNS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_can_be_written_is_computed(where: str, shape: tuple[int, int], tmp_path: Path) -> None:
    i = Inputs(shape, 1)
    one, two = np.int32([1, 0, 3, 2])[:, None, None], np.int32([0, 3, 3, 1])[:, None, None]
    arguments = (i.stack(), i.map(), one, two, 0.25, 2)
    with np.errstate(all="ignore"):
        defined = _everything(*arguments)
    (made,) = RUNS[where]([(_everything, arguments, {})], tmp_path)
    _assert_same(defined, made, "everything")


@pytest.mark.parametrize("where", RUNS)
def test_parts_of_arrays_are_read_where_they_are(where: str, tmp_path: Path) -> None:
    i = Inputs((9, 14), 6)
    one, two = np.int32([1, 0, 3, 2])[:, None, None], np.int32([0, 3, 3, 1])[:, None, None]
    arguments = (i.stack()[..., 1::2, ::3], i.map()[::2, ::3][:4], one, two, 0.25, 2)
    assert not any(each.flags.c_contiguous for each in arguments[:2])
    with np.errstate(all="ignore"):
        defined = _everything(*arguments)
    (made,) = RUNS[where]([(_everything, arguments, {})], tmp_path)
    _assert_same(defined, made, "everything")


def test_stacks_are_rewritten_and_added_up_view_by_view() -> None:
    i = Inputs((5, 6), 2)
    weights, factors = i.positive(VIEWS), i.per_view()
    wanted = weights * factors
    passes.rewrite(passes.times, (weights,), weights, factors)
    assert np.array_equal(weights, wanted)
    total, count = passes.added_up(lambda each, by: (each * by, (each > 0).astype(np.int32)), weights, factors)
    assert np.array_equal(total, (weights * factors).sum(axis=0))
    assert np.array_equal(count, (weights > 0).sum(axis=0))


def test_arrays_that_are_not_of_the_host_are_handed_over_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain function with its arguments and targets, or one that returns sums over views; once each."""
    told: list[Any] = []
    monkeypatch.setattr(passes, "_on_gpu", lambda: lambda *given: told.append(given) or ("one", "other"))
    there, weights = object(), Inputs((5, 6), 2).positive(VIEWS)
    passes.rewrite(passes.times, (there,), there, 3)
    assert passes.added_up(lambda each: (each, 2 * each), there) == ["one", "other"]
    (function, *handed), (sums, *of_sums) = told
    assert (function, *handed) == (passes.times.__wrapped__, (there, 3), {}, (there,))  # type: ignore[attr-defined]
    assert of_sums == [(there,), {}]
    assert np.array_equal(sums(weights), [weights.sum(axis=0), (2 * weights).sum(axis=0)])


LARGE = (300, 240)  # worth two threads


def shared_by(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let so many threads share the work, whatever the machine has."""
    for module in (passes, threads):
        monkeypatch.setattr(module, "threads", lambda: many)


def test_a_pass_on_bands_of_rows_has_the_bits_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    given = cases(Inputs(LARGE, 3))
    on_bands = []
    of_pixels = passes._of_pixels
    monkeypatch.setattr(passes, "_of_pixels", lambda *each: on_bands.append(of_pixels(*each)) or on_bands[-1])
    with np.errstate(all="ignore"):
        for function, arguments, choices in given:
            shared_by(1, monkeypatch)
            defined = _several(function(*arguments, **choices))
            shared_by(3, monkeypatch)
            for one, other in zip(defined, _several(function(*arguments, **choices)), strict=True):
                assert np.asarray(one).dtype == np.asarray(other).dtype, function.__name__
                assert np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f"), function.__name__
    assert sum(each is None for each in on_bands) > 5, "what crosses rows stays whole"
    assert sum(each is not None for each in on_bands) > len(given) / 2


@pytest.mark.parametrize("many", [1, 2, 3])
def test_views_that_are_worked_on_at_the_same_time_give_the_same_bits(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_by(many, monkeypatch)
    i = Inputs(LARGE, 4)
    weights, factors = i.positive(VIEWS), i.per_view()
    wanted = weights * factors
    passes.rewrite(passes.times, (weights,), weights, factors)
    assert np.array_equal(weights, wanted)
    (total,) = passes.added_up(lambda each, by: (each * by,), weights, factors)
    parts = weights * factors
    assert np.array_equal(total, ((parts[0] + parts[1]) + parts[2]) + parts[3])
    assert passes.by_view(lambda each: float(each.sum()), weights) == [float(each.sum()) for each in weights]


def test_what_numpy_is_to_ignore_is_ignored_in_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    shared_by(3, monkeypatch)
    infinite = np.full((3, *LARGE), np.inf, np.float32)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        votes.in_units(infinite, infinite[0], infinite[0])
    with np.errstate(all="ignore"):
        assert np.isnan(votes.in_units(infinite, infinite[0], infinite[0])).all()


@pytest.mark.parametrize(
    "wrong",
    [lambda x: x.sum(axis=1), lambda x: x**3, lambda x: np.sort(x), lambda x: np.add.reduce(x), lambda x: np.cos(x)],
)
def test_what_cannot_be_followed_is_refused(wrong: Callable[[Any], Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        follow(wrong, [Kind(True, True, "f")], {})
