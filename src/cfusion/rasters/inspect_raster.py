"""Checks of a raster before any work, on a few of its windows."""

from collections.abc import Sequence

import numpy as np

from cfusion.errors import FileError, InputError
from cfusion.rasters.align import Aligned
from cfusion.rasters.ground import require_no_filling
from cfusion.rasters.raster import Raster

Box = tuple[float, float, float, float]  # first column, first row, end column, end row
SIDE, ACROSS = 512, 4  # pixels along a window, windows along each side


def require_heights(raster: Raster) -> None:
    """Refuse a raster without known heights, or with a fill value."""
    width, height = raster.grid.width, raster.grid.height
    parts = []
    for top in _starts(height):
        for left in _starts(width):
            part = raster.heights(left, top, min(SIDE, width - left), min(SIDE, height - top))
            parts.append(part[np.isfinite(part)])
    known = np.concatenate(parts)
    if known.size == 0 and width * height <= (SIDE * ACROSS) ** 2:
        raise FileError(f"{raster.path} has no heights: every pixel is nodata; leave it out")
    require_no_filling(raster.name, raster.stored(known))


def require_inside(rasters: Sequence[Aligned]) -> None:
    """Refuse rasters outside the mosaic's grid, or that overlap outside of it only."""
    boxes = [each.footprint() for each in rasters]
    for each, box in zip(rasters, boxes, strict=True):
        if box[0] >= box[2] or box[1] >= box[3]:
            raise InputError(f"{each.raster.name} lies outside the mosaic's grid; leave it out, or give other bounds")
    require_overlap([each.raster for each in rasters], boxes)


def require_overlap(rasters: Sequence[Raster], boxes: Sequence[Box]) -> None:
    """Refuse rasters of which one meets no other, by their footprints."""
    reached, todo = {0}, [0]
    while todo:
        one = boxes[todo.pop()]
        for k, other in enumerate(boxes):
            meets = max(one[0], other[0]) < min(one[2], other[2]) and max(one[1], other[1]) < min(one[3], other[3])
            if k not in reached and meets:
                reached.add(k)
                todo.append(k)
    apart = [each.name for k, each in enumerate(rasters) if k not in reached]
    if apart:
        others = f"{rasters[0].name} or a raster that does" if len(rasters) > 2 else rasters[0].name
        found = f"{apart[0]} does not overlap {others}"
        if len(rasters) > 2 and len(reached) == 1:
            found = f"{rasters[0].name} does not overlap the others"
        raise InputError(f"{found}; fuse rasters of one place, or check their coordinates")


def _starts(size: int) -> list[int]:
    if size <= SIDE * ACROSS:
        return list(range(0, size, SIDE))
    return [int(start) for start in np.linspace(0, size - SIDE, ACROSS)]
