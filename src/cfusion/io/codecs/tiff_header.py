"""What a TIFF says of its blocks, before any library opens it: opening reserves memory for every band it claims."""

import struct
from dataclasses import dataclass
from pathlib import Path

from cfusion.errors import FileError

ORDERS = {b"II": "<", b"MM": ">"}
CLASSIC, BIG = 42, 43
WIDTH, HEIGHT, BITS, SAMPLES, ROWS, PLANAR, TILE_WIDTH, TILE_HEIGHT = 256, 257, 258, 277, 278, 284, 322, 323
NUMBERS = {3: "H", 4: "I", 16: "Q"}  # types that hold what is needed here
MOST_ENTRIES = 4096  # of a directory
MOST_BANDS = 1000
BESIDE = 1 << 26  # bytes of a block beyond those of one band of the raster
DENSEST = 8  # bytes of a block per byte of the file, beyond that


@dataclass(frozen=True)
class Blocks:
    """Bands of a raster, and the bytes that are decoded together."""

    bands: int
    bytes: int


def require_blocks(file: Path, held: int) -> None:
    """Refuse a TIFF of thousands of bands, or whose blocks hold far more than one band of it."""
    found = _blocks(file)
    if found is None:  # no TIFF, or none that is known here: the library says so
        return
    (width, height), blocks = found
    if blocks.bands > MOST_BANDS:
        raise FileError(f"{file} claims {blocks.bands} bands; expected at most {MOST_BANDS}, save heights alone")
    if blocks.bytes > max(4 * width * height + BESIDE, DENSEST * held):
        raise FileError(
            f"{file} claims blocks of {blocks.bytes} bytes in a file of {held}; save heights alone, in tiles"
        )


def _blocks(file: Path) -> tuple[tuple[int, int], Blocks] | None:
    try:
        tags = _tags(file)
        width, height = tags[WIDTH], tags[HEIGHT]
    except (OSError, struct.error, LookupError):
        return None
    tiled = TILE_WIDTH in tags and TILE_HEIGHT in tags
    pixels = tags[TILE_WIDTH] * tags[TILE_HEIGHT] if tiled else width * min(tags.get(ROWS, height), height)
    bands = tags.get(SAMPLES, 1)
    together = bands if tags.get(PLANAR, 1) == 1 else 1
    return (width, height), Blocks(bands, pixels * together * max(tags.get(BITS, 1) // 8, 1))


def _tags(file: Path) -> dict[int, int]:
    """The first number of every tag of the first directory that holds one."""
    with file.open("rb") as stream:
        start = stream.read(16)
        order = ORDERS[start[:2]]
        (kind,) = struct.unpack_from(f"{order}H", start, 2)
        big = kind == BIG
        if kind not in (CLASSIC, BIG):
            raise LookupError
        stream.seek(struct.unpack_from(f"{order}Q" if big else f"{order}I", start, 8 if big else 4)[0])
        count_form, entry, count_size = (f"{order}Q", 20, 8) if big else (f"{order}H", 12, 2)
        (count,) = struct.unpack(count_form, stream.read(count_size))
        body = stream.read(min(count, MOST_ENTRIES) * entry)
        found: dict[int, int] = {}
        for place in range(0, len(body) - entry + 1, entry):
            tag, kind = struct.unpack_from(f"{order}HH", body, place)
            number = struct.unpack_from(f"{order}Q" if big else f"{order}I", body, place + 4)[0]
            if kind not in NUMBERS or number < 1:
                continue
            room = 8 if big else 4  # bytes of an entry for its values, or for where they are
            at = place + entry - room
            inside = number * struct.calcsize(f"{order}{NUMBERS[kind]}") <= room
            if inside:
                found.setdefault(tag, struct.unpack_from(f"{order}{NUMBERS[kind]}", body, at)[0])
            elif tag == BITS:
                stream.seek(struct.unpack_from(f"{order}Q" if big else f"{order}I", body, at)[0])
                found.setdefault(tag, struct.unpack(f"{order}H", stream.read(2))[0])
    return found
