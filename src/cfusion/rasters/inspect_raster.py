"""Checks of a raster before any work, on a few of its windows."""

import numpy as np

from cfusion.errors import FileError, InputError
from cfusion.rasters.align import Aligned
from cfusion.rasters.ground import require_no_filling
from cfusion.rasters.raster import Raster

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
    require_no_filling(raster.name, known)


def require_overlap(rasters: list[Aligned]) -> None:
    """Refuse rasters of which one meets no other, by their footprints on the grid."""
    boxes = [each.footprint() for each in rasters]
    for each, box in zip(rasters, boxes, strict=True):
        if box[0] >= box[2] or box[1] >= box[3]:
            raise InputError(f"{each.raster.name} lies outside the mosaic's grid; leave it out, or give other bounds")
    reached, todo = {0}, [0]
    while todo:
        one = boxes[todo.pop()]
        for k, other in enumerate(boxes):
            meets = max(one[0], other[0]) < min(one[2], other[2]) and max(one[1], other[1]) < min(one[3], other[3])
            if k not in reached and meets:
                reached.add(k)
                todo.append(k)
    for k, each in enumerate(rasters):
        if k not in reached:
            raise InputError(
                f"{each.raster.name} does not overlap {rasters[0].raster.name}"
                + (" or a raster that does" if len(rasters) > 2 else "")
                + "; fuse rasters of one place, or check their coordinates"
            )


def _starts(size: int) -> list[int]:
    if size <= SIDE * ACROSS:
        return list(range(0, size, SIDE))
    return [int(start) for start in np.linspace(0, size - SIDE, ACROSS)]
