"""The pixel lattice of a raster, and the grid of a mosaic.

    x = a col + b row + c,    y = d col + e row + f        (col, row) = pixel corners

When GDAL reads a raster whose coordinates are those of pixel centres (AREA_OR_POINT = Point) it moves the origin by
half a pixel, so transforms are always of corners; the tag is kept for the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import InputError
from cfusion.io.codecs.raster_library import rasterio
from cfusion.rasters.coordinates import Coordinates

SAME = 1e-4  # pixels: grids that differ by less over their whole extent are equal
MOST_PIXELS = 2**40
EDGE_POINTS = 65  # along each side of a footprint that is transformed to another coordinate system

Transform = tuple[float, float, float, float, float, float]
Bounds = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True)
class Grid:
    """The lattice of a raster and its coordinate system."""

    transform: Transform
    width: int
    height: int
    coordinates: Coordinates
    area_or_point: str = "Area"

    def __post_init__(self) -> None:
        if not 0 < self.width * self.height <= MOST_PIXELS or self.width < 1:
            size = f"{self.width} x {self.height}"
            raise InputError(f"a grid of {size} pixels is impossible; give other bounds, or another resolution")
        a, b, _, d, e, _ = self.transform
        if not np.isfinite(self.transform).all() or abs(a * e - b * d) <= 0:
            raise InputError(f"the transform {self.transform} has no inverse; correct the raster's georeference")

    @property
    def shape(self) -> tuple[int, int]:
        return self.height, self.width

    @property
    def pixel(self) -> tuple[float, float]:
        """Width and height of a pixel, in the unit of the coordinates."""
        a, b, _, d, e, _ = self.transform
        return float(np.hypot(a, d)), float(np.hypot(b, e))

    @property
    def north_up(self) -> bool:
        a, b, _, d, e, _ = self.transform
        slack = 1e-9 * max(self.pixel)
        return a > 0 > e and abs(b) <= slack and abs(d) <= slack

    @property
    def bounds(self) -> Bounds:
        """Left, bottom, right, top of the footprint."""
        x, y = self.at(np.array([0, self.width, 0, self.width]), np.array([0, 0, self.height, self.height]))
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())

    def at(self, columns: NDArray[np.float64], rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Coordinates of pixel corners."""
        a, b, c, d, e, f = self.transform
        return a * columns + b * rows + c, d * columns + e * rows + f

    def to_pixels(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """(columns, rows) of coordinates."""
        a, b, c, d, e, f = self.transform
        scale = a * e - b * d
        return (e * (x - c) - b * (y - f)) / scale, (a * (y - f) - d * (x - c)) / scale

    def window(self, left: int, top: int, width: int, height: int) -> Grid:
        """A window of the lattice, which may extend beyond it."""
        (x,), (y,) = self.at(np.array([float(left)]), np.array([float(top)]))
        a, b, _, d, e, _ = self.transform
        return replace(self, transform=(a, b, float(x), d, e, float(y)), width=width, height=height)

    def moved(self, right: float, up: float) -> Grid:
        """The grid displaced to the right and up, in the unit of the coordinates."""
        a, b, c, d, e, f = self.transform
        return replace(self, transform=(a, b, c + right, d, e, f + up))

    def whole_pixels_from(self, target: Grid) -> tuple[int, int] | None:
        """(left, top) of this raster on the target's lattice if it lies on it exactly, else None."""
        if not self.coordinates.same_place(target.coordinates):
            return None
        columns, rows = target.to_pixels(*self.at(*self._corners()))
        own_columns, own_rows = self._corners()
        left, top = round(float(columns[0])), round(float(rows[0]))
        off = max(np.abs(columns - own_columns - left).max(), np.abs(rows - own_rows - top).max())
        return (left, top) if off <= SAME else None

    def _corners(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.array([0.0, self.width, 0.0]), np.array([0.0, 0.0, self.height])

    def footprint_on(self, target: Grid) -> tuple[float, float, float, float]:
        """First column and row, last column and row of the target's lattice that this raster covers."""
        share = np.linspace(0, 1, EDGE_POINTS)
        ends = np.concatenate([np.zeros(EDGE_POINTS), np.ones(EDGE_POINTS)])
        columns = np.concatenate([share, share, ends]) * self.width
        rows = np.concatenate([ends, share, share]) * self.height
        x, y = self.at(columns, rows)
        x, y = transformed(self.coordinates, target.coordinates, x, y)
        columns, rows = target.to_pixels(x, y)
        known = np.isfinite(columns) & np.isfinite(rows)
        if not known.any():
            raise InputError("a raster's footprint has no coordinates in the system of the mosaic; leave it out")
        columns, rows = columns[known], rows[known]
        return float(columns.min()), float(rows.min()), float(columns.max()), float(rows.max())


def transformed(
    there: Coordinates, here: Coordinates, x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Points of one coordinate system in another; inf where undefined."""
    if there.same_place(here):
        return x, y
    library = rasterio()
    moved = library.warp.transform(there.for_rasterio(), here.for_rasterio(), x.tolist(), y.tolist())
    return np.asarray(moved[0]), np.asarray(moved[1])


def target_grid(
    grids: Sequence[Grid], like: Grid | None = None, resolution: float | None = None, bounds: Bounds | None = None
) -> Grid:
    """The lattice of the first (or of `like`, or north up at a resolution), over the union of all (or the bounds)."""
    lattice = like if like is not None else grids[0]
    if resolution is not None:
        if not 0 < resolution < float("inf"):
            raise InputError(f"--resolution is {resolution}; give the width of a pixel in the unit of the CRS")
        left, _, _, top = lattice.bounds
        corner = (np.floor(left / resolution) * resolution, np.ceil(top / resolution) * resolution)
        square: Transform = (resolution, 0.0, float(corner[0]), 0.0, -resolution, float(corner[1]))
        lattice = replace(lattice, transform=square, width=1, height=1)
    elif not lattice.north_up:
        raise InputError(
            "the grid of the first raster is rotated or mirrored; pass --resolution for a grid with north up, or "
            "--like with a raster that has one"
        )
    if bounds is not None:
        return _over_bounds(lattice, bounds)
    if like is not None and resolution is None:
        return like
    reached = np.array([grid.footprint_on(lattice) for grid in grids])
    left, top = (int(np.floor(value + SAME)) for value in reached[:, :2].min(axis=0))
    right, bottom = (int(np.ceil(value - SAME)) for value in reached[:, 2:].max(axis=0))
    return lattice.window(left, top, right - left, bottom - top)


def _over_bounds(lattice: Grid, bounds: Bounds) -> Grid:
    """The pixels of the lattice that the bounds touch."""
    left, bottom, right, top = bounds
    if not (np.isfinite(bounds).all() and left < right and bottom < top):
        raise InputError(f"--bounds is {bounds}; give left bottom right top, in the unit of the mosaic's CRS")
    columns, rows = lattice.to_pixels(np.array([left, right]), np.array([top, bottom]))
    first, last = int(np.floor(columns[0] + SAME)), int(np.ceil(columns[1] - SAME))
    up, down = int(np.floor(rows[0] + SAME)), int(np.ceil(rows[1] - SAME))
    return lattice.window(first, up, last - first, down - up)
