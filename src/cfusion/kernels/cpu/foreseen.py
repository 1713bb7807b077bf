"""Which kernels a method needs, and for which types; `tests/kernels/test_foresight.py` compares with what it compiles.

Types are NumPy's characters: q is an integer, f3 an array of three axes, rf3 a read-only one, 20f a tuple of scalars.
One row holds all types of a kernel: Numba's cache loses an entry if two processes store one kernel at the same time.
The longest come first, so that processes that take them in turn end at about the same time.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types

from cfusion.kernels.contract import Fidelity


class Kernel(NamedTuple):
    """A kernel, the types of its calls, and the words that must describe a method which needs it."""

    words: str
    module: str
    name: str
    calls: tuple[str, ...]


# fmt: off
KERNELS = tuple(Kernel(words, module, name, tuple(calls)) for words, module, name, *calls in (
    ("", "tiles", "sweep", "q q2 q2 20f f3 f3 f3 f3 f3 f3 f2 f2 H2 f2 f3 f2 f3 f3 f4 f2"),
    ("order2", "repairing", "_repair", "q q f1 f3 f3 f3 f3 H2 f2 f2 7f f3 f3 f4 f3"),
    ("posed adaptive", "pulling", "_touch", "q q f2 d1 d2 d1 d1 d1 d1 d3"),
    ("filling", "association", "_lend", "f2 ?2 ?2 i2 i2 i2 q2 d3"),
    ("posed adaptive", "sight", "_hidden", "q q f2 d1 d2 d3 q2 f2 ?3 f2 q2 f1 d1 d1 d1 d1"),
    ("posed", "viewing", "_reproject", "rf2 d1 d1 d2 d1 d1 d2 d2 d2"),
    ("posed adaptive", "pulling", "_pull", "q q f2 d3 ? d1 d2 rf2 rf2 d f2 f2 ?2"),
    ("", "sums", "_sort", "q q f3 f3 f2 f2"),
    ("", "sums", "_energy", "q q q f3 H2 f2 f3 f2 f2 f2 f2 d2"),
    ("order1", "certificate", "_advance", "q q f3 f3 d d f2"),
    ("filling", "association", "_dilate", "?2 q"),
    ("", "sums", "_misfit", "q q f2 f3 f3 f2 f2 q d f2"),
    ("order1", "certificate", "_adjoint_1", "q q f3 f3", "q q f3 d3"),
    ("order2", "certificate", "_adjoint_2", "q q f3 d3"),
    ("order2", "certificate", "_adjoint_1", "q q d3 d3"),
    ("l1", "certificate", "_l1_pixels", "q q d2 f3 f3 f2 H2 d d d d1 d1 d1 d1 d1 d1 d1"),
    ("adaptive", "trials", "_split", "q q rf3 rf3 ?2 q2 f3 f3 f3 f3 q2 ?1"),
    ("adaptive", "preparing", "_pool", "q q rf3 rf3 f2 f3 B3 d3 d1 d1"),
    ("adaptive", "pooling", "_mean", "q q d3 q d3"),
    ("posed adaptive", "sight", "_parallax", "q q f2 d1 d2 d3 f3"),
    ("adaptive", "trials", "_score", "q q f2 f2 rf3 rf3 ?2 q q d ? d2"),
    ("adaptive", "preparing", "_trust", "q q rf3 rf3 f2 B3 d d1 d d f3"),
    ("", "preparing", "_count", "q q rf3 rf3 i2 d2"),
    ("order1", "certificate", "_add_gradient_1", "q q f3 H2 d f3"),
    ("l2", "certificate", "_l2_pixels", "q q d2 f2 f2 f2 f2 H2 d d d d1"),
    ("order2", "certificate", "_factors", "q q d3 d f2 d1"),
    ("order1", "certificate", "_stick_out_slope", "q q f3 f2"),
    ("filling", "association", "_rise_and_fall", "?2 i2 i2"),
    ("l2", "sums", "_average", "q q f3 f3 f2 f2 f2"),
    ("median", "preparing", "_weighted_median", "q q f3 f3 f2 f2"),
    ("posed", "association", "_winners", "d1 d1 d1 q2"),
    ("filling", "association", "_fill", "?2 d3 f2"),
    ("", "selecting", "_upper_bits", "rI1 I1 q1"),
    ("", "selecting", "_alike", "rI1 I1 q I1"),
    ("posed", "association", "_gather", "d1 q2 f2"),
))
# fmt: on
TYPE = re.compile(r"(\d*)(r?)([?\w])(\d*)")


def foreseen(order: int, fidelity: Fidelity, *, posed: bool, adaptive: bool) -> list[int]:
    """The rows of KERNELS that a method needs."""
    words = {f"order{order}", fidelity.name.lower()}
    words |= {word for word, holds in (("posed", posed), ("adaptive", adaptive)) if holds}
    words |= {"filling"} if posed or adaptive else set()
    words |= set() if fidelity is Fidelity.L2 else {"median"}
    return [number for number, kernel in enumerate(KERNELS) if words.issuperset(kernel.words.split())]


def compile_kernel(number: int, order: int, fidelity: int) -> None:
    """Load a kernel of KERNELS from the cache, or compile it."""
    row = KERNELS[number]
    module: Any = import_module(f"cfusion.kernels.cpu.{row.module}")
    kind = (order, int(fidelity), False, False)
    kernel = module.sweep_for(*kind) if row.name == "sweep" else getattr(module, row.name)
    for call in row.calls:
        kernel.compile(tuple(_type(each) for each in call.split()))


def _type(text: str) -> Any:
    """Numba's type."""
    found = TYPE.fullmatch(text)
    assert found is not None
    many, readonly, letter, axes = found.groups()
    one = from_dtype(np.dtype(letter))
    if many:
        return types.UniTuple(one, int(many))
    return types.Array(one, int(axes), "C", readonly=bool(readonly)) if axes else one
