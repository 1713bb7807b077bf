"""Aligned height rasters (GeoTIFF): each the view of a camera far above, all on one grid.

A height map is a depth map seen from above: depth = top - height, top a little above everything. The grids have to be
the same; whether a file's coordinates mean the pixel's corner or its centre (AREA_OR_POINT) is taken into account.
"""

import importlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.datasets.atomic import filling
from cfusion.datasets.png_chunks import MOST_PIXELS
from cfusion.datasets.posed import named_view
from cfusion.datasets.views import Frames, Views
from cfusion.errors import FileError, InputError, MissingDependency
from cfusion.geometry import Orthographic, Pose, Stack, View

SUFFIXES = (".tif", ".tiff")
SAME = 1e-6  # of a pixel: grids that differ by less are one grid
DOWN = np.diag([1.0, -1.0, -1.0])  # image x is east, image y south, depth downwards
HEADROOM = 1.0  # pixels between the highest point and the camera


@dataclass(frozen=True)
class Options:
    """How to read it."""

    band: int = 1

    def __post_init__(self) -> None:
        if self.band < 1:
            raise InputError(f"band is {self.band}; bands count from 1")


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


def recognises(path: Path) -> bool:
    """A GeoTIFF, or a folder with some."""
    return bool(_files(path))


def read(path: Path, options: Options | None = None) -> Views:
    """One view a raster, all from the same place above the middle of the grid."""
    chosen = options or Options()
    files, grid = _aligned(path, chosen)
    camera = _camera(grid)
    top = max(float(np.nanmax(heights)) for heights in (_heights(file, chosen) for file in files))
    pose = Pose(DOWN, np.array([0.0, 0.0, top + HEADROOM * grid.pixel[0]]))

    def load(number: int) -> View:
        depth = depth_of_height(_heights(files[number], chosen), pose)
        return named_view(files[number], depth, camera, pose, name=files[number].stem)

    sentence = (
        f"GeoTIFF: {len(files)} rasters on one grid of {grid.width} x {grid.height}, nodata = unknown, heights seen "
        f"from {pose.translation[2]:.6g} above, x and y from the grid's middle"
    )
    return Views(Frames.reading(load, len(files)), unit="unit of the raster", sentence=sentence)


def read_stack(path: Path, options: Options | None = None) -> tuple[Stack, Grid]:
    """The rasters as a stack (K, H, W) of minus the height, ready for `fuse_stack`, and their grid."""
    chosen = options or Options()
    files, grid = _aligned(path, chosen)
    square = abs(grid.pixel[0] - grid.pixel[1]) <= SAME * grid.pixel[0]
    depths = np.stack([-_heights(file, chosen) for file in files]).astype(np.float32)
    return Stack(depths, camera=_camera(grid) if square else None), grid


def read_grid(path: Path) -> Grid:
    """The grid of a raster, or of the first in a folder."""
    return _aligned(path, Options())[1]


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
    with (
        filling(target.resolve().parent) as draft,
        library.open(draft / target.name, "w", crs=grid.crs or None, **profile) as file,
    ):
        file.update_tags(AREA_OR_POINT=grid.area_or_point)
        file.write(heights.astype(np.float32), 1)


def depth_of_height(heights: NDArray[np.floating], pose: Pose) -> NDArray[np.float32]:
    """Depth below the camera; and with depth for height, height of depth."""
    depth: NDArray[np.float32] = (pose.translation[2] - heights.astype(np.float64)).astype(np.float32)
    return depth


def _files(path: Path) -> list[Path]:
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return [path]
    return sorted(file for file in path.glob("*") if file.suffix.lower() in SUFFIXES) if path.is_dir() else []


def _aligned(path: Path, options: Options) -> tuple[Sequence[Path], Grid]:
    files = _files(path)
    if not files:
        raise FileError(f"{path} holds no GeoTIFF (*.tif)")
    first = _grid(files[0], options)
    for file in files[1:]:
        difference = first.difference(_grid(file, options))
        if difference:
            raise FileError(f"{file} {difference} ({files[0].name}); resample them to one grid first")
    return files, first


def _grid(file: Path, options: Options) -> Grid:
    with _opened(file) as raster:
        if not 0 < raster.width * raster.height <= MOST_PIXELS:
            raise FileError(f"{file} claims {raster.width} x {raster.height} pixels, expected 1 to {MOST_PIXELS}")
        if raster.count < options.band:
            raise FileError(f"{file} has {raster.count} bands, not {options.band}")
        a, b, c, d, e, f = tuple(raster.transform)[:6]
        crs = "" if raster.crs is None else str(raster.crs.to_wkt())
        kind = str(raster.tags().get("AREA_OR_POINT", "Area"))
        return Grid((a, b, c, d, e, f), int(raster.width), int(raster.height), crs, kind)


def _heights(file: Path, options: Options) -> NDArray[np.float32]:
    """Heights (H, W), NaN where the raster has nodata or its mask says so."""
    with _opened(file) as raster:
        values = raster.read(options.band, masked=True)
        scale, offset = raster.scales[options.band - 1], raster.offsets[options.band - 1]
    if values.dtype.kind not in "fiu":
        raise FileError(f"{file} holds {values.dtype}, expected real numbers")
    heights = np.ma.filled(values.astype(np.float64), np.nan) * scale + offset
    heights[~np.isfinite(heights)] = np.nan
    if np.isnan(heights).all():
        raise FileError(f"{file} has no height at all: every pixel is nodata")
    narrow: NDArray[np.float32] = heights.astype(np.float32)
    return narrow


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    library = _rasterio()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a raster without coordinates is a raster
            with library.open(file, driver="GTiff") as raster:
                yield raster
    except (library.errors.RasterioError, library.errors.RasterioIOError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = (str(error).splitlines() or ["no reason given"])[0][:100]
        raise FileError(f"{file} is not a GeoTIFF, or a damaged one ({reason}); write it anew") from None


def _camera(grid: Grid) -> Orthographic:
    along, down = grid.pixel
    a, b, _, d, e, _ = grid.transform
    if abs(along - down) > SAME * along or not (a > 0 > e) or b != 0 or d != 0:
        raise FileError(
            f"the grid's pixels are {along:g} x {down:g} (or turned); resample to square pixels with north up"
        )
    return Orthographic(along, (grid.width - 1) / 2, (grid.height - 1) / 2, grid.width, grid.height)


def _rasterio() -> Any:
    try:
        library = importlib.import_module("rasterio")
        importlib.import_module("rasterio.errors")
        return library
    except ImportError:
        raise MissingDependency("GeoTIFF needs rasterio: pip install 'cfusion[data]'") from None
