"""What lies beside a raster and is read with it: it may hold numbers, and must not lead elsewhere.

GDAL takes FILE.msk (a mask) and FILE.ovr (smaller copies) for rasters of any kind, and FILE.aux.xml may name a file of
smaller copies: each could be a description that points at other files, or at an address on the network.
"""

from pathlib import Path

from cfusion.errors import FileError

RASTERS = (".msk", ".ovr", ".MSK", ".OVR")
NOTES = (".aux.xml", ".AUX.XML")
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
MOST_NOTES = 1 << 24  # bytes


def require_own_numbers(file: Path) -> None:
    """Refuse a raster beside which something lies that leads elsewhere."""
    for suffix in RASTERS:
        beside = file.with_name(file.name + suffix)
        if beside.is_file() and _start(beside, 4) not in TIFF:
            raise FileError(f"{beside} lies beside a raster and is no TIFF; take it away, or save it as a TIFF")
    for suffix in NOTES:
        beside = file.with_name(file.name + suffix)
        if beside.is_file() and b"OVERVIEW_FILE" in _start(beside, MOST_NOTES).upper():
            raise FileError(f"{beside} names another file of overviews; take it away, or build them into {file.name}")


def _start(file: Path, count: int) -> bytes:
    with file.open("rb") as stream:
        return stream.read(count)
