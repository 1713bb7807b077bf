"""Our numbers beside the published ones: Markdown, LaTeX, CSV and HTML, built from numbers only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from cfusion.report.columns import Column
from cfusion.report.page import html_table
from cfusion.report.paper_checks import Exhibit, as_bullets, as_items
from cfusion.report.tables import MISSING, Table, csv_text


@dataclass(frozen=True)
class Pair:
    """Our number and the published one; either may be missing."""

    ours: float | None
    published: float | None = None

    @property
    def ratio(self) -> float | None:
        """Our number over the published one."""
        if self.ours is None or not self.published:
            return None
        return self.ours / self.published


@dataclass(frozen=True)
class Line:
    """A row of the table: one pair per column, group after group; `extra` goes into the CSV only."""

    name: str
    pairs: tuple[Pair, ...]
    extra: Mapping[str, float]
    labelled: bool = False  # not a contestant: its parameters were chosen by the truth


@dataclass(frozen=True)
class Comparison(Exhibit):
    """A table of the paper with our numbers; columns repeat for each group (data set)."""

    groups: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    def heads(self) -> list[tuple[str, Column]]:
        """Group and column of every pair of a line."""
        return [(group, column) for group in self.groups for column in self.columns]

    def best(self, place: int) -> float | None:
        """The best of our numbers in a column, among rows that did not use the truth."""
        column = self.heads()[place][1]
        ours = [line.pairs[place].ours for line in self.lines if not line.labelled]
        numbers = [number for number in ours if number is not None and math.isfinite(number)]
        if not numbers or column.best is None:
            return None
        return min(numbers) if column.best == "lowest" else max(numbers)

    def is_best(self, line: Line, place: int) -> bool:
        """Whether a number, as written, is the best."""
        best, column = self.best(place), self.heads()[place][1]
        return (
            best is not None
            and not line.labelled
            and _written(line.pairs[place].ours, column) == _written(best, column)
        )

    def markdown(self) -> str:
        """Our numbers with the published ones in brackets; our best is bold."""
        titles = [_title(group, column, len(self.groups)) for group, column in self.heads()]
        out = ["| method | " + " | ".join(titles) + " |", "| --- |" + " ---: |" * len(titles)]
        for line in self.lines:
            cells = []
            for place, (pair, (_, column)) in enumerate(zip(line.pairs, self.heads(), strict=True)):
                ours = _written(pair.ours, column)
                ours = f"**{ours}**" if self.is_best(line, place) else ours
                cells.append(ours if pair.published is None else f"{ours} ({_written(pair.published, column)})")
            out.append(f"| {line.name} | " + " | ".join(cells) + " |")
        return "\n".join(out)

    def latex(self) -> str:
        """A tabular; our best is bold, published numbers are grey (needs xcolor)."""
        titles = [_tex(_title(group, column, len(self.groups))) for group, column in self.heads()]
        out = [r"\begin{tabular}{l" + "rr" * len(titles) + "}", r"\hline"]
        out.append(" & " + " & ".join(rf"\multicolumn{{2}}{{c}}{{{title}}}" for title in titles) + r" \\")
        out.append(" & " + " & ".join(["ours & paper"] * len(titles)) + r" \\ \hline")
        for line in self.lines:
            cells = []
            for place, (pair, (_, column)) in enumerate(zip(line.pairs, self.heads(), strict=True)):
                ours = _written(pair.ours, column)
                cells.append(rf"\textbf{{{ours}}}" if self.is_best(line, place) else ours)
                cells.append(rf"\textcolor{{gray}}{{{_written(pair.published, column)}}}")
            out.append(_tex(line.name) + " & " + " & ".join(cells) + r" \\")
        return "\n".join([*out, r"\hline", r"\end{tabular}"])

    def csv(self) -> str:
        """All numbers in full precision."""
        extras = sorted({name for line in self.lines for name in line.extra})
        heads = [f"{group} {column.key}" if len(self.groups) > 1 else column.key for group, column in self.heads()]
        out = [["method", *(f"{head}{suffix}" for head in heads for suffix in ("", " published")), *extras]]
        for line in self.lines:
            numbers = [number for pair in line.pairs for number in (pair.ours, pair.published)]
            row = [*numbers, *(line.extra.get(name) for name in extras)]
            out.append([line.name, *("" if number is None else repr(number) for number in row)])
        return csv_text(out)

    def text(self) -> str:
        """Our numbers for a terminal; the best has a star."""
        keyed = [
            Column(str(place), _title(group, column, len(self.groups)), column.format, column.best)
            for place, (group, column) in enumerate(self.heads())
        ]
        rows = [
            {"name": line.name} | {str(place): pair.ours for place, pair in enumerate(line.pairs)}
            for line in self.lines
        ]
        return Table(rows, [Column("name", "method"), *keyed]).text()

    def files(self) -> dict[str, bytes]:
        """The table in three formats."""
        return {
            f"{self.name}.md": f"{self.markdown()}\n\n{as_bullets(self.verdicts)}".encode(),
            f"{self.name}.tex": self.latex().encode(),
            f"{self.name}.csv": self.csv().encode(),
        }

    def html(self) -> str:
        """Our numbers above the published ones in grey; green if ours is at least as good."""
        titles = [escape(_title(group, column, len(self.groups))) for group, column in self.heads()]
        rows = [
            [f"<td>{escape(line.name)}</td>", *(self._cell(line, place) for place in range(len(line.pairs)))]
            for line in self.lines
        ]
        return f"{html_table(['method', *titles], rows)}\n{as_items(self.verdicts)}"

    def _cell(self, line: Line, place: int) -> str:
        pair, column = line.pairs[place], self.heads()[place][1]
        ours = escape(_written(pair.ours, column))
        if self.is_best(line, place):
            ours = f"<b>{ours}</b>"
        if pair.published is None:
            return f"<td>{ours}</td>"
        good = pair.ours is not None and (
            pair.ours >= pair.published if column.best == "highest" else pair.ours <= pair.published
        )
        kind = "better" if good else "worse"
        return f'<td class="{kind}">{ours}<br><small>{escape(_written(pair.published, column))}</small></td>'


def _written(number: float | None, column: Column) -> str:
    return MISSING if number is None or not math.isfinite(number) else format(number, column.format)


def _title(group: str, column: Column, groups: int) -> str:
    return f"{group} {column.title}" if groups > 1 else column.title


def _tex(text: str) -> str:
    for letter in "%&_#$":
        text = text.replace(letter, "\\" + letter)
    return text
