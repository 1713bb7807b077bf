"""A coordinate system, separated into its horizontal and its vertical part.

Pixels are reprojected, heights never are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cfusion.io.codecs.raster_library import rasterio

UNITS = {"m": "metre", "metre": "metre", "meter": "metre", "metres": "metre", "meters": "metre"} | {
    "ft": "foot", "foot": "foot", "feet": "foot", "us survey foot": "US survey foot", "us-ft": "US survey foot"
}  # fmt: skip


@dataclass(frozen=True)
class Coordinates:
    """A CRS as well-known text; empty if a raster has none."""

    wkt: str

    @property
    def horizontal(self) -> str:
        """The horizontal part."""
        return _parts(self.wkt)[0]

    @property
    def vertical(self) -> str:
        """The name of the vertical datum; empty if not stated."""
        return _parts(self.wkt)[1]

    @property
    def vertical_unit(self) -> str:
        """The unit of the vertical part; empty if not stated."""
        return _parts(self.wkt)[2]

    @property
    def horizontal_unit(self) -> str:
        """Unit of the coordinates: metre, foot, degree, ...; empty without a CRS."""
        return _horizontal_unit(self.wkt)

    @property
    def name(self) -> str:
        """The name used in messages."""
        found = re.match(r'\w+\["([^"]*)"', self.wkt)
        return found.group(1) if found else "no CRS"

    @property
    def degrees(self) -> bool:
        return bool(self.wkt) and bool(_crs(self.horizontal).is_geographic)

    def same_place(self, other: Coordinates) -> bool:
        """Whether the horizontal parts are equal."""
        if self.horizontal == other.horizontal:
            return True
        if not self.wkt or not other.wkt:
            return False
        return bool(_crs(self.horizontal) == _crs(other.horizontal))

    def for_rasterio(self) -> Any:
        """The horizontal part as rasterio's CRS."""
        return _crs(self.horizontal)


def unit_name(unit: str | None) -> str:
    """The canonical name of a unit; an unknown one is returned unchanged."""
    return UNITS.get((unit or "").strip().lower(), (unit or "").strip())


@lru_cache(maxsize=256)
def _crs(wkt: str) -> Any:
    return rasterio().crs.CRS.from_wkt(wkt)


@lru_cache(maxsize=256)
def _horizontal_unit(wkt: str) -> str:
    if not wkt:
        return ""
    crs = _crs(_parts(wkt)[0])
    return unit_name("degree" if crs.is_geographic else crs.linear_units)


@lru_cache(maxsize=256)
def _parts(wkt: str) -> tuple[str, str, str]:
    """The horizontal part, the vertical part's name, the vertical unit."""
    found = re.match(r'COMPD_CS\["[^"]*",|COMPOUNDCRS\["[^"]*",\s*', wkt)
    if found is None:
        if "CS[ellipsoidal,3]" in wkt.replace(" ", ""):
            return wkt, "ellipsoidal height", "metre"
        return wkt, "", ""
    start = found.end()
    end = _end_of(wkt, start)
    rest = wkt[end:]
    vertical = re.search(r'(?:VERT_CS|VERTCRS|VERTICALCRS)\["([^"]*)"', rest)
    unit = re.search(r'(?:UNIT|LENGTHUNIT)\["([^"]*)"', rest)
    return wkt[start:end], vertical.group(1) if vertical else "", unit_name(unit.group(1) if unit else "")


def _end_of(wkt: str, start: int) -> int:
    """The index behind the bracket that closes the first one opened at or after `start`."""
    depth, quoted = 0, False
    for place in range(start, len(wkt)):
        letter = wkt[place]
        quoted ^= letter == '"'
        if quoted:
            continue
        depth += (letter == "[") - (letter == "]")
        if letter == "]" and depth == 0:
            return place + 1
    return len(wkt)
