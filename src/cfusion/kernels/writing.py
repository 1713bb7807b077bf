"""The code in C that a traced function computes for each pixel."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfusion.kernels.tracing import Traced

TYPES = {"f": "float", "d": "double", "?": "bool", "i": "int", "l": "long long", "q": "long long", "h": "short"}
PLANE = "((size_t)height * width)"
STRIDED = "template <class T> struct Strided { const T* at; long long view, row, column; };"  # places apart
Place = tuple[str, str, str]  # names of the view, the row and the column


@dataclass(frozen=True)
class Written:
    """The body of a pass: the code for pixel p at (i, j), and for view k if it runs `for_each_view`.

    Maps and stacks are written to out0, out1, ...; sums over all pixels are added to found[0], ...
    """

    lines: list[str]
    for_each_view: bool
    totals: int


def write(outputs: Sequence[Traced], strided: Container[str] = ()) -> Written:
    """The code that computes these values; arguments whose names are `strided` are structures, see `STRIDED`."""
    apart = all(each.views for each in outputs) and not _bring_together(outputs)
    assignments, totals = [], 0
    for number, each in enumerate(outputs):
        if each.formula == "total":
            assignments.append((f"found[{totals}] += {{}};", each.inputs[0]))
            totals += 1
        elif each.formula == "stack":
            assignments += [(f"out{number}[{k} * {PLANE} + p] = {{}};", one) for k, one in enumerate(each.inputs)]
        else:
            assignments.append((f"out{number}[{f'k * {PLANE} + ' if each.views else ''}p] = {{}};", each))
    writer = _Writer(strided)
    ends = [text.format(writer.value(value, ("k", "i", "j"))) for text, value in assignments if not value.views]
    of_views = [(text, value) for text, value in assignments if value.views]
    if of_views:
        body = writer.for_view(
            "k", lambda: [text.format(writer.value(each, ("k", "i", "j"))) for text, each in of_views]
        )
        ends += body if apart else ["for (int k = 0; k < views; k++) {", *body, "}"]
    return Written([*writer.scopes[0], *ends], apart, totals)


def _bring_together(values: Sequence[Traced]) -> bool:
    """Whether any value contains a sum over views."""
    known: set[int] = set()
    left: list[Any] = list(values)
    while left:
        each = left.pop()
        if isinstance(each, Traced) and id(each) not in known:
            if each.formula in ("sum", "any", "total"):
                return True
            known.add(id(each))
            left += each.inputs
    return False


class _Writer:
    """Writes each value once; values independent of the view are written before loops over views."""

    def __init__(self, strided: Container[str]) -> None:
        self.strided = strided
        self.scopes: list[list[str]] = [[]]
        self.known: list[dict[Any, str]] = [{}]
        self.depth: dict[str, int] = {}  # nesting depth of the loop over a view, by name
        self.places: dict[Any, tuple[str, str]] = {}
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def for_view(self, k: str, write_body: Any) -> list[str]:
        """The lines of a loop over views, written and ended by `write_body`."""
        self.scopes.append([])
        self.known.append({})
        self.depth[k] = len(self.scopes) - 1
        ends = write_body()
        self.known.pop()
        return [*self.scopes.pop(), *ends]

    def value(self, of: Any, place: Place, dtype: Any = None) -> str:
        """The name of a value at a place, or a literal, in that type."""
        if not isinstance(of, Traced):
            return literal(of, dtype)
        written = self._written(of, place)
        return written if dtype is None or dtype == of.dtype else f"({TYPES[dtype.char]}){written}"

    def _written(self, of: Traced, place: Place) -> str:
        named = [*place[:1]] * of.views + [*place[1:]] * of.pixels
        level = max((self.depth.get(name, 0) for name in named), default=0)
        key = (id(of), place[0] if of.views else "", *(place[1:] if of.pixels else ()))
        if key not in self.known[level]:
            text = self._text(of, place)
            self.known[level][key] = name = self.name()
            self.scopes[level].append(f"const {TYPES[of.dtype.char]} {name} = {text};")
        return self.known[level][key]

    def _text(self, of: Traced, place: Place) -> str:
        """The expression of a value whose inputs are written."""
        special = {
            "sum": self._over_views,
            "any": self._over_views,
            "view": self._view,
            "neighbour": self._beside,
            "nearest": self._nearest,
            "looked up": self._looked_up,
            "choose": self._choice,
        }
        if of.formula in special:
            return special[of.formula](of, place)
        if of.formula in ("row", "column"):
            return place[1] if of.formula == "row" else place[2]
        if of.formula.startswith("@"):
            return self._argument(of, place)
        return of.formula.format(*(self.value(each, place, of.given) for each in of.inputs))

    def _argument(self, of: Traced, place: Place) -> str:
        k, i, j = place
        if not of.pixels:
            return of.formula[1:] + (f".v[{k}]" if of.views else "")
        name = of.formula[1:]
        if name in self.strided:
            return f"{name}.at[{f'{k} * {name}.view + ' if of.views else ''}{i} * {name}.row + {j} * {name}.column]"
        return f"{name}[{f'{k} * {PLANE} + ' if of.views else ''}(size_t){i} * width + {j}]"

    def _choice(self, of: Traced, place: Place) -> str:
        condition, one, other = of.inputs
        test = self.value(condition, place, np.dtype(np.bool_))
        return f"{test} ? {self.value(one, place, of.dtype)} : {self.value(other, place, of.dtype)}"

    def _view(self, of: Traced, place: Place) -> str:
        stack, number = of.inputs
        view = self.value(number, place, np.dtype(np.int32))
        self.depth[view] = self.depth.get(place[0], 0) if of.views else 0
        return self.value(stack, (view, *place[1:]))

    def _looked_up(self, of: Traced, place: Place) -> str:
        values, *at = of.inputs
        row, column = (self.value(each, place, np.dtype(np.int32)) for each in at)
        known = place if of.views else place[1:]
        self.depth[row] = self.depth[column] = max(self.depth.get(each, 0) for each in known)
        return self.value(values, (place[0], row, column))

    def _nearest(self, of: Traced, place: Place) -> str:
        values, *away = of.inputs
        return self.value(values, (place[0], *self._place(*place[1:], *away)))

    def _beside(self, of: Traced, place: Place) -> str:
        values, down, right, outside = of.inputs
        k, i, j = place
        row, column = self._place(i, j, down, right)
        inside = f"{row} == {i} + {down} && {column} == {j} + {right}"
        return f"{inside} ? {self.value(values, (k, row, column))} : {literal(outside, of.dtype)}"

    def _place(self, i: str, j: str, down: int, right: int, below: int = 0, beyond: int = 0) -> tuple[str, str]:
        """The names of a row and a column at this offset, clipped to the image without its last rows and columns."""
        key = (i, j, down, right, below, beyond)
        if key not in self.places:
            self.places[key] = row, column = self.name(), self.name()
            self.scopes[0].append(f"const int {row} = max(min({i} + {down}, height - {1 + below}), 0);")
            self.scopes[0].append(f"const int {column} = max(min({j} + {right}, width - {1 + beyond}), 0);")
        return self.places[key]

    def _over_views(self, of: Traced, place: Place) -> str:
        """The name of a sum over the views, whose loop is written before its use."""
        name, k = self.name(), self.name()

        def body() -> list[str]:
            each = self.value(of.inputs[0], (k, *place[1:]), of.dtype)
            return [f"{name} = {name} || {each};" if of.formula == "any" else f"{name} += {each};"]

        lines = self.for_view(k, body)
        self.scopes[0] += [
            f"{TYPES[of.dtype.char]} {name} = 0;",
            f"for (int {k} = 0; {k} < views; {k}++) {{",
            *lines,
            "}",
        ]
        return name


def literal(number: Any, dtype: Any) -> str:
    """A number as a C literal of that type."""
    value = np.asarray(number).astype(dtype)[()]
    if value.dtype.kind == "b":
        return "true" if value else "false"
    if value.dtype.kind in "iu":
        return f"({TYPES[value.dtype.char]}){int(value)}"
    kind = TYPES[value.dtype.char]
    if np.isnan(value):
        return f"({kind})UNKNOWN"
    if np.isinf(value):
        return f"({kind})({'-' if value < 0 else ''}INFINITE)"
    return f"({kind}){float(value).hex()}"
