"""One GeoTIFF of heights: its grid, its unit, and its pixels, read by window."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError, InputError
from cfusion.io.codecs.beside_raster import require_own_numbers
from cfusion.io.codecs.raster_library import masked_band, opened, reason
from cfusion.rasters.coordinates import Coordinates, unit_name
from cfusion.rasters.grids import Grid

Heights = NDArray[np.float32]
BEYOND_HEIGHTS = 1e6  # higher than any ground, in any unit: a stray fill value


@dataclass(frozen=True)
class Raster:
    """A band of a file, and the conversion of its numbers to heights."""

    path: Path
    grid: Grid
    band: int = 1
    nodata: tuple[float, ...] = ()  # values that mean unknown, in addition to the file's own
    unit: str = ""  # of the heights, by the band or the vertical CRS; empty if neither states it
    scale: float = 1.0
    offset: float = 0.0
    dtype: str = "float32"

    @property
    def name(self) -> str:
        return self.path.name

    def heights(self, left: int, top: int, width: int, height: int) -> Heights:
        """Heights (height, width) of a window inside the raster, NaN where unknown."""
        values = self._values(left, top, width, height)
        known = ~np.ma.getmaskarray(values)
        numbers = np.ma.getdata(values).astype(np.float64)
        for value in self.nodata:
            known &= numbers != value
        numbers = numbers * self.scale + self.offset
        known &= np.abs(numbers) < BEYOND_HEIGHTS  # False for NaN and inf too
        return np.where(known, numbers, np.nan).astype(np.float32)

    def stored(self, heights: Heights) -> NDArray[np.float64]:
        """The numbers of the file that became these heights, as `nodata` states them."""
        numbers = (heights.astype(np.float64) - self.offset) / self.scale
        return np.rint(numbers) if np.dtype(self.dtype).kind in "iu" else numbers

    def _values(self, left: int, top: int, width: int, height: int) -> Any:
        window = ((top, top + height), (left, left + width))
        with opened(self.path) as file:
            try:
                values = masked_band(file, self.band, window)
            except Exception as error:
                raise FileError(
                    f"{self.path}: rows {top} to {top + height - 1}, columns {left} to {left + width - 1} cannot be "
                    f"read ({reason(error)}); the file is damaged, replace it"
                ) from None
        return values


def open_raster(path: Path, band: int = 1, nodata: tuple[float, ...] = ()) -> Raster:
    """A raster from the header of a file; no pixel is read yet."""
    require_own_numbers(path)
    with opened(path) as file:
        if band < 1 or file.count < band:
            raise InputError(f"{path} has {file.count} bands; band {band} does not exist, choose one with --band")
        dtype = str(file.dtypes[band - 1])
        if np.dtype(dtype).kind not in "fiu":
            raise FileError(f"{path} holds {dtype}; give a raster of real numbers")
        a, b, c, d, e, f = tuple(file.transform)[:6]
        coordinates = Coordinates("" if file.crs is None else str(file.crs.to_wkt()))
        kind = str(file.tags().get("AREA_OR_POINT", "Area"))
        unit = unit_name(file.units[band - 1]) or coordinates.vertical_unit
        return Raster(
            path=path,
            grid=Grid((a, b, c, d, e, f), int(file.width), int(file.height), coordinates, kind),
            band=band,
            nodata=nodata,
            unit=unit,
            scale=float(file.scales[band - 1]),
            offset=float(file.offsets[band - 1]),
            dtype=dtype,
        )
