"""Kernels of array functions compiled for the CPU, one pixel after the other: what a GPU will compute, without one."""

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion.kernels.tracing import Kind, Traced, follow
from cfusion.kernels.writing import TYPES, write

PRELUDE = """#include <cmath>
#include <cstddef>
#include <algorithm>
using namespace std;
#define UNKNOWN NAN
#define INFINITE INFINITY
"""


def emulate(function: Callable[..., Any], folder: Path, *arguments: Any, **choices: Any) -> Any:
    """What the kernel of an array function makes of NumPy's arrays."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    plain = getattr(function, "__wrapped__", function)
    kinds = [Kind.of(each, per_view=getattr(each, "shape", ())[1:] == (1, 1)) for each in arguments]
    outputs = follow(plain, kinds, choices)
    written = write(outputs)
    given = [(len(each), kind) for each, kind in zip(arguments, kinds, strict=True) if kind.views]
    views = min(given, key=lambda each: each[1].pixels)[0] if given else 1
    height, width = next(each.shape[-2:] for each, kind in zip(arguments, kinds, strict=True) if kind.pixels)
    code = _code(kinds, outputs, written, arguments)
    library = folder / f"{hashlib.sha256(code.encode()).hexdigest()[:16]}.so"
    source = library.with_suffix(".cpp")
    source.write_text(code)
    subprocess.run([compiler, "-O1", "-ffp-contract=off", "-shared", "-fPIC", source, "-o", library], check=True)
    made = [_room(each, views, height, width) for each in outputs]
    found = np.zeros(max(written.totals, 1))
    given = [np.ascontiguousarray(each) for each in arguments if each is not None]
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (*given, *(m for m in made if m is not None), found)]
    ctypes.CDLL(str(library)).run(views, height, width, *pointers)
    sums = iter(found.tolist())
    out = [next(sums) if each is None else each for each in made]
    return out[0] if len(out) == 1 else tuple(out)


def _room(value: Traced, views: int, height: int, width: int) -> Any:
    if value.formula == "total":
        return None
    first = (len(value.inputs),) if value.formula == "stack" else (views,) if value.views else ()
    return np.full((*first, height, width), 77, value.dtype)


def _code(kinds: list[Kind], outputs: list[Traced], written: Any, arguments: Any) -> str:
    """A function that loops over the pixels; all it is given are pointers."""
    structs, parameters, unpacked = [], [], []
    for number, (kind, given) in enumerate(zip(kinds, arguments, strict=True)):
        if not kind.dtype:
            continue
        of = TYPES[np.asarray(given).dtype.char]
        parameters.append(f"const {of}* p{number}")
        if kind.views and not kind.pixels:
            structs.append(f"struct S{number} {{ {of} v[{len(given)}]; }};")
            unpacked.append(f"const S{number} a{number} = *(const S{number}*)p{number};")
        else:
            unpacked.append(
                f"const {of}{'* ' if kind.pixels else ' '}a{number} = {'' if kind.pixels else '*'}p{number};"
            )
    kept = [(n, each) for n, each in enumerate(outputs) if each.formula != "total"]
    parameters += [f"{TYPES[each.dtype.char]}* out{number}" for number, each in kept]
    loops = "for (int i = 0; i < height; i++) for (int j = 0; j < width; j++)"
    loops += " for (int k = 0; k < views; k++) {" if written.for_each_view else " {"
    body = "\n".join([*unpacked, loops, "const size_t p = (size_t)i * width + j;", *written.lines, "}"])
    head = ", ".join(["int views", "int height", "int width", *parameters, "double* found"])
    return f'{PRELUDE}\n{" ".join(structs)}\nextern "C" void run({head}) {{\n{body}\n}}\n'
