"""Rows of a score table."""

from typing import TYPE_CHECKING

from cfusion.metrics import NAMES, Scores
from cfusion.report.tables import Row

if TYPE_CHECKING:
    from cfusion.result import Result


def score_row(name: str, scores: Scores) -> dict[str, float | int | str | None]:
    """The scores of one depth map under the keys of `columns.COLUMNS`."""
    return {"name": name} | {key: scores.named(key) for key in NAMES}


def result_row(result: "Result", scores: Scores) -> Row:
    """The scores of a result, with its gap, iterations and seconds."""
    cost = {"gap": result.gap, "iterations": result.iterations or None, "seconds": result.seconds}
    return score_row(result.method, scores) | cost
