"""Tables and figures from lines of results; no method runs here."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.experiments.boxes import SURVIVES
from cfusion.experiments.checks import champion_verdict, verdict
from cfusion.experiments.spec import Part, Row, Spec
from cfusion.experiments.store import Record
from cfusion.experiments.work import scores_of
from cfusion.io.cameras import camera_from_json
from cfusion.io.json_object import JsonObject
from cfusion.metrics import Scores, arithmetic_mean, geometric_mean
from cfusion.report.columns import COLUMNS, Column
from cfusion.report.paper_checks import Exhibit, Plain, Verdict
from cfusion.report.paper_figures import Sweep, Traces
from cfusion.report.paper_maps import Gallery, Panel, Panels
from cfusion.report.paper_tables import Comparison, Line, Pair
from cfusion.report.tables import Table

LoadMaps = Callable[[str], Mapping[str, NDArray[Any]]]
FROM_SCORES = ("density", "bias", "plain_rmse", "plain_mae")  # columns beside the paper's
ALL = "_all"  # suffix of columns that include pixels only the reference camera sees


def summarise(spec: Spec, lines: Sequence[Record], load_maps: LoadMaps) -> list[Exhibit]:
    """Every part of the specification that has results."""
    shown: list[Exhibit] = []
    for part in spec.parts:
        mine = [line for line in lines if line["part"] == part.name]
        if mine:
            shown += SHOW[part.kind](spec, part, mine, load_maps)
    return shown


def _table(spec: Spec, part: Part, lines: Sequence[Record], load_maps: LoadMaps) -> list[Exhibit]:
    rows = []
    for name in part.rows:
        mine = [line for line in lines if line["row"] == name]
        if not mine:
            continue
        groups_of_lines = [[line for line in mine if line["data"] == data] for data in part.data]
        averages = [_average(spec, spec.rows[name], each) for each in groups_of_lines]
        of_all = [_average(spec, spec.rows[name], each, "scores_all") for each in groups_of_lines]
        published = (part.published or {}).get(name)
        pairs = [
            Pair(
                None if scores is None else scores.named(column.removesuffix(ALL)),
                None if published is None else published[group * len(part.columns) + place],
            )
            for group in range(len(averages))
            for place, column in enumerate(part.columns)
            for scores in ((of_all if column.endswith(ALL) else averages)[group],)
        ]
        extra = _extra(mine, averages)
        rows.append(Line(name, tuple(pairs), extra, labelled=spec.rows[name].oracle is not None))
    groups = part.data if len(part.data) > 1 else ("",)
    table = Comparison(
        part.name, part.caption, groups, tuple(COLUMNS[key].beside_the_paper for key in part.columns), tuple(rows)
    )
    return [replace(table, verdicts=tuple(verdict(check, table) for check in part.checks))]


def _average(spec: Spec, row: Row, lines: Sequence[Record], kind: str = "scores") -> Scores | None:
    """The average over scenes and seeds, each with the grid point that its oracle chose."""
    chosen = [scores_of(line, kind) for line in _chosen(row, lines) if kind in line]
    if not chosen:
        return None
    return geometric_mean(chosen) if spec.average == "geometric" else arithmetic_mean(chosen)


def _chosen(row: Row, lines: Sequence[Record]) -> list[Record]:
    """One line per scene and seed: of several grid points, the one with the best oracle score."""
    best: dict[tuple[str, int], Record] = {}
    for line in lines:
        place = (line["scene"], line["seed"])
        if place not in best or (row.oracle and _by(line, row.oracle) < _by(best[place], row.oracle)):
            best[place] = line
    return list(best.values())


def _by(line: Record, column: str) -> float:
    value = scores_of(line).named(column)
    return math.inf if math.isnan(value) else value


def _extra(lines: Sequence[Record], averages: Sequence[Scores | None]) -> dict[str, float]:
    first = next((each for each in averages if each is not None), None)
    known = {} if first is None else {name: first.named(name) for name in FROM_SCORES}
    timed = [line for line in lines if line.get("seconds")]
    if timed:
        known["seconds"] = float(np.mean([line["seconds"] for line in timed]))
        known["iterations"] = float(np.mean([line["solver"]["iterations"] for line in timed]))
    return known


def _sweep(spec: Spec, part: Part, lines: Sequence[Record], load_maps: LoadMaps) -> list[Exhibit]:
    assert part.over is not None
    values = tuple(sorted({float(line["value"]) for line in lines}))
    series: dict[str, dict[str, list[float]]] = {}
    for name in part.rows:
        mine = [line for line in lines if line["row"] == name]
        if not mine:
            continue
        averages = [
            _average(spec, spec.rows[name], [line for line in mine if line["value"] == value]) for value in values
        ]
        series[name] = {
            column: [math.nan if each is None else each.named(column) for each in averages] for column in part.columns
        }
    columns = tuple(COLUMNS[key].beside_the_paper for key in part.columns)
    verdicts = () if part.champion not in series else (champion_verdict(str(part.champion), part, values, series),)
    return [Sweep(part.name, part.caption, part.over, values, columns, series, verdicts=verdicts)]


def _surfaces(spec: Spec, part: Part, lines: Sequence[Record], load_maps: LoadMaps) -> list[Exhibit]:
    scenes = tuple(dict.fromkeys(str(line["scene"]) for line in lines))
    rows: dict[str, list[Panel | None]] = {}
    for name in part.rows:
        by_scene = {line["scene"]: line for line in lines if line["row"] == name}
        if by_scene:
            rows[name] = [_panel(by_scene.get(scene), name, load_maps) for scene in scenes]
    return [Gallery(part.name, part.caption, scenes, rows)]


def _panel(line: Record | None, title: str, load_maps: LoadMaps) -> Panel | None:
    if line is None:
        return None
    camera = camera_from_json(JsonObject(line["camera"], "camera")) if line.get("camera") else None
    return Panel(title, load_maps(line["key"])["depth"], camera)


def _panels(spec: Spec, part: Part, lines: Sequence[Record], load_maps: LoadMaps) -> list[Exhibit]:
    panels = [_panel(line, line["row"], load_maps) for line in lines]
    shown: list[Exhibit] = [
        Panels(part.name, part.caption, tuple(panel for panel in panels if panel is not None), part.layout)
    ]
    boxed = [line for line in lines if line.get("boxes")]
    return shown + ([_survivors(part, boxed)] if boxed else [])


def _survivors(part: Part, lines: Sequence[Record]) -> Plain:
    """The remaining contrast of each box, and whether its size predicted it."""
    boxes = lines[0]["boxes"]
    columns = [Column("name", "contrast left of a box of side (contrast)")]
    columns += [Column(str(k), f"{box['side']} ({box['contrast']:+g})", ".2f") for k, box in enumerate(boxes)]
    columns.append(Column("as_predicted", "as predicted"))
    rows = []
    wrong = []
    for line in lines:
        row: dict[str, float | str] = {"name": line["row"]}
        right = True
        for k, box in enumerate(line["boxes"]):
            row[str(k)] = box["retained"]
            if (box["retained"] > SURVIVES) != box["predicted"]:
                right = False
                wrong.append(f"{line['row']}, side {box['side']}: {box['retained']:.2f} left")
        rows.append(row | {"as_predicted": "yes" if right else "no"})
    says = "a box survives where the confidence exceeds (2 + sqrt(pi)) / side, whatever its contrast"
    found = Verdict(says, not wrong, tuple(wrong))
    return Plain(f"{part.name}-check", "Which boxes survive.", Table(rows, columns), verdicts=(found,))


def _traces(spec: Spec, part: Part, lines: Sequence[Record], load_maps: LoadMaps) -> list[Exhibit]:
    shown: list[Exhibit] = []
    scenes = dict.fromkeys(str(line["scene"]) for line in lines)
    for scene in scenes:
        series = {
            line["row"]: {
                key: [math.nan if point[key] is None else float(point[key]) for point in line["trace"]]
                for key in ("iterations", "seconds", "energy", "gap")
            }
            for line in lines
            if line["scene"] == scene
        }
        name = part.name if len(scenes) == 1 else f"{part.name}-{scene}"
        shown.append(Traces(name, part.caption, series))
    return shown


SHOW: Mapping[str, Callable[[Spec, Part, Sequence[Record], LoadMaps], list[Exhibit]]] = {
    "table": _table,
    "sweep": _sweep,
    "surfaces": _surfaces,
    "panels": _panels,
    "traces": _traces,
}
