"""The report on the rasters of a mosaic."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from cfusion.io.text_tables import aligned
from cfusion.rasters.coregister import Placement


@dataclass(frozen=True)
class RasterReport:
    """One uncorrected raster compared with the fused ground."""

    name: str
    placement: Placement  # offset, tilt and shift against the ground
    taken_out: Placement  # the part of it that was corrected before fusion
    noise: float  # standard deviation of its errors
    pixels: int  # known pixels on the grid
    kept: float  # share of them within three noise scales of the fused ground


def as_json(rows: Sequence[RasterReport]) -> str:
    """The report as JSON, for a tag of the files."""
    found = [
        {
            "raster": row.name,
            "offset": _short(row.placement.offset),
            "tilt": [_short(value) for value in row.placement.tilt],
            "shift": [_short(value) for value in row.placement.shift],
            "noise": _short(row.noise),
            "pixels": row.pixels,
            "kept": _short(row.kept),
        }
        for row in rows
    ]
    return json.dumps(found)


def _short(value: float) -> float | None:
    """Six digits; None for NaN and inf, which JSON cannot represent."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


HEADINGS = ("raster", "offset", "tilt col", "tilt row", "shift col", "shift row", "noise", "pixels", "kept")


def table(rows: Sequence[RasterReport]) -> str:
    """A table with aligned columns; offsets in the unit of the heights, tilts per pixel, shifts in pixels."""
    lines: list[tuple[str, ...]] = [HEADINGS]
    for row in rows:
        found = row.placement
        numbers = (*(f"{value:+.3g}" for value in (found.offset, *found.tilt, *found.shift)), f"{row.noise:.3g}")
        lines.append((row.name, *numbers, str(row.pixels), f"{row.kept:.1%}"))
    return "\n".join(aligned(lines))
