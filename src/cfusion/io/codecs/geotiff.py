"""GeoTIFF heights through rasterio: the grid of a raster, and its heights.

Whether a file's coordinates refer to pixel corners or centres (AREA_OR_POINT) is kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import TINY, share_of
from cfusion.errors import FileError
from cfusion.io.codecs.beside_raster import require_own_numbers
from cfusion.io.codecs.raster_library import masked_band, opened, rasterio
from cfusion.io.files import require_file
from cfusion.io.limits import MOST_BYTES, require_pixels

STRIP = 1 << 20  # pixels read at a time
CACHE = 32  # MiB of decoded blocks that the library caches, by default a twentieth of all memory
SAME = 1e-6  # pixels: grids that differ by less are equal


@dataclass(frozen=True)
class Grid:
    """The grid of a raster: an affine map from pixel corners to coordinates, and their CRS."""

    transform: tuple[float, float, float, float, float, float]  # x = a col + b row + c, y = d col + e row + f
    width: int
    height: int
    crs: str  # as well-known text; empty if the file has none
    area_or_point: str = "Area"

    @property
    def pixel(self) -> tuple[float, float]:
        """Width and height of a pixel."""
        a, b, _, d, e, _ = self.transform
        return float(np.hypot(a, d)), float(np.hypot(b, e))

    def difference(self, other: "Grid") -> str:
        """How another grid differs from this one, as a predicate; empty if they are equal."""
        if (self.width, self.height) != (other.width, other.height):
            return f"is {other.width} x {other.height} pixels, the first {self.width} x {self.height}"
        if self.crs != other.crs:
            return "has another coordinate system than the first"
        ours, theirs = np.reshape(self.transform, (2, 3)), np.reshape(other.transform, (2, 3))
        corners = np.array([[0, 0, 1], [self.width, 0, 1], [0, self.height, 1]]).T
        apart = float(np.abs((ours - theirs) @ corners).max()) / max(min(self.pixel), TINY)
        return f"lies {apart:.3g} pixels off the first" if apart > SAME else ""


def grid_of(file: Path, band: int = 1) -> Grid:
    """The grid of a file, which must have that band."""
    with _opened(file) as raster:
        require_pixels(file, raster.width, raster.height, require_file(file))
        if raster.count < band:
            raise FileError(f"{file} has {raster.count} bands; band {band} does not exist")
        a, b, c, d, e, f = tuple(raster.transform)[:6]
        crs = "" if raster.crs is None else str(raster.crs.to_wkt())
        kind = str(raster.tags().get("AREA_OR_POINT", "Area"))
        return Grid((a, b, c, d, e, f), int(raster.width), int(raster.height), crs, kind)


def read_heights(file: Path, band: int = 1) -> NDArray[np.float32]:
    """Heights (H, W), NaN where the raster has nodata or is masked."""
    with _opened(file) as raster:
        require_pixels(file, raster.width, raster.height, require_file(file))
        kind = np.dtype(raster.dtypes[band - 1])
        if kind.kind not in "fiu":
            raise FileError(f"{file} holds {kind}; give a raster of real numbers")
        scale, offset = raster.scales[band - 1], raster.offsets[band - 1]
        heights = np.empty((raster.height, raster.width), np.float32)
        step = share_of(STRIP, raster.width)
        for first in range(0, raster.height, step):  # double precision, in strips to save memory
            window = ((first, min(first + step, raster.height)), (0, raster.width))
            values = masked_band(raster, band, window)
            with np.errstate(over="ignore"):  # beyond float32 counts as unknown
                heights[first : first + step] = np.ma.filled(values.astype(np.float64), np.nan) * scale + offset
    heights[~np.isfinite(heights)] = np.nan
    if np.isnan(heights).all():
        raise FileError(f"{file} has no heights: every pixel is nodata; leave it out")
    return heights


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """A raster opened for reading all of it."""
    require_own_numbers(file)
    with rasterio().Env(GDAL_CACHEMAX=CACHE), opened(file, MOST_BYTES) as raster:
        yield raster
