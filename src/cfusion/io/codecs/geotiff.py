"""GeoTIFF heights through rasterio: the grid a raster lies on, its heights, and writing them back.

Whether a file's coordinates mean the pixel's corner or its centre (AREA_OR_POINT) is kept.
"""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError, InputError, MissingDependency
from cfusion.io.atomic import filling
from cfusion.io.codecs.beside_raster import require_own_numbers
from cfusion.io.codecs.tiff_header import require_blocks
from cfusion.io.files import require_file
from cfusion.io.limits import require_pixels

STRIP = 1 << 20  # pixels read at a time
CACHE = 32  # MiB of decoded blocks that the library keeps; it takes a twentieth of the memory unless told
SAME = 1e-6  # of a pixel: grids that differ by less are one grid


@dataclass(frozen=True)
class Grid:
    """Where the pixels of a raster lie: six numbers from pixel corners to coordinates, and what these mean."""

    transform: tuple[float, float, float, float, float, float]  # x = a col + b row + c, y = d col + e row + f
    width: int
    height: int
    crs: str  # as well-known text; empty where the file has none
    area_or_point: str = "Area"

    @property
    def pixel(self) -> tuple[float, float]:
        """Lengths of a pixel along its row and its column."""
        a, b, _, d, e, _ = self.transform
        return float(np.hypot(a, d)), float(np.hypot(b, e))

    def difference(self, other: "Grid") -> str:
        """What tells two grids apart, in words; empty where they are the same."""
        if (self.width, self.height) != (other.width, other.height):
            return f"is {other.width} x {other.height} pixels, the first {self.width} x {self.height}"
        if self.crs != other.crs:
            return "has another coordinate system than the first"
        ours, theirs = np.reshape(self.transform, (2, 3)), np.reshape(other.transform, (2, 3))
        corners = np.array([[0, 0, 1], [self.width, 0, 1], [0, self.height, 1]]).T
        apart = float(np.abs((ours - theirs) @ corners).max()) / max(min(self.pixel), 1e-300)
        return f"lies {apart:.3g} pixels off the first" if apart > SAME else ""


def grid_of(file: Path, band: int = 1) -> Grid:
    """The grid of one file, which has to have that band."""
    with _opened(file) as raster:
        require_pixels(file, raster.width, raster.height, require_file(file))
        if raster.count < band:
            raise FileError(f"{file} has {raster.count} bands, not {band}")
        a, b, c, d, e, f = tuple(raster.transform)[:6]
        crs = "" if raster.crs is None else str(raster.crs.to_wkt())
        kind = str(raster.tags().get("AREA_OR_POINT", "Area"))
        return Grid((a, b, c, d, e, f), int(raster.width), int(raster.height), crs, kind)


def read_heights(file: Path, band: int = 1) -> NDArray[np.float32]:
    """Heights (H, W), NaN where the raster has nodata or its mask says so."""
    with _opened(file) as raster:
        require_pixels(file, raster.width, raster.height, require_file(file))
        kind = np.dtype(raster.dtypes[band - 1])
        if kind.kind not in "fiu":
            raise FileError(f"{file} holds {kind}, expected real numbers")
        scale, offset = raster.scales[band - 1], raster.offsets[band - 1]
        heights = np.empty((raster.height, raster.width), np.float32)
        step = max(1, STRIP // raster.width)
        for first in range(0, raster.height, step):  # in double precision, but not the whole raster at once
            window = ((first, min(first + step, raster.height)), (0, raster.width))
            values = raster.read(band, window=window, masked=True)
            with np.errstate(over="ignore"):  # beyond float32 is unknown
                heights[first : first + step] = np.ma.filled(values.astype(np.float64), np.nan) * scale + offset
    heights[~np.isfinite(heights)] = np.nan
    if np.isnan(heights).all():
        raise FileError(f"{file} has no height at all: every pixel is nodata")
    return heights


def write_raster(path: str | PathLike[str], heights: NDArray[np.floating], grid: Grid) -> None:
    """Heights (H, W) as float32 GeoTIFF on the grid, NaN = nodata, whole or not at all."""
    if heights.shape != (grid.height, grid.width):
        raise InputError(f"heights are {heights.shape}, the grid is {(grid.height, grid.width)}")
    library = _rasterio()
    target = Path(path)
    profile = {
        **{"driver": "GTiff", "width": grid.width, "height": grid.height, "count": 1, "dtype": "float32"},
        **{"nodata": float("nan"), "transform": library.Affine(*grid.transform), "compress": "deflate"},
    }
    narrow = heights.astype(np.float32)
    with filling(target.resolve().parent) as draft:
        with library.open(draft / target.name, "w", crs=grid.crs or None, **profile) as file:
            file.update_tags(AREA_OR_POINT=grid.area_or_point)
            file.write(narrow, 1)
        _require_written(draft / target.name, narrow)


def _require_written(file: Path, heights: NDArray[np.float32]) -> None:
    """Read it back: the library does not say that the disk was full when it closed the file."""
    try:
        with _opened(file) as raster:
            written = raster.read(1)
    except FileError:
        written = None
    if written is None or not np.array_equal(written, heights, equal_nan=True):
        raise OSError("the raster could not be written whole")


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    library = _rasterio()
    require_blocks(file, require_file(file))
    require_own_numbers(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a raster without coordinates is a raster
            with library.Env(GDAL_CACHEMAX=CACHE), library.open(file, driver="GTiff") as raster:
                yield raster
    except (library.errors.RasterioError, library.errors.RasterioIOError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = (str(error).splitlines() or ["no reason given"])[0][:100]
        raise FileError(f"{file} is not a GeoTIFF, or a damaged one ({reason}); write it anew") from None


def _rasterio() -> Any:
    try:
        library = importlib.import_module("rasterio")
        importlib.import_module("rasterio.errors")
        return library
    except ImportError:
        raise MissingDependency("GeoTIFF needs rasterio: pip install 'cfusion[data]'") from None
