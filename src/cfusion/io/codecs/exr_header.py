"""The header of an OpenEXR file: channels, size, compression, and the offsets of its lines ("OpenEXR File Layout")."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cfusion.errors import FileError
from cfusion.io.files import read_start

MAGIC = b"\x76\x2f\x31\x01"
LONGEST_HEADER = 1 << 22  # bytes; it may contain a preview image
TILED, DEEP, SEVERAL_PARTS = 0x200, 0x800, 0x1000  # flags beside the version
PACKINGS = {0: 1, 2: 1, 3: 16}  # lines per compressed block: none, ZIPS, ZIP
BYTES = {0: 4, 1: 2, 2: 4}  # per value: uint32, half, float


class Damaged(ValueError):
    """The file does not follow the format."""


@dataclass(frozen=True)
class Channel:
    """A channel and its subsampling steps."""

    name: str
    kind: int  # a key of BYTES
    step_x: int
    step_y: int

    def bytes_of_line(self, y: int, left: int, right: int) -> int:
        """Bytes of this channel in a line."""
        if y % self.step_y:
            return 0
        return BYTES[self.kind] * max(right // self.step_x + -left // self.step_x + 1, 0)


@dataclass(frozen=True)
class Header:
    """The header of a file's first part."""

    channels: tuple[Channel, ...]  # in the order of a line's data
    left: int
    top: int
    right: int
    bottom: int
    packing: int
    flags: int
    end: int  # offset of the table of lines

    @property
    def width(self) -> int:
        """Pixels of a line."""
        return self.right - self.left + 1

    @property
    def height(self) -> int:
        """Lines."""
        return self.bottom - self.top + 1

    @property
    def is_plain(self) -> bool:
        """Whether it is one image of whole lines, with a compression that is decoded here."""
        return not self.flags & (TILED | DEEP | SEVERAL_PARTS) and self.packing in PACKINGS


def read_header(path: Path) -> Header:
    """The header of the file's first part."""
    data = read_start(path, LONGEST_HEADER)
    if not data.startswith(MAGIC):
        raise FileError(f"{path} is not an .exr file")
    try:
        return _parsed(data)
    except (Damaged, struct.error, UnicodeDecodeError, LookupError):
        raise FileError(f"{path} is a damaged .exr: its header is invalid; write it again") from None


def _parsed(data: bytes) -> Header:
    flags = struct.unpack_from("<I", data, 4)[0]
    found, end = {}, 8
    for name, body, after in _attributes(data, 8):
        found[name], end = body, after
    left, top, right, bottom = struct.unpack("<4i", found["dataWindow"])
    channels = tuple(_channels(found["channels"]))
    return Header(channels, left, top, right, bottom, found["compression"][0], flags, end + 1)


def _attributes(data: bytes, place: int) -> Iterator[tuple[str, bytes, int]]:
    """Name, value and end of every attribute of the first part."""
    while data[place : place + 1] != b"\0":
        name, place = _word(data, place)
        _, place = _word(data, place)
        size = struct.unpack_from("<I", data, place)[0]
        place += 4 + size
        yield name, data[place - size : place], place  # beyond the end there is no next name


def _channels(body: bytes) -> Iterator[Channel]:
    place = 0
    while body[place : place + 1] != b"\0":
        name, place = _word(body, place)
        kind, _, step_x, step_y = struct.unpack_from("<iIii", body, place)
        place += 16
        if kind not in BYTES or step_x < 1 or step_y < 1:
            raise Damaged
        yield Channel(name, kind, step_x, step_y)


def _word(data: bytes, place: int) -> tuple[str, int]:
    end = data.find(b"\0", place, place + 256)
    if end <= place:
        raise Damaged
    return data[place:end].decode(), end + 1
