"""Verdicts on the expected results, with the numbers."""

import math
from collections.abc import Mapping, Sequence

from cfusion.experiments.spec import Check, Part
from cfusion.report.paper_checks import Verdict
from cfusion.report.paper_tables import Comparison

WORSE = 1.0 + 1e-3  # a row that is better by less does not count as better


def verdict(check: Check, table: Comparison) -> Verdict:
    """Check a table against its published numbers; rows that were not run are ignored."""
    details = []
    holds = True
    for line in table.lines:
        if line.name not in check.rows:
            continue
        for place, (group, column) in enumerate(table.heads()):
            if column.key not in check.columns:
                continue
            ours = line.pairs[place].ours
            goal = _best_published(table, place) if check.rule == "of_best" else line.pairs[place].published
            if ours is None or goal is None:
                continue
            good = _holds(check, ours, goal)
            holds &= good
            if not good or check.rule == "of_best":
                ratio = f"{ours / goal:.2f} x" if goal else "against"
                details.append(f"{line.name} {group} {column.title}: {ours:.4g}, {ratio} {goal:.4g}".replace("  ", " "))
    return Verdict(check.says, holds, tuple(details))


def _holds(check: Check, ours: float, goal: float) -> bool:
    if check.rule == "within":
        return abs(ours - goal) <= check.factor * goal
    return ours <= check.factor * goal


def _best_published(table: Comparison, place: int) -> float | None:
    published = [line.pairs[place].published for line in table.lines]
    return min((number for number in published if number is not None), default=None)


def champion_verdict(
    champion: str, part: Part, values: Sequence[float], series: Mapping[str, Mapping[str, Sequence[float]]]
) -> Verdict:
    """Whether no row beats the champion anywhere in a sweep; the details list where, and by how much."""
    lost = []
    for column in part.columns:
        for place, value in enumerate(values):
            own = series[champion][column][place]
            if not math.isfinite(own):
                lost.append(f"{part.over} = {value:g}, {column}: {champion} has no score")
            for row, scores in series.items():
                other = scores[column][place]
                if row != champion and math.isfinite(other) and own > WORSE * other:
                    more = f", {100 * (own / other - 1):.1f} % more" if other > 0 else ""
                    lost.append(f"{part.over} = {value:g}, {column}: {row} {other:.4g} against {own:.4g}{more}")
    return Verdict(f"{champion} loses to no other row, at any {part.over}", not lost, tuple(lost))
