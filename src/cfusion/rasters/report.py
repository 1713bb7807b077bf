"""What is said about every raster of a mosaic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cfusion.rasters.coregister import Placement


@dataclass(frozen=True)
class RasterReport:
    """One raster, as it came, against the fused ground."""

    name: str
    placement: Placement  # offset, tilt and shift
    taken_out: Placement  # of it, before fusing
    noise: float  # standard deviation of its errors
    pixels: int  # that it knows on the grid
    kept: float  # share of them within three noise scales of the fused ground


HEADINGS = ("raster", "offset", "tilt col", "tilt row", "shift col", "shift row", "noise", "pixels", "kept")


def table(rows: Sequence[RasterReport]) -> str:
    """Aligned columns; offsets in the unit of the heights, tilts in it per pixel, shifts in pixels."""
    lines: list[tuple[str, ...]] = [HEADINGS]
    for row in rows:
        found = row.placement
        numbers = (*(f"{value:+.3g}" for value in (found.offset, *found.tilt, *found.shift)), f"{row.noise:.3g}")
        lines.append((row.name, *numbers, str(row.pixels), f"{row.kept:.1%}"))
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
