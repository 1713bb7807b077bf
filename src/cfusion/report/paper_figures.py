"""Plots of the paper, drawn from numbers only: scores against a swept quantity, energies against iterations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.report.columns import Column
from cfusion.report.paper_axes import PLOT, label, legend, png_of, sheet, style
from cfusion.report.paper_checks import Exhibit, as_bullets
from cfusion.report.tables import Row, Table, csv_text


@dataclass(frozen=True)
class Sweep(Exhibit):
    """Scores against one swept quantity, one line per method."""

    over: str
    values: tuple[float, ...]
    columns: tuple[Column, ...]
    series: Mapping[str, Mapping[str, Sequence[float]]]  # row -> column key -> one number per value

    def png(self) -> bytes:
        """One panel per column, with a legend."""
        figure, axes = sheet(1, len(self.columns), (3.6, 2.9), PLOT)
        for panel, column in zip(axes, self.columns, strict=True):
            for number, (row, scores) in enumerate(self.series.items()):
                panel.plot(self.values, scores[column.key], label=row, **style(number, row))
            label(panel, self.over, column.title)
            panel.set_yscale("log")
        legend(axes[-1])
        return png_of(figure)

    def csv(self) -> str:
        """One line per method and value."""
        lines = [
            [row, repr(value), *(repr(scores[column.key][place]) for column in self.columns)]
            for row, scores in self.series.items()
            for place, value in enumerate(self.values)
        ]
        return csv_text([["method", self.over, *(column.key for column in self.columns)], *lines])

    def table(self, column: Column) -> Table:
        """One score: methods down, values across."""
        keys = [f"{value:g}" for value in self.values]
        rows = [{"name": row} | dict(zip(keys, scores[column.key], strict=True)) for row, scores in self.series.items()]
        heads = [Column(key, key, column.format, column.best) for key in keys]
        return Table(rows, [Column("name", f"{column.title} at {self.over} ="), *heads])

    def text(self) -> str:
        """The numbers for a terminal."""
        return "\n\n".join(self.table(column).text() for column in self.columns)

    def files(self) -> dict[str, bytes]:
        """The plot and its numbers."""
        parts = [*(self.table(column).markdown() for column in self.columns), as_bullets(self.verdicts)]
        return {
            f"{self.name}.png": self.png(),
            f"{self.name}.csv": self.csv().encode(),
            f"{self.name}.md": "\n\n".join(parts).encode(),
        }


@dataclass(frozen=True)
class Traces(Exhibit):
    """Energy above the lowest seen, and certified gap, against iterations and seconds."""

    series: Mapping[str, Mapping[str, Sequence[float]]]  # row -> iterations, seconds, energy, gap

    def lowest(self) -> float:
        """The lowest energy that any of them reached."""
        return min(min(trace["energy"]) for trace in self.series.values())

    def excess(self, row: str) -> NDArray[np.float64]:
        """(energy - lowest) / (initial energy - lowest): scale-free, also for negative energies."""
        energies = np.array(self.series[row]["energy"], np.float64)
        fall = max(max(trace["energy"]) for trace in self.series.values()) - self.lowest()
        return (energies - self.lowest()) / (fall or 1.0)

    def png(self) -> bytes:
        """Two by two: energy and gap, by iterations and by seconds."""
        figure, axes = sheet(2, 2, (3.6, 2.4), PLOT)
        for place, (against, what) in enumerate((a, w) for w in ("energy", "gap") for a in ("iterations", "seconds")):
            for number, (row, trace) in enumerate(self.series.items()):
                heights = self.excess(row) if what == "energy" else np.array(trace["gap"], np.float64)
                heights = np.where(heights > 0, heights, np.nan)
                axes[place].plot(trace[against], heights, label=row, **style(2 * number + 2, row))
            axes[place].set_yscale("log")
            axes[place].set_xscale("symlog", linthresh=0.01 if against == "seconds" else 10)
            axes[place].set_xlim(left=0)
            label(axes[place], against, "excess energy" if what == "energy" else "certified gap")
        legend(axes[1])
        return png_of(figure)

    def table(self) -> Table:
        """The last point of each."""
        rows: list[Row] = [
            {
                "name": row,
                "iterations": int(trace["iterations"][-1]),
                "seconds": trace["seconds"][-1],
                "energy": trace["energy"][-1],
                "gap": trace["gap"][-1],
            }
            for row, trace in self.series.items()
        ]
        heads = (
            Column("name", "algorithm"),
            Column("iterations", "iterations", "d"),
            Column("seconds", "seconds", ".2f"),
        )
        return Table(rows, [*heads, Column("energy", "energy", ".6g", "lowest"), Column("gap", "certified gap", ".1e")])

    def text(self) -> str:
        """The table for a terminal."""
        return self.table().text()

    def files(self) -> dict[str, bytes]:
        """The plot, and the last point of each."""
        return super().files() | {f"{self.name}.md": self.table().markdown().encode()}
