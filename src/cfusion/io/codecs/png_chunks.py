"""The chunks of a PNG: checks that the file is complete, before it is decoded."""

import struct
import zlib
from pathlib import Path

from cfusion.errors import FileError
from cfusion.io.limits import require_pixels, require_shape

SIGNATURE = b"\x89PNG\r\n\x1a\n"
PIECE = 1 << 20  # bytes unpacked at a time
BEFORE_PIXELS = (b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"PLTE")  # required by the standard
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
Passes = tuple[tuple[int, int, int, int], ...]  # first column, first row, and the steps in columns and rows
PLAIN: Passes = ((0, 0, 1, 1),)
ADAM7: Passes = (
    *((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4)),
    *((0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)),
)


def check(path: Path, data: bytes, expected: tuple[int, int] | None = None) -> tuple[int, int]:
    """Bits and colour type of a complete PNG; Pillow would fill missing rows with zeros."""
    header, packed = _header_and_pixels(path, data)
    if len(header) != 13:
        raise FileError(f"{path} is a damaged PNG: its header is {len(header)} bytes; write it again")
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    require_pixels(path, width, height, len(data), 4 if CHANNELS.get(colour, 1) < 3 and colour != PALETTE else 12)
    require_shape(path, (height, width), expected)
    claimed = _unpacked_size(width, height, bits * CHANNELS.get(colour, 1), ADAM7 if interlaced else PLAIN)
    try:
        held = _unpacked(packed, claimed)
    except zlib.error:
        raise FileError(f"{path} is a damaged PNG: its pixels do not unpack; write it again") from None
    if held < claimed:
        raise FileError(f"{path} is a damaged PNG: {width} x {height} is {claimed} bytes, not {held}; write it again")
    return bits, colour


def _unpacked(packed: bytes, claimed: int) -> int:
    """The number of decompressed bytes, up to `claimed`; they are not kept."""
    unpacker, held, rest = zlib.decompressobj(), 0, packed
    while held < claimed and not unpacker.eof:
        piece = unpacker.decompress(rest, PIECE)
        rest = unpacker.unconsumed_tail
        held += len(piece)
        if not piece and not rest:
            break
    return held


def _header_and_pixels(path: Path, data: bytes) -> tuple[bytes, bytes]:
    """The bodies of the IHDR and IDAT chunks, after verifying all checksums."""
    if not data.startswith(SIGNATURE):
        raise FileError(f"{path} is not a .png file: its first bytes are {data[:8]!r}; check the name")
    position, kind, header, packed = len(SIGNATURE), b"", b"", []
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", data[position : position + 8].ljust(8, b"\0"))
        end = position + 12 + length
        if end > len(data):
            raise FileError(f"{path} is truncated: {len(data)} bytes, at least {end} expected; copy it again")
        body = data[position + 8 : end - 4]
        if zlib.crc32(kind + body) != struct.unpack_from(">I", data, end - 4)[0]:
            raise FileError(f"{path} is damaged: the checksum of its {kind!r} chunk is wrong; copy it again")
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            packed.append(body)
        elif kind in BEFORE_PIXELS and packed:
            raise FileError(f"{path} is a damaged PNG: its {kind.decode()} chunk follows its pixels; write it again")
        position = end
    return header, b"".join(packed)


def _unpacked_size(width: int, height: int, bits_per_pixel: int, passes: Passes) -> int:
    """Bytes of all rows of all passes, each row with its filter byte."""
    total = 0
    for x, y, step_x, step_y in passes:
        columns, rows = -((x - width) // step_x), -((y - height) // step_y)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits_per_pixel + 7) // 8)
    return total
