"""The blocks of a TIFF, from its header: opening a file in a library reserves memory for every band it claims."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cfusion.errors import FileError

Entry = tuple[int, int, int, bytes]  # tag, type, number of values, and the values or their offset
ORDERS = {b"II": "<", b"MM": ">"}
CLASSIC, BIG = 42, 43
WIDTH, HEIGHT, BITS, SAMPLES, ROWS, PLANAR, TILE_WIDTH, TILE_HEIGHT = 256, 257, 258, 277, 278, 284, 322, 323
NUMBERS = {3: "H", 4: "I", 16: "Q"}  # integer types of the tags used here
SIZES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}  # bytes by type; else one
MOST_ENTRIES = 4096  # of a directory
MOST_DIRECTORIES = 64  # that are read: a raster and its overviews
MOST_BANDS = 1000
BESIDE = 1 << 26  # bytes of a block beyond those of one band of the raster
DENSEST = 8  # bytes of a block per byte of the file, in addition


class _BeyondTheEnd(ValueError):
    """The header claims more than the file holds."""


@dataclass(frozen=True)
class Form:
    """The layout of a classic or a big TIFF."""

    order: str
    start: int  # position of the first directory's offset
    offset: str
    count: str  # of a directory's entries
    head: str  # tag, type and number of an entry
    entry: int  # bytes of an entry
    room: int  # bytes of an entry for its values or their offset

    @classmethod
    def classic(cls, order: str) -> Form:
        return cls(order, 4, f"{order}I", f"{order}H", f"{order}HHI", 12, 4)

    @classmethod
    def big(cls, order: str) -> Form:
        return cls(order, 8, f"{order}Q", f"{order}Q", f"{order}HHQ", 20, 8)


def require_blocks(file: Path, held: int) -> None:
    """Refuse a TIFF with thousands of bands, or with blocks far larger than one of its bands."""
    found = _blocks(file, held)
    if found is None:  # not a TIFF, or an unknown kind: the library reports that
        return
    pixels, bands, together = found
    if bands > MOST_BANDS:
        raise FileError(f"{file} claims {bands} bands, more than {MOST_BANDS}; save heights alone")
    if together > max(4 * pixels + BESIDE, DENSEST * held):
        raise FileError(f"{file} claims blocks of {together} bytes in a file of {held}; save heights alone, in tiles")


def _blocks(file: Path, held: int) -> tuple[int, int, int] | None:
    """Pixels of the raster, number of bands, and bytes that are decoded together."""
    try:
        with file.open("rb") as stream:
            tags = _tags(stream, held)
        width, height = tags[WIDTH], tags[HEIGHT]
    except _BeyondTheEnd:
        raise FileError(
            f"{file} is a damaged TIFF: its header claims more than the file holds; write it again"
        ) from None
    except (OSError, struct.error, LookupError):
        return None
    tiled = TILE_WIDTH in tags and TILE_HEIGHT in tags
    pixels = tags[TILE_WIDTH] * tags[TILE_HEIGHT] if tiled else width * min(tags.get(ROWS, height), height)
    bands = tags.get(SAMPLES, 1)
    together = bands if tags.get(PLANAR, 1) == 1 else 1
    return width * height, bands, pixels * together * max(tags.get(BITS, 1) // 8, 1)


def _tags(stream: BinaryIO, held: int) -> dict[int, int]:
    """The first number of every tag of the first directory; all directories are checked."""
    start = stream.read(16)
    order = ORDERS[start[:2]]
    (kind,) = struct.unpack_from(f"{order}H", start, 2)
    if kind not in (CLASSIC, BIG):
        raise LookupError
    form = Form.big(order) if kind == BIG else Form.classic(order)
    found: dict[int, int] = {}
    place, seen = struct.unpack_from(form.offset, start, form.start)[0], 0
    while place and seen < MOST_DIRECTORIES:
        entries, place = _directory(stream, form, place, held)
        if any(number * SIZES.get(kind, 1) > held for _, kind, number, _ in entries):
            raise _BeyondTheEnd
        found = found or _numbers(stream, form, entries, held)
        seen += 1
    return found


def _seek(stream: BinaryIO, place: int, held: int) -> None:
    if place > held:  # offsets beyond 2^63 cannot be passed to seek
        raise _BeyondTheEnd
    stream.seek(place)


def _directory(stream: BinaryIO, form: Form, place: int, held: int) -> tuple[list[Entry], int]:
    """The entries of one directory and the offset of the next; 0 after the last."""
    _seek(stream, place, held)
    (count,) = struct.unpack(form.count, stream.read(struct.calcsize(form.count)))
    if count > MOST_ENTRIES:  # no raster has so many, and the library would allocate them
        raise _BeyondTheEnd
    body = stream.read(count * form.entry)
    if len(body) < count * form.entry:
        raise _BeyondTheEnd
    after = stream.read(form.room)
    entries = [
        (*struct.unpack_from(form.head, body, at), body[at + form.entry - form.room : at + form.entry])
        for at in range(0, len(body), form.entry)
    ]
    return entries, struct.unpack(form.offset, after)[0] if len(after) == form.room else 0


def _numbers(stream: BinaryIO, form: Form, entries: list[Entry], held: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for tag, kind, number, value in entries:
        if kind not in NUMBERS or number < 1:
            continue
        letter = form.order + NUMBERS[kind]
        if number * struct.calcsize(letter) <= form.room:
            found.setdefault(tag, struct.unpack_from(letter, value)[0])
        elif tag == BITS:  # one value per band
            _seek(stream, struct.unpack(form.offset, value)[0], held)
            found.setdefault(tag, struct.unpack(letter, stream.read(struct.calcsize(letter)))[0])
    return found
