"""Tracing an array function once, to learn what it computes for each pixel.

A function of maps (H, W), stacks (K, H, W), numbers per view (K, 1, 1) and single numbers is called with `Traced`
values, which record NumPy's functions applied to them. NumPy itself determines the type of each result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

UFUNCS = {
    np.add: "({0} + {1})",
    np.subtract: "({0} - {1})",
    np.multiply: "({0} * {1})",
    np.true_divide: "({0} / {1})",
    np.negative: "(-{0})",
    np.absolute: "fabs({0})",
    np.square: "({0} * {0})",
    np.sqrt: "sqrt({0})",
    np.exp: "exp({0})",
    np.log: "log({0})",
    np.hypot: "hypot({0}, {1})",
    np.floor: "floor({0})",
    np.sign: "({0} > 0 ? 1 : {0} < 0 ? -1 : {0})",
    np.maximum: "({0} >= {1} || {0} != {0} ? {0} : {1})",
    np.minimum: "({0} <= {1} || {0} != {0} ? {0} : {1})",
}
TESTS = {
    np.isnan: "({0} != {0})",
    np.isfinite: "({0} - {0} == 0)",
    np.greater: "({0} > {1})",
    np.greater_equal: "({0} >= {1})",
    np.less: "({0} < {1})",
    np.less_equal: "({0} <= {1})",
    np.equal: "({0} == {1})",
    np.not_equal: "({0} != {1})",
}
LOGIC = {
    np.bitwise_and: "({0} && {1})",
    np.bitwise_or: "({0} || {1})",
    np.bitwise_xor: "({0} != {1})",
    np.invert: "(!{0})",
    np.logical_and: "({0} && {1})",
    np.logical_or: "({0} || {1})",
    np.logical_not: "(!{0})",
}


@dataclass(frozen=True, eq=False)
class Traced(NDArrayOperatorsMixin):
    """A symbolic value: `formula` of its inputs, cast to `given` first, of type `dtype`."""

    formula: str
    inputs: tuple[Any, ...]  # Traced, or numbers
    given: Any  # the type that inputs are cast to; None: unchanged
    dtype: Any
    pixels: bool  # whether it depends on the pixel
    views: bool  # whether it depends on the view
    weak: bool = False  # a Python number, which takes the type of the other operand

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.power:
            return _power(*inputs)
        dtype = ufunc(*map(_shadow, inputs)).dtype
        if ufunc in TESTS:
            return _made(TESTS[ufunc], inputs, _common(inputs), dtype)
        if ufunc in LOGIC and dtype == np.bool_:
            return _made(LOGIC[ufunc], inputs, dtype, dtype)
        return _made(UFUNCS[ufunc], inputs, dtype, dtype) if ufunc in UFUNCS else NotImplemented

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function not in FUNCTIONS:
            return NotImplemented
        return FUNCTIONS[function](*arguments, **options)

    def __getitem__(self, view: Any) -> Traced:
        """One view of a stack; of numbers per view, a stack of those views."""
        many = isinstance(view, Traced) and view.views
        return Traced("view", (self, view), None, self.dtype, self.pixels, views=many)

    def astype(self, dtype: Any) -> Traced:
        return Traced("{0}", (self,), np.dtype(dtype), np.dtype(dtype), self.pixels, self.views)

    def sum(self, axis: int | None = None, dtype: Any = None) -> Traced:
        """The sum over views (axis 0), in order; or over everything."""
        kind = np.sum(np.ones(1, self.dtype), dtype=dtype).dtype
        if axis is None:
            return Traced("total", (self,), None, kind, pixels=False, views=False)
        return _over_views("sum", self, kind, axis)

    def any(self, axis: int) -> Traced:
        return _over_views("any", self, np.dtype(np.bool_), axis)


def _over_views(what: str, stack: Traced, dtype: Any, axis: int) -> Traced:
    if axis != 0 or not stack.views:
        raise ValueError(f"{what} over axis {axis}: only axis 0 of a stack, its views, is brought together")
    return Traced(what, (stack,), None, dtype, stack.pixels, views=False)


def _made(formula: str, inputs: Sequence[Any], given: Any, dtype: Any) -> Traced:
    """A value computed from inputs; if all are Python numbers, it is one as well."""
    weak = all(not isinstance(each, np.generic) if not isinstance(each, Traced) else each.weak for each in inputs)
    traced = [each for each in inputs if isinstance(each, Traced)]
    pixels, views = any(each.pixels for each in traced), any(each.views for each in traced)
    return Traced(formula, tuple(inputs), given, dtype, pixels, views, weak and dtype.kind == "f")


def _shadow(value: Any) -> Any:
    """A value of the same type, from which NumPy determines the type of a result."""
    if isinstance(value, Traced):
        return 1.0 if value.weak else np.ones(1, value.dtype)
    return value if isinstance(value, np.generic) else type(value)(1)


def _common(inputs: Sequence[Any]) -> Any:
    """The common type in which values are compared."""
    shadows = [_shadow(each) for each in inputs]
    return np.maximum(*shadows).dtype if len(shadows) == 2 else np.asarray(shadows[0]).dtype


def _power(base: Traced, power: Any) -> Traced:
    formulas = {0: "1", 0.5: "sqrt({0})", 1: "{0}", 1.5: "pow({0}, (decltype({0}))1.5)", 2: "({0} * {0})"}
    if isinstance(power, Traced) or power not in formulas:
        raise ValueError(f"a power is one of {list(formulas)} here, not {power!r}")
    dtype = np.power(_shadow(base), power).dtype
    return _made(formulas[float(power)], (base,), dtype, dtype)


def _where(condition: Traced, one: Any, other: Any) -> Traced:
    dtype = np.where(np.ones(1, np.bool_), _shadow(one), _shadow(other)).dtype
    chosen = _made("", (one, other), dtype, dtype)
    traced = isinstance(condition, Traced)
    pixels, views = chosen.pixels or (traced and condition.pixels), chosen.views or (traced and condition.views)
    return Traced("choose", (condition, one, other), dtype, dtype, pixels, views)


def _clip(value: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(value, low), high)


def _nan_to_num(value: Traced) -> Traced:
    most = np.finfo(value.dtype).max
    known = _where(np.isnan(value), value.dtype.type(0), value)
    return _where(known > most, most, _where(known < -most, -most, known))


def _stack(maps: Sequence[Traced]) -> Traced:
    dtype = np.result_type(*(each.dtype for each in maps))
    return Traced("stack", tuple(each.astype(dtype) for each in maps), None, dtype, pixels=True, views=False)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.nan_to_num: _nan_to_num,
    np.stack: _stack,
    np.sum: Traced.sum,
    np.any: Traced.any,
}


def neighbour(values: Any, down: int, right: int, outside: float) -> Any:
    """The value (..., H, W) `down` rows below and `right` columns to the right of each pixel; `outside` beyond."""
    if isinstance(values, Traced):
        made = (values, down, right, values.dtype.type(outside))
        return Traced("neighbour", made, None, values.dtype, pixels=True, views=values.views)
    out = np.full_like(values, outside)
    to_rows, from_rows = _shifted(down, values.shape[-2])
    to_columns, from_columns = _shifted(right, values.shape[-1])
    out[..., to_rows, to_columns] = values[..., from_rows, from_columns]
    return out


def _shifted(step: int, size: int) -> tuple[slice, slice]:
    """Target and source of values that move by `step`."""
    step = max(-size, min(step, size))
    return slice(max(0, -step), size - max(0, step)), slice(max(0, step), size + min(0, step))


def heaped(values: Any, axis: int, first: int, many: int, last: int) -> Any:
    """The sum (H, W) of `many` values along an axis, starting `first` places after each pixel.

    Beyond the border the outermost value is repeated; the `last` values of the axis are excluded.
    """
    if isinstance(values, Traced):
        steps = [(place, 0, last, 0) if axis == 0 else (0, place, 0, last) for place in range(first, first + many)]
        near = [Traced("nearest", (values, *each), None, values.dtype, True, values.views) for each in steps]
        return reduce(add, near)
    size = values.shape[axis]
    places = np.clip(np.arange(first, size + first + many - 1), 0, max(size - 1 - last, 0))
    padded = np.take(values, places, axis=axis)
    return reduce(add, [_cut(padded, axis, k, size) for k in range(many)])


def _cut(values: Any, axis: int, first: int, size: int) -> Any:
    return values[first : first + size] if axis == 0 else values[:, first : first + size]


def picked(stack: Any, indices: Any) -> Any:
    """The views (n, H, W) of a stack with these indices (n, 1, 1)."""
    return stack[indices] if isinstance(stack, Traced) else stack[indices.ravel()]


def looked_up(values: Any, row: Any, column: Any) -> Any:
    """The values of a map (H, W) at integer rows and columns inside it."""
    if isinstance(values, Traced):
        views = row.views or column.views
        return Traced("looked up", (values, row, column), None, values.dtype, pixels=True, views=views)
    return values[row, column]


def last_place(values: Any) -> tuple[Any, Any]:
    """The last row and the last column of a map."""
    if isinstance(values, Traced):
        row, column = (Traced(name, (), None, np.dtype(np.int32), False, False) for name in ("height - 1", "width - 1"))
        return row, column
    return values.shape[0] - 1, values.shape[1] - 1


def row_and_column(values: Any) -> tuple[Any, Any]:
    """The row (H, 1) and the column (1, W) of each pixel of a map, in its type."""
    if isinstance(values, Traced):
        row, column = (Traced(name, (), None, values.dtype, True, False) for name in ("row", "column"))
        return row, column
    height, width = values.shape
    return np.arange(height, dtype=values.dtype)[:, None], np.arange(width, dtype=values.dtype)[None, :]


@dataclass(frozen=True)
class Kind:
    """The kind of an argument: map, stack, numbers per view, number, or Python number; None is itself."""

    pixels: bool
    views: bool
    dtype: str  # its character; "" for None
    weak: bool = False

    @staticmethod
    def of(given: Any, *, per_view: bool = False) -> Kind:
        """The kind of an argument, which is a stack or numbers per view if it has three axes."""
        dimensions = getattr(given, "ndim", 0)
        if dimensions:
            return Kind(not per_view, dimensions == 3, given.dtype.char)
        if isinstance(given, np.generic):
            return Kind(False, False, given.dtype.char)
        if given is None:
            return Kind(False, False, "")
        return Kind(False, False, "i" if isinstance(given, int) else "d", weak=isinstance(given, float))


def follow(function: Callable[..., Any], kinds: Sequence[Kind], choices: dict[str, Any]) -> list[Traced]:
    """The outputs of a function for such arguments, named a0, a1, ..."""
    arguments = [
        Traced(f"@a{number}", (), None, np.dtype(kind.dtype), kind.pixels, kind.views, kind.weak)
        if kind.dtype
        else None
        for number, kind in enumerate(kinds)
    ]
    made = function(*arguments, **choices)
    return list(made) if isinstance(made, tuple) else [made]
