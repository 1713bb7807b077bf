"""The maps of a mosaic as cloud-optimised GeoTIFF and a shaded picture; each file appears complete or not at all."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError
from cfusion.io.atomic import filling
from cfusion.io.codecs.raster_library import rasterio, reason
from cfusion.io.drafts import draft_in
from cfusion.rasters.grids import Grid
from cfusion.rasters.tiles import Tile
from cfusion.rasters.units import METRES_PER_DEGREE

KINDS: Mapping[str, tuple[str, float | None, str]] = {
    "height": ("float32", float("nan"), "fused height"),
    "sigma": ("float32", float("nan"), "standard deviation of the fused height's error"),
    "count": ("uint16", None, "number of observations"),
    "nmad": ("float32", float("nan"), "1.4826 median |d - median d| of the observations; unknown below two"),
    "provenance": ("int16", None, "n > 0 observed n times, 0 filled, -1 unknown"),
    "source": ("uint16", 0.0, "number of the raster nearest to the fused height, from 1; tags name them"),
}
LENGTHS = ("height", "sigma", "nmad")  # have a unit, and can be averaged
QUICK = 1  # level of deflate: higher ones take twice as long and do not shrink noise
INNER = 512  # pixels, side of a block inside the files
PICTURE = 1600  # pixels, longest side
SUN_AZIMUTH, SUN_ALTITUDE = np.radians(315.0), np.radians(45.0)


def files_of(output: Path) -> dict[str, Path]:
    """OUT.tif for the height; the other maps beside it."""
    files = {"height": output} | {
        kind: output.with_name(f"{output.stem}_{kind}{output.suffix}") for kind in KINDS if kind != "height"
    }
    return {**files, "hillshade": output.with_name(f"{output.stem}_hillshade.png")}


class Writer:
    """Writes maps block by block into drafts, which move into place together at the end."""

    def __init__(self, output: Path, grid: Grid, unit: str) -> None:
        self.output, self.grid, self.unit = output, grid, unit
        self.files = files_of(output)

    def __enter__(self) -> Writer:
        library = rasterio()
        self.held = ExitStack()
        self.draft = self.held.enter_context(draft_in(self.output.parent))  # locked, so that others do not sweep it
        a, b, c, d, e, f = self.grid.transform
        self.open: dict[str, Any] = {}
        inner = {"tiled": True, "blockxsize": INNER, "blockysize": INNER} if min(self.grid.shape) >= INNER else {}
        for kind, (dtype, nodata, description) in KINDS.items():
            self.open[kind] = library.open(
                self.draft / f"{kind}.plain.tif", "w", driver="GTiff", width=self.grid.width, height=self.grid.height,
                count=1, dtype=dtype, nodata=nodata, crs=self.grid.coordinates.wkt or None,
                transform=library.Affine(a, b, c, d, e, f), BIGTIFF="IF_SAFER", compress="deflate", ZLEVEL=QUICK,
                **inner,
            )  # fmt: skip
            self.open[kind].set_band_description(1, description)
            if kind in LENGTHS and self.unit:
                self.open[kind].units = (self.unit,)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        try:
            for file in self.open.values():
                with suppress(Exception) if kind else nullcontext():  # what went wrong before is told
                    file.close()
        finally:
            self.held.close()

    def write(self, block: Tile, maps: Mapping[str, NDArray[Any]]) -> None:
        window = ((block.top, block.bottom), (block.left, block.right))
        for kind, values in maps.items():
            try:
                self.open[kind].write(values, 1, window=window)
            except rasterio().errors.RasterioError as error:
                raise self._failed(error) from None

    def publish(self, tags: Mapping[str, str]) -> dict[str, Path]:
        """Write tags, cloud-optimised copies and the picture; then move everything into place."""
        library = rasterio()
        try:
            for kind, file in self.open.items():
                file.update_tags(AREA_OR_POINT=self.grid.area_or_point, **tags, CFUSION_MAP=kind)
                file.close()
                options = {"COMPRESS": "DEFLATE", "LEVEL": QUICK, "BIGTIFF": "IF_SAFER"}
                options |= {"OVERVIEW_RESAMPLING": "AVERAGE" if kind in LENGTHS else "NEAREST"}
                options |= {"PREDICTOR": "YES" if kind == "height" else "NO"}
                library.shutil.copy(
                    self.draft / f"{kind}.plain.tif", self.draft / f"{kind}.tif", driver="COG", **options
                )
                _require_whole(self.draft / f"{kind}.tif", self.grid)
            self._picture()
        except (library.errors.RasterioError, OSError) as error:
            raise self._failed(error) from None
        made = dict(self.files)
        with filling(self.output.parent) as draft:  # all files of one run, or none
            for kind, file in made.items():
                os.replace(self.draft / ("hillshade.png" if kind == "hillshade" else f"{kind}.tif"), draft / file.name)
        return made

    def _failed(self, error: BaseException) -> FileError:
        free = shutil.disk_usage(self.output.parent).free
        full = f"only {free / 1e9:.2g} GB are free there; " if free < 1e8 else ""
        return FileError(
            f"cannot write {self.output} ({reason(error)}); {full}nothing was changed, and computed tiles are "
            "kept: run the same command again when there is space"
        )

    def _picture(self) -> None:
        library = rasterio()
        with library.open(self.draft / "height.tif") as file:
            shrink = max(1.0, max(file.shape) / PICTURE)
            shape = (max(1, round(file.height / shrink)), max(1, round(file.width / shrink)))
            heights = file.read(1, out_shape=shape).astype(np.float64)
        grid = self.grid
        metres = METRES_PER_DEGREE if grid.coordinates.degrees else 1.0
        shade = hillshade(heights, grid.pixel[0] * metres * shrink, grid.pixel[1] * metres * shrink)
        with warnings.catch_warnings(), library.Env(GDAL_PAM_ENABLED="NO"):
            warnings.simplefilter("ignore")  # rasterio warns that a picture has no coordinates
            with library.open(
                self.draft / "hillshade.png", "w", driver="PNG", width=shape[1], height=shape[0], count=2, dtype="uint8"
            ) as picture:
                picture.write(shade, 1)
                picture.write(np.where(np.isnan(heights), 0, 255).astype(np.uint8), 2)


def hillshade(heights: NDArray[np.float64], along: float, down: float) -> NDArray[np.uint8]:
    """Heights (H, W) lit from the north-west: 1 to 255, 0 where unknown."""
    if min(heights.shape) < 2:
        return np.where(np.isnan(heights), 0, 128).astype(np.uint8)
    south, east = np.gradient(heights, down, along)
    slope = np.arctan(np.hypot(south, east))
    aspect = np.arctan2(east, -south)  # of the downhill direction: from north, clockwise, plus pi
    light = np.sin(SUN_ALTITUDE) * np.cos(slope) + np.cos(SUN_ALTITUDE) * np.sin(slope) * np.cos(
        SUN_AZIMUTH - (aspect + np.pi)
    )
    known = np.isfinite(light)
    shade = np.where(known, 1 + 254 * np.clip(np.where(known, light, 0), 0, 1), np.where(np.isnan(heights), 0, 128))
    return shade.astype(np.uint8)


def _require_whole(file: Path, grid: Grid) -> None:
    """Read the last pixel: often only this reveals that the disk filled up."""
    with rasterio().open(file) as raster:
        raster.read(1, window=((grid.height - 1, grid.height), (grid.width - 1, grid.width)))
