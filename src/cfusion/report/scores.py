"""Rows of a score table from results and what they scored."""

from typing import TYPE_CHECKING

from cfusion.metrics import Scores
from cfusion.report.tables import Row

if TYPE_CHECKING:
    from cfusion.result import Result


def score_row(name: str, scores: Scores) -> dict[str, float | int | str | None]:
    """The scores of one depth map under the keys of `tables.SCORES`."""
    return {
        "name": name,
        "rmse": scores.rmse,
        "zmae": scores.zmae,
        "nmae": scores.nmae,
        "z_avg": scores.z_avg,
        "out3": scores.out(3),
        "d_avg": scores.d_avg,
        "density": scores.density,
        "plain_rmse": scores.plain_rmse,
        "plain_mae": scores.plain_mae,
        "bias": scores.bias,
    }


def result_row(result: "Result", scores: Scores) -> Row:
    """The scores of a result, and what they cost."""
    cost = {"gap": result.gap, "iterations": result.iterations or None, "seconds": result.seconds}
    return score_row(result.method, scores) | cost
