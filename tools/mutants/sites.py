"""Where a source can be mutated, and how: one small edit of the text each, as a mistake would be.

Left alone are docstrings, annotations, strings, and what a `raise` says: no result depends on them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS = {
    **{ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")},
    **{ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is")},
    **{ast.In: ("in", "not in"), ast.NotIn: ("not in", "in")},
}
OPERATORS = {
    **{ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")},
    **{ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|")},
    **{ast.BitOr: ("|", "&"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<")},
}
NAMES = {
    **{"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"},
    **{"floor": "ceil", "fmin": "fmax", "nanmin": "nanmax", "argmin": "argmax", "argmax": "argmin", "sum": "max"},
}
SYMMETRIC = {
    *("min", "max", "minimum", "maximum", "fmin", "fmax", "hypot", "gcd", "array_equal", "isclose", "allclose"),
    "clip",  # of value and lower limit it takes the larger one
    "swapaxes",  # of a method: two axes in any order
}
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
REMOVABLE = (ast.Expr, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)


@dataclass(frozen=True)
class Site:
    """One edit: bytes from `start` to `stop` of a file become `new`."""

    file: str
    line: int
    kind: str
    start: int
    stop: int
    new: str

    def applied(self, source: bytes) -> bytes:
        """The source with the mistake in it."""
        return source[: self.start] + self.new.encode() + source[self.stop :]

    def parses(self, source: bytes) -> bool:
        """Whether the mistake is still Python."""
        try:
            ast.parse(self.applied(source))
        except SyntaxError:
            return False
        return True


def sites_of(file: str, root: Path) -> list[Site]:
    """Every edit of one file, in the order of the text."""
    return sorted(_Finder(file, (root / file).read_bytes()).found(), key=lambda site: (site.start, site.kind, site.new))


class _Finder:
    """Walks a tree and collects edits of its text."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.whatever_is_left: set[ast.AST] = set()  # -1 of `reshape`, for which any negative number does
        self.of_equals: set[ast.AST] = set()  # comparisons that change nothing where they change: `a if a < b else b`
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def found(self) -> Iterator[Site]:
        yield from self._visit(ast.parse(self.source))

    def _visit(self, node: ast.AST) -> Iterator[Site]:
        yield from self._edits(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_comment") or self._talks(node, name):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._visit(child)

    @staticmethod
    def _talks(node: ast.AST, field: str) -> bool:
        """Whether a part of the tree is only ever read by people, or by a checker of types."""
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: an assertion, which nothing depends on
            return True
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return True
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            called = node.value.func if isinstance(node.value, ast.Call) else None
            return node.targets[0].id == "__all__" or (isinstance(called, ast.Name) and called.id == "TypeVar")
        return isinstance(node, ast.JoinedStr | ast.ImportFrom | ast.Import)

    def _edits(self, node: ast.AST) -> Iterator[Site]:
        if isinstance(node, ast.Compare):
            yield from self._compare(node)
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not self._of_text(node):
            yield from self._between("operator", node.left, node.right, OPERATORS[type(node.op)])
        elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            yield from self._between("operator", node.target, node.value, (f"{old}=", f"{new}="))
        elif isinstance(node, ast.BoolOp):
            words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            yield from self._between("and/or", node.values[0], node.values[1], words)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            yield self._site("unary", node, self._text(node.operand))
        elif isinstance(node, ast.Constant) and node not in self.whatever_is_left:
            yield from self._constant(node)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            self.of_equals |= {node.test} if isinstance(node, ast.IfExp) and self._chooses(node) else set()
            yield self._site("condition", node.test, f"(not ({self._text(node.test)}))", node.lineno)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        if isinstance(node, REMOVABLE) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield self._site("removed", node, "pass")

    def _chooses(self, node: ast.IfExp) -> bool:
        """Whether it is the larger or the smaller of two: of equals, either will do."""
        sides = [node.test.left, *node.test.comparators] if isinstance(node.test, ast.Compare) else []
        orders = isinstance(node.test, ast.Compare) and all(isinstance(op, ORDERS) for op in node.test.ops)
        return orders and sorted(map(self._text, sides)) == sorted(map(self._text, (node.body, node.orelse)))

    def _compare(self, node: ast.Compare) -> Iterator[Site]:
        if node in self.of_equals:
            return
        sides = [node.left, *node.comparators]
        for left, right, op in zip(sides, sides[1:], node.ops, strict=False):
            yield from self._between("comparison", left, right, COMPARISONS[type(op)])

    def _constant(self, node: ast.Constant) -> Iterator[Site]:
        value = node.value
        if isinstance(value, bool):
            yield self._site("constant", node, str(not value))
        elif isinstance(value, int):
            yield self._site("constant", node, str(value + 1 if value < 10 else 2 * value))
        elif isinstance(value, float):
            yield self._site("constant", node, repr(2 * value if value else 1.0))

    def _call(self, node: ast.Call) -> Iterator[Site]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "reshape":
            self.whatever_is_left |= {each.operand for each in node.args if isinstance(each, ast.UnaryOp)}
        if name in NAMES:
            stop = self._offset(node.func.end_lineno, node.func.end_col_offset)
            yield Site(self.file, node.lineno, "function", stop - len(name), stop, NAMES[name])
        if (
            len(node.args) > 1
            and not (name in SYMMETRIC and (name != "swapaxes" or len(node.args) == 2))
            and not any(isinstance(each, ast.Starred) for each in node.args[:2])
        ):
            one, other = node.args[:2]
            if self._text(one) != self._text(other):
                start, end = self._span(one)[0], self._span(other)[1]
                middle = self.source[self._span(one)[1] : self._span(other)[0]].decode()
                text = self._text(other) + middle + self._text(one)
                yield Site(self.file, one.lineno, "swapped arguments", start, end, text)

    @staticmethod
    def _of_text(node: ast.BinOp) -> bool:
        sides = (node.left, node.right)
        return any(isinstance(s, ast.JoinedStr) or isinstance(getattr(s, "value", None), str) for s in sides)

    def _between(self, kind: str, left: ast.expr, right: ast.expr, words: tuple[str, str]) -> Iterator[Site]:
        """The operator that stands between two operands."""
        start, stop = self._span(left)[1], self._span(right)[0]
        place = self.source[start:stop].find(words[0].encode())
        if place >= 0:
            begin = start + place
            line = self.source[:begin].count(b"\n") + 1
            yield Site(self.file, line, kind, begin, begin + len(words[0]), words[1])

    def _site(self, kind: str, node: ast.AST, new: str, line: int | None = None) -> Site:
        return Site(self.file, line or node.lineno, kind, *self._span(node), new)  # type: ignore[attr-defined]

    def _text(self, node: ast.AST) -> str:
        start, stop = self._span(node)
        return self.source[start:stop].decode()

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _offset(self, line: int | None, column: int | None) -> int:
        return self.starts[(line or 1) - 1] + (column or 0)
