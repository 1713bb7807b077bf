"""A table or figure of the paper as data: conditions, methods, presentation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

from cfusion import methods
from cfusion.errors import InputError
from cfusion.experiments.boxes import Regions
from cfusion.experiments.conditions import NOISES, Condition
from cfusion.metrics import NAMES
from cfusion.parameters import refine

Value: TypeAlias = float | int | str | bool | tuple[float, ...]
Parameters: TypeAlias = tuple[tuple[str, Value], ...]

TRUTH, LITERAL = "truth", "literal"  # rows without a method: the truth, and the paper's algorithm taken literally
KINDS = ("table", "sweep", "surfaces", "panels", "traces")
VARIED = (*NOISES, "views", "spacing")
SCORES = {*NAMES, "out3_all", "d_avg_all"}


@dataclass(frozen=True)
class Row:
    """A method under the paper's name for it; with a grid, the point that scores best against the truth is shown."""

    name: str
    method: str
    parameters: Parameters = ()
    grid: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    oracle: str | None = None  # the score that chooses from the grid
    confidence: Regions | None = None

    def __post_init__(self) -> None:
        if self.method not in (TRUTH, LITERAL):
            chosen = methods.get(self.method)
            for point in self.points():
                refine(chosen, dict(point))
        if self.method == LITERAL and {name for name, _ in self.parameters} != {"tau", "iterations"}:
            raise InputError(f"row {self.name!r}: the literal algorithm has the parameters tau and iterations only")
        if (self.oracle is None) != (not self.grid):
            raise InputError(f"row {self.name!r}: give a grid and an oracle together, or neither")
        if self.oracle is not None and self.oracle not in SCORES:
            raise InputError(f"row {self.name!r}: {self.oracle!r} is not a score; choose from {_listed(SCORES)}")

    def points(self) -> Sequence[Parameters]:
        """The parameters of every run: one, or one per point of the grid."""
        names = [name for name, _ in self.grid]
        return [
            (*self.parameters, *zip(names, chosen, strict=True)) for chosen in product(*(each for _, each in self.grid))
        ]


@dataclass(frozen=True)
class Check:
    """An expected result: values near the published, at most a multiple of it, or of the best published one."""

    says: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    rule: Literal["within", "at_most", "of_best"]
    factor: float


@dataclass(frozen=True)
class Part:
    """One table, plot or gallery."""

    name: str
    kind: str
    caption: str
    data: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...] = ()
    over: str | None = None
    values: tuple[float, ...] = ()
    champion: str | None = None  # the row that no other may beat in the sweep
    published: Mapping[str, tuple[float, ...]] | None = None
    checks: tuple[Check, ...] = ()
    layout: tuple[int, ...] = ()  # panels in each line of the picture
    full: bool = False  # only at level `full`

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"part {self.name!r}: kind is {self.kind!r}; choose one of {_listed(KINDS)}")
        if self.kind in ("table", "sweep") and not self.columns:
            raise InputError(f"part {self.name!r} has no columns; name the scores to show")
        strange = [column for column in self.columns if column not in SCORES]
        if strange:
            raise InputError(f"part {self.name!r}: {strange[0]!r} is not a score; choose from {_listed(SCORES)}")
        if (self.kind == "sweep") != (self.over is not None) or (self.over is not None) != bool(self.values):
            raise InputError(f"part {self.name!r}: give `over` and `values` for a sweep, and only for a sweep")
        if self.over is not None and self.over not in VARIED:
            raise InputError(f"part {self.name!r}: cannot sweep over {self.over!r}; choose one of {_listed(VARIED)}")
        for row, numbers in (self.published or {}).items():
            if row not in self.rows or len(numbers) != len(self.columns) * len(self.data):
                raise InputError(f"part {self.name!r}: published numbers of {row!r} match no row or not its columns")
        for check in self.checks:
            if not (set(check.rows) <= set(self.rows) and set(check.columns) <= set(self.columns)):
                raise InputError(
                    f"part {self.name!r}: the check {check.says!r} names a row or column that does not exist"
                )
        if self.layout and (self.kind != "panels" or sum(self.layout) != len(self.rows)):
            raise InputError(f"part {self.name!r}: the layout {self.layout} does not hold {len(self.rows)} panels")
        if self.champion is not None and self.champion not in self.rows:
            raise InputError(f"part {self.name!r}: the champion {self.champion!r} is not one of its rows")

    @property
    def keeps_maps(self) -> bool:
        """Whether showing it needs depth maps."""
        return self.kind in ("surfaces", "panels")


@dataclass(frozen=True)
class Quick:
    """The reduced extent of a quick run."""

    parts: tuple[str, ...]
    scenes: tuple[str, ...] = ()  # empty: all
    scale: float = 1.0
    values: tuple[float, ...] = ()  # of sweeps
    leave_out: tuple[str, ...] = ()  # rows


@dataclass(frozen=True)
class Spec:
    """One experiment."""

    name: str
    title: str
    about: str
    average: Literal["geometric", "arithmetic"]
    seeds: tuple[int, ...]
    data: Mapping[str, tuple[Condition, ...]]
    rows: Mapping[str, Row]
    parts: tuple[Part, ...]
    quick: Quick

    def __post_init__(self) -> None:
        if self.average not in ("geometric", "arithmetic"):
            raise InputError(f"{self.name}: average is {self.average!r}; choose 'geometric' or 'arithmetic'")
        if not self.seeds:
            raise InputError(f"{self.name}: no seeds are given; give at least one")
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise InputError(f"{self.name}: two parts have the same name: {_listed(names)}")
        for part in self.parts:
            for kind, wanted, there in (("row", part.rows, self.rows), ("data", part.data, self.data)):
                lost = [each for each in wanted if each not in there]
                if lost:
                    raise InputError(f"{self.name}: part {part.name!r} names {kind} {lost[0]!r}, which does not exist")
        unknown = [*(set(self.quick.parts) - set(names)), *(set(self.quick.leave_out) - set(self.rows))]
        if unknown:
            raise InputError(f"{self.name}: quick names {unknown[0]!r}, which is neither a part nor a row")


def _listed(names: object) -> str:
    assert isinstance(names, Sequence | set)
    return ", ".join(sorted(str(name) for name in names))
