"""Score tables as text, Markdown and HTML cells, built from rows only."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cfusion.io.text_tables import aligned
from cfusion.metrics import NAMES, Scores
from cfusion.report.columns import SCORES, Column

if TYPE_CHECKING:
    from cfusion.result import Result

Row = Mapping[str, float | int | str | None]

MISSING = "-"


@dataclass(frozen=True)
class Table:
    """Rows of values under columns; columns without values are omitted."""

    rows: Sequence[Row]
    columns: Sequence[Column] = SCORES

    def shown(self) -> list[Column]:
        """The columns that have values."""
        return [column for column in self.columns if any(_known(row.get(column.key)) for row in self.rows)]

    def cell(self, row: Row, column: Column) -> str:
        """One value as text."""
        value = row.get(column.key)
        if not _known(value):
            return MISSING
        return str(value) if isinstance(value, str) else format(value, column.format)

    def is_best(self, row: Row, column: Column) -> bool:
        """Whether the value, as written, is the best of its column and not shared by most rows."""
        values = [each.get(column.key) for each in self.rows]
        numbers = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
        if column.best is None or len(numbers) < 2:
            return False
        winner = format(min(numbers) if column.best == "lowest" else max(numbers), column.format)
        reached = sum(self.cell(each, column) == winner for each in self.rows)
        return self.cell(row, column) == winner and reached <= len(self.rows) / 2

    def text(self) -> str:
        """Aligned columns for a terminal; the best of a column has a star."""
        columns = self.shown()
        grid = [[column.title for column in columns]]
        for row in self.rows:
            marks = ["*" if self.is_best(row, column) else "" for column in columns]
            grid.append([self.cell(row, column) + mark for column, mark in zip(columns, marks, strict=True)])
        starred = [any(line[at].endswith("*") for line in grid) for at in range(len(columns))]
        for line in grid:  # numbers stay aligned when only one of them has a star
            line[:] = [
                cell + " " if star and not cell.endswith("*") else cell
                for cell, star in zip(line, starred, strict=True)
            ]
        grid.insert(1, ["-" * max(map(len, column)) for column in zip(*grid, strict=True)])
        return "\n".join(aligned(grid))

    def markdown(self) -> str:
        """A Markdown table; the best of a column is bold."""
        columns = self.shown()
        lines = ["| " + " | ".join(column.title for column in columns) + " |"]
        lines.append("| --- |" + " ---: |" * (len(columns) - 1))
        for row in self.rows:
            cells = [
                f"**{self.cell(row, column)}**" if self.is_best(row, column) else self.cell(row, column)
                for column in columns
            ]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)


def score_row(name: str, scores: Scores) -> dict[str, float | int | str | None]:
    """The scores of one depth map under the keys of `columns.COLUMNS`."""
    return {"name": name} | {key: scores.named(key) for key in NAMES}


def result_row(result: "Result", scores: Scores) -> Row:
    """The scores of a result, with its gap, iterations and seconds."""
    cost = {"gap": result.gap, "iterations": result.iterations or None, "seconds": result.seconds}
    return score_row(result.method, scores) | cost


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as comma-separated values."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _known(value: float | int | str | None) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))
