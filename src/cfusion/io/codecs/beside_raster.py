"""Sidecar files that GDAL reads with a raster: they may hold numbers but must not refer to other files.

GDAL reads FILE.msk (a mask) and FILE.ovr (overviews) as rasters of any format, and FILE.aux.xml may name a file of
overviews: each could be a description that refers to other files, or to an address on the network.
"""

from pathlib import Path

from cfusion.errors import FileError
from cfusion.io.files import read_start

RASTERS = (".msk", ".ovr", ".MSK", ".OVR")
NOTES = (".aux.xml", ".AUX.XML")
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
MOST_NOTES = 1 << 24  # bytes


def require_own_numbers(file: Path) -> None:
    """Refuse a raster with a sidecar file that refers to other files."""
    for suffix in RASTERS:
        beside = file.with_name(file.name + suffix)
        if beside.is_file() and read_start(beside, 4) not in TIFF:
            raise FileError(f"{beside} is read with a raster and is not a TIFF; remove it, or save it as a TIFF")
    for suffix in NOTES:
        beside = file.with_name(file.name + suffix)
        if beside.is_file() and b"OVERVIEW_FILE" in read_start(beside, MOST_NOTES).upper():
            raise FileError(f"{beside} refers to another file of overviews; remove it, or build them into {file.name}")
