"""rasterio, imported late and only here; its errors become one line."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cfusion.errors import FileError, InputError, first_line, optional_module
from cfusion.io.codecs.tiff_header import require_blocks
from cfusion.io.files import require_file

MOST_BYTES = 1 << 50  # of a raster, which is read in windows
# Drivers whose heights are in the file itself: others (VRT, WMS, ...) refer to other files and addresses.
DRIVERS = {".asc": "AAIGrid", ".hgt": "SRTMHGT", ".dt0": "DTED", ".dt1": "DTED", ".dt2": "DTED"}


def rasterio() -> Any:
    """The library, with the submodules that are used."""
    missing = "GeoTIFF needs rasterio: pip install 'cfusion[data]'"
    for part in ("crs", "enums", "errors", "shutil", "warp"):
        optional_module(f"rasterio.{part}", missing=missing)
    return optional_module("rasterio", missing=missing)


@contextmanager
def opened(file: Path, most: int = MOST_BYTES) -> Iterator[Any]:
    """A raster opened for reading, of at most `most` bytes."""
    library = rasterio()
    require_blocks(file, require_file(file, most))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rasters without coordinates are allowed
            with library.open(file, driver=DRIVERS.get(file.suffix.lower(), "GTiff")) as raster:
                yield raster
    except (library.errors.RasterioError, library.errors.RasterioIOError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise FileError(
            f"{file} is not a GeoTIFF, or a damaged one ({reason(error)}); write it again, or convert it with "
            f"gdal_translate -of GTiff (.tif and {', '.join(DRIVERS)} are read; a VRT points elsewhere and is not)"
        ) from None


def reason(error: BaseException) -> str:
    """The first line of an error, shortened; that of its cause if rasterio only says `see previous exception`."""
    seen: BaseException = error
    while seen.__cause__ is not None:
        seen = seen.__cause__
    return first_line(seen)


def masked_band(file: Any, band: int, window: Any) -> Any:
    """A window of a band, masked by nodata, mask and an alpha band of any type; GDAL masks by bytes and uint16 only."""
    values = file.read(band, window=window, masked=True)
    alpha = next((k for k, each in enumerate(file.colorinterp, 1) if each.name == "alpha"), band)
    if alpha != band:
        values[file.read(alpha, window=window) == 0] = np.ma.masked
    return values
