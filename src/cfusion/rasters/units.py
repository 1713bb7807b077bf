"""Refusal of rasters with different units, vertical datums or without a coordinate system, in one line each."""

from collections.abc import Sequence

import numpy as np

from cfusion.errors import InputError
from cfusion.rasters.grids import Grid
from cfusion.rasters.raster import Raster

METRES_PER_DEGREE = 111_320.0


def require_one_system(rasters: Sequence[Raster]) -> tuple[str, ...]:
    """Refuse rasters whose heights cannot be compared; return a sentence for each assumption made."""
    first = rasters[0]
    sentences: list[str] = []
    bare = [each.name for each in rasters if not each.grid.coordinates.wkt]
    if bare and len(bare) < len(rasters):
        raise InputError(f"{bare[0]} has no CRS, others have one; write it into the file (gdal_edit.py -a_srs EPSG:..)")
    if bare:
        sentences.append("no raster has a CRS: their coordinates are assumed to be in one plane")
    for other in rasters[1:]:
        _require_same_unit(first, other)
        ours, theirs = first.grid.coordinates.vertical, other.grid.coordinates.vertical
        if ours and theirs and ours != theirs:
            raise InputError(
                f"{other.name} has heights over {theirs!r}, {first.name} over {ours!r}; bring them to one vertical "
                f"datum first (gdalwarp -s_srs .. -t_srs ..)"
            )
        if bool(ours) != bool(theirs):
            silent, stated = (first.name, theirs) if theirs else (other.name, ours)
            sentences.append(f"{silent}: states no vertical datum, assumed to be {stated!r} like the others")
    sentences += [
        f"{each.name}: {each.dtype} x {each.scale:g} + {each.offset:g} = height, from its tags"
        for each in rasters
        if (each.scale, each.offset) != (1.0, 0.0)
    ]
    kinds = {each.grid.area_or_point for each in rasters}
    if len(kinds) > 1:
        sentences.append("AREA_OR_POINT differs: half a pixel between corner and centre is taken into account")
    return tuple(sentences)


def _require_same_unit(first: Raster, other: Raster) -> None:
    for ours, theirs, what in (
        (first.unit, other.unit, "heights"),
        (first.grid.coordinates.horizontal_unit, other.grid.coordinates.horizontal_unit, "coordinates"),
    ):
        angles = "degree" in (ours, theirs)
        stated = what == "coordinates" and first.unit and other.unit  # the heights state their own unit
        if ours and theirs and ours != theirs and not angles and not stated:
            raise InputError(
                f"{other.name} has {what} in {theirs}, {first.name} in {ours}; bring heights to one unit first, and "
                f"state it in the file (gdal_edit.py -units ..)"
            )


def degree_sentence(target: Grid) -> str:
    """A sentence about a grid in degrees; empty for a projected one."""
    if not target.coordinates.degrees:
        return ""
    latitude = np.radians((target.bounds[1] + target.bounds[3]) / 2)
    along, down = target.pixel[0] * METRES_PER_DEGREE * np.cos(latitude), target.pixel[1] * METRES_PER_DEGREE
    return (
        f"the grid is in degrees ({target.coordinates.name}): a pixel is about {along:.3g} x {down:.3g} m; heights "
        "keep their unit, and smoothing is in pixels"
    )
