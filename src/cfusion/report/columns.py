"""The one table of shown columns: heading, digits, which value is best, and its meaning."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Column:
    """A column: key of its values, heading, number format, and which value is best."""

    key: str
    title: str
    format: str = ""
    best: Literal["lowest", "highest"] | None = None
    meaning: str = ""
    published: str = ""  # number format beside the paper's numbers, if different

    @property
    def beside_the_paper(self) -> "Column":
        """The column with as many digits as in the paper."""
        return replace(self, format=self.published or self.format)


_ALL = (
    Column("name", "method", meaning="How the views were fused."),
    Column(
        *("rmse", "RMSE", ".4f", "lowest"),
        "Root of the mean squared depth error, after subtracting each map's mean: the shape, not the offset.",
    ),
    Column(
        *("zmae", "ZMAE", ".4f", "lowest"),
        "Mean absolute depth error, after subtracting the median difference.",
    ),
    Column(
        *("nmae", "NMAE [rad]", ".4f", "lowest"),
        "Mean angle between the normals of the two surfaces, in radians; 1.57 is a right angle.",
    ),
    Column(
        *("z_avg", "Z-avg", ".4f", "lowest"),
        "Geometric mean of RMSE, ZMAE and NMAE: one figure for depth and shape.",
    ),
    Column(
        *("out3", "out-3 [%]", ".2f", "lowest"),
        "Share of the true pixels whose disparity is off by more than three pixels, holes filled from behind.",
        published=".3f",
    ),
    Column(
        *("d_avg", "D-avg [px]", ".3f", "lowest"),
        "Mean absolute disparity error in pixels, over all true pixels, holes filled from behind.",
        published=".4f",
    ),
    Column("out3_all", "out-3 all [%]", ".3f", "lowest", "out-3, pixels that only the reference camera sees included."),
    Column("d_avg_all", "D-avg all [px]", ".4f", "lowest", "D-avg, the same pixels included."),
    Column(
        *("density", "density [%]", ".1f", "highest"),
        "Share of the true pixels that have an estimate.",
        published=".2f",
    ),
    Column("plain_rmse", "plain RMSE", ".4f", "lowest", "Root of the mean squared depth error, nothing subtracted."),
    Column("plain_mae", "plain MAE", ".4f", "lowest", "Mean absolute depth error, nothing subtracted."),
    Column("bias", "bias", "+.4f", None, "Mean of depth minus truth: positive is too far."),
    Column(
        *("gap", "gap", ".1e", None),
        "Certified relative duality gap: the energy is at most this fraction above its minimum.",
    ),
    Column("iterations", "iterations", "d", None, "Iterations of the convex solver in the last solve."),
    Column(
        *("seconds", "seconds", ".2f", None), "Wall-clock seconds of the fusion, without the compilation of kernels."
    ),
)
COLUMNS = {column.key: column for column in _ALL}
SCORES = tuple(column for column in _ALL if not column.key.startswith("plain_"))  # that a score table shows
