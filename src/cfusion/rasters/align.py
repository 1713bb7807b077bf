"""A raster on the grid of the mosaic: copied where it lies on that lattice, warped elsewhere.

Warping is rasterio's, with the exact transform of every pixel. Unknown pixels are NaN before and after: an interpolated
value depends on known pixels only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cfusion.io.codecs.raster_library import rasterio
from cfusion.rasters.grids import SAME, Grid, transformed
from cfusion.rasters.raster import Heights, Raster

COARSER = 1.5  # a target pixel this many source pixels wide: source pixels are averaged, not interpolated
PROBES = 9  # points along each side of a block, transformed to find the source pixels that it needs
PADDING = 3  # pixels around these, for the interpolation


@dataclass(frozen=True)
class Aligned:
    """A raster resampled on the target grid when read."""

    raster: Raster
    target: Grid
    resampling: str = "bilinear"
    shift: tuple[float, float] = (0.0, 0.0)  # right, up: displacement of its content, in the target's unit
    plane: tuple[float, float, float] = (0.0, 0.0, 0.0)  # subtracted: offset, per column, per row of the target

    @property
    def place(self) -> tuple[int, int] | None:
        """(left, top) on the target's lattice if the raster lies on it; None if it has to be interpolated."""
        grid = self.raster.grid
        if any(self.shift):  # given in the target's unit, so it is meaningful only in the target's system
            if not grid.coordinates.same_place(self.target.coordinates):
                return None
            grid = grid.moved(*self.shift)
        return grid.whole_pixels_from(self.target)

    @property
    def sentence(self) -> str:
        """How the raster is brought onto the grid, for the user; empty if it lies there already."""
        place, grid = self.place, self.raster.grid
        if place is not None:
            if place == (0, 0) and grid.shape == self.target.shape:
                return ""
            moved = f"moved by {self.shift[0]:+.4g} right, {self.shift[1]:+.4g} up, " if any(self.shift) else ""
            return f"{self.raster.name}: {moved}starts at column {place[0]}, row {place[1]} of the mosaic, copied"
        parts = []
        if not grid.coordinates.same_place(self.target.coordinates):
            parts.append(f"from {grid.coordinates.name} to {self.target.coordinates.name}")
        if not grid.north_up:
            parts.append("from a rotated grid")
        if any(self.shift):
            parts.append(f"moved by {self.shift[0]:+.4g} right, {self.shift[1]:+.4g} up")
        how = {"average": "averaged"}.get(self._resampling(), self._resampling())
        finer = self._ratio()
        if finer > COARSER:
            how += f", {finer:.3g} of its pixels to one of the mosaic"
        elif finer * COARSER < 1:  # a smooth surface between its pixels, which looks like agreement
            how += (
                f", one of its pixels to {1 / finer:.3g} x {1 / finer:.3g} of the mosaic: "
                "it smooths finer detail of the others; use a grid of its resolution, or leave it out"
            )
        parts.append(how)
        return f"{self.raster.name}: resampled {', '.join(parts)}"

    def footprint(self) -> tuple[int, int, int, int]:
        """First column, first row, end column, end row that the raster may cover, clipped to the target."""
        left, top, right, bottom = self.raster.grid.footprint_on(self.target.moved(-self.shift[0], -self.shift[1]))
        columns = np.clip([np.floor(left + SAME), np.ceil(right - SAME)], 0, self.target.width)
        rows = np.clip([np.floor(top + SAME), np.ceil(bottom - SAME)], 0, self.target.height)
        return int(columns[0]), int(rows[0]), int(columns[1]), int(rows[1])

    def read(self, rows: slice, columns: slice) -> Heights:
        """Heights of a window of the target, NaN where unknown."""
        place = self.place
        heights = self._warped(rows, columns) if place is None else self._copied(place, rows, columns)
        if any(self.plane):
            offset, per_column, per_row = self.plane
            column, row = np.arange(columns.start, columns.stop), np.arange(rows.start, rows.stop)
            heights = (heights - (offset + per_column * column + per_row * row[:, None])).astype(np.float32)
        return heights

    def corrected(self, plane: tuple[float, float, float], shift: tuple[float, float]) -> Aligned:
        """The same raster with `plane` subtracted and its horizontal `shift` undone."""
        return replace(self, plane=plane, shift=shift)

    def _copied(self, place: tuple[int, int], rows: slice, columns: slice) -> Heights:
        out = np.full((rows.stop - rows.start, columns.stop - columns.start), np.nan, np.float32)
        grid = self.raster.grid
        left, right = max(columns.start, place[0]), min(columns.stop, place[0] + grid.width)
        top, bottom = max(rows.start, place[1]), min(rows.stop, place[1] + grid.height)
        if left < right and top < bottom:
            part = self.raster.heights(left - place[0], top - place[1], right - left, bottom - top)
            out[top - rows.start : bottom - rows.start, left - columns.start : right - columns.start] = part
        return out

    def _warped(self, rows: slice, columns: slice) -> Heights:
        height, width = rows.stop - rows.start, columns.stop - columns.start
        out = np.full((height, width), np.nan, np.float32)
        block = self.target.window(columns.start, rows.start, width, height).moved(-self.shift[0], -self.shift[1])
        needed = self._needed(block)
        if needed is None:
            return out
        left, top, right, bottom = needed
        source = self.raster.heights(left, top, right - left, bottom - top)
        if np.isnan(source).all():
            return out
        library = rasterio()
        there = self.raster.grid.window(left, top, right - left, bottom - top)
        crs = self.target.coordinates.for_rasterio() if self.target.coordinates.wkt else None
        from_crs = self.raster.grid.coordinates.for_rasterio() if self.raster.grid.coordinates.wkt else None
        flat = library.crs.CRS.from_epsg(3857)  # an arbitrary plane, if neither raster has a coordinate system
        library.warp.reproject(
            source,
            out,
            src_transform=library.Affine(*there.transform),
            src_crs=from_crs or flat,
            src_nodata=np.nan,
            dst_transform=library.Affine(*block.transform),
            dst_crs=crs or flat,
            dst_nodata=np.nan,
            resampling=library.enums.Resampling[self._resampling()],
            tolerance=0.0,
        )
        return out

    def _needed(self, block: Grid) -> tuple[int, int, int, int] | None:
        """Left, top, right, bottom of the source pixels that a block of the target may depend on."""
        grid = self.raster.grid
        share = np.linspace(0, 1, PROBES)
        columns, rows = (each.ravel() for each in np.meshgrid(share * block.width, share * block.height))
        x, y = transformed(self.target.coordinates, grid.coordinates, *block.at(columns, rows))
        across, down = grid.to_pixels(x, y)
        known = np.isfinite(across) & np.isfinite(down)
        if not known.any():
            return None
        ratio = self._ratio()
        around = PADDING + 2 * ratio + 0.02 * max(block.width, block.height) * ratio  # sides of a block are curved
        left, right = np.floor(across[known].min() - around), np.ceil(across[known].max() + around)
        top, bottom = np.floor(down[known].min() - around), np.ceil(down[known].max() + around)
        left, right = np.clip([left, right], 0, grid.width)
        top, bottom = np.clip([top, bottom], 0, grid.height)
        return (int(left), int(top), int(right), int(bottom)) if left < right and top < bottom else None

    def _ratio(self) -> float:
        """Width of a target pixel in source pixels, at the raster's centre."""
        grid = self.raster.grid
        middle = np.array([grid.width / 2, grid.width / 2 + 1, grid.width / 2])
        x, y = grid.at(middle, np.array([grid.height / 2, grid.height / 2, grid.height / 2 + 1]))
        columns, rows = self.target.to_pixels(*transformed(grid.coordinates, self.target.coordinates, x, y))
        lengths = (
            np.hypot(np.diff(columns[[0, 1]]), np.diff(rows[[0, 1]])),
            np.hypot(np.diff(columns[[0, 2]]), np.diff(rows[[0, 2]])),
        )
        return float(1 / max(np.sqrt(lengths[0][0] * lengths[1][0]), 1e-12))

    def _resampling(self) -> str:
        return "average" if self._ratio() > COARSER and self.resampling != "nearest" else self.resampling
