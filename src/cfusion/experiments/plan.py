"""The jobs of a specification, and the cells in which their results are shown."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from cfusion.experiments.boxes import Regions
from cfusion.experiments.code_version import code_version, solving
from cfusion.experiments.conditions import Condition, KittiBundle, OnTrack
from cfusion.experiments.spec import Parameters, Part, Spec
from cfusion.io.to_json import digest

QUICK_NOTE = (
    "A quick run: few scenes, reduced. Disparities in pixels shrink with the image, so published numbers are beside "
    "ours for orientation only, and nothing is checked against them."
)


class Level(enum.Enum):
    """How much of an experiment to run; the value describes it."""

    quick = "one scene, reduced, about a minute"
    tables = "every table and figure but the sweeps"
    full = "everything"


@dataclass(frozen=True)
class Job:
    """One method on one condition: everything that determines the result, and nothing else."""

    condition: Condition
    method: str
    parameters: Parameters = ()
    confidence: Regions | None = None
    trace: bool = False
    backend: str = "cpu"  # resolved: `auto` depends on the machine

    def key(self) -> str:
        """Hash of the job, the data it reads, and the code that runs it."""
        code = code_version(solving(self.backend, kitti=isinstance(self.condition, KittiBundle)))
        return digest([self, self.condition.checksum(), code])


@dataclass(frozen=True)
class Cell:
    """A place where a job's result is shown."""

    part: str
    data: str
    row: str
    value: float | None  # of the swept quantity
    job: Job
    keep_maps: bool

    def place(self) -> dict[str, object]:
        """The cell as fields of a line of results."""
        return {
            "part": self.part,
            "data": self.data,
            "row": self.row,
            "value": self.value,
            "scene": self.job.condition.scene,
            "seed": self.job.condition.seed,
        }


@dataclass(frozen=True)
class Plan:
    """The cells of an experiment, and notes about omissions."""

    spec: Spec
    level: Level
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]

    def jobs(self) -> dict[Job, bool]:
        """Each job once, and whether its maps are stored."""
        found: dict[Job, bool] = {}
        for cell in self.cells:
            found[cell.job] = found.get(cell.job, False) or cell.keep_maps
        return found


def plan(spec: Spec, level: Level, backend: str) -> Plan:
    """Every cell of every part at this level; missing data are skipped with a note."""
    cells: list[Cell] = []
    notes: dict[str, None] = {QUICK_NOTE: None} if level is Level.quick else {}
    for part in spec.parts:
        wanted = part.name in spec.quick.parts if level is Level.quick else level is Level.full or not part.full
        if not wanted:
            continue
        for data in part.data:
            at_hand = []
            for condition in _conditions(spec, data, level):
                reason = condition.missing()
                if reason is not None:
                    notes[f"{data}, {condition.scene}: skipped, {reason}."] = None
                    continue
                note = _stand_in(condition, level)
                if note:
                    notes[note] = None
                at_hand.append(condition)
            cells += _cells(spec, part, data, at_hand, level, backend)
    return Plan(spec, level, tuple(cells), tuple(notes))


def _conditions(spec: Spec, data: str, level: Level) -> Iterator[Condition]:
    for condition in spec.data[data]:
        name = condition.model.name if isinstance(condition, OnTrack) else condition.scene
        if level is Level.quick and spec.quick.scenes and name not in spec.quick.scenes:
            continue
        for seed in spec.seeds[:1] if level is Level.quick else spec.seeds:
            seeded = condition.seeded(seed)
            yield seeded.scaled(spec.quick.scale) if level is Level.quick else seeded


def _stand_in(condition: Condition, level: Level) -> str | None:
    """A note about a missing mesh, which only a quick run may replace."""
    if not isinstance(condition, OnTrack) or not condition.model.replaced:
        return None
    if level is not Level.quick:
        condition.model.require()
    return f"The built-in scene {condition.scene} stands in for {condition.model.name}, whose mesh is missing."


def _cells(
    spec: Spec, part: Part, data: str, conditions: Sequence[Condition], level: Level, backend: str
) -> Iterator[Cell]:
    """All scenes at one value before the next value, so that an interrupted run has complete averages."""
    values: tuple[float | None, ...] = part.values or (None,)
    if level is Level.quick and part.values and spec.quick.values:
        values = spec.quick.values
    names = [name for name in part.rows if level is not Level.quick or name not in spec.quick.leave_out]
    for value, condition in product(values, conditions):
        seen = condition if part.over is None or value is None else condition.varied(part.over, value)
        for name in names:
            row = spec.rows[name]
            for parameters in row.points():
                job = Job(seen, row.method, parameters, row.confidence, part.kind == "traces", backend)
                yield Cell(part.name, data, name, value, job, part.keeps_maps)
