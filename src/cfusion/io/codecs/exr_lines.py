"""Selected channels of an OpenEXR file with lines that are uncompressed, ZIP or ZIPS; others are never kept.

A compressed block holds up to 16 lines, each channel by channel; its bytes are stored as differences, all even ones
first, then the odd ones.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError
from cfusion.io.codecs.exr_header import BYTES, PACKINGS, Damaged, Header

PIECE = 1 << 20  # bytes unpacked at a time
MOST_BESIDE = 1 << 25  # bytes of a block beyond those of the requested channels
DENSEST = 1032  # largest compression ratio of zlib
TYPES = {0: "<u4", 1: "<f2", 2: "<f4"}


@dataclass(frozen=True, eq=False)
class Block:
    """The bytes of some lines; compressed ones have the even bytes before the odd ones."""

    data: NDArray[np.uint8]
    is_packed: bool

    def copy_to(self, room: NDArray[np.uint8], place: int) -> None:
        """Copy the bytes from `place` on, in their original order."""
        end = place + len(room)
        if not self.is_packed:
            room[:] = self.data[place:end]
            return
        odd, half = place % 2, (len(self.data) + 1) // 2
        room[odd::2] = self.data[(place + 1) // 2 : (end + 1) // 2]
        room[1 - odd :: 2] = self.data[half + place // 2 : half + end // 2]


def read_channels(path: Path, header: Header, names: Sequence[str]) -> list[NDArray[np.float32]]:
    """The values (H, W) of some channels, which must not be subsampled."""
    chosen = [next(index for index, each in enumerate(header.channels) if each.name == name) for name in names]
    if any((header.channels[index].step_x, header.channels[index].step_y) != (1, 1) for index in chosen):
        raise FileError(f"{path} has a subsampled channel; save depth in full size")
    maps = [np.empty((header.height, header.width), np.float32) for _ in chosen]
    lines = PACKINGS[header.packing]
    try:
        with path.open("rb") as stream:
            stream.seek(header.end)
            blocks = -(-header.height // lines)
            offsets = np.frombuffer(stream.read(8 * blocks), "<u8")
            if len(offsets) != blocks:
                raise Damaged
            for number, offset in enumerate(offsets.tolist()):
                first = number * lines
                sizes = _sizes(header, range(first, min(first + lines, header.height)))
                block = _block(stream, offset, header, first, sizes)
                for index, values in zip(chosen, maps, strict=True):
                    _fill(values[first : first + lines], block, sizes, index, header.channels[index].kind)
    except (Damaged, struct.error, zlib.error, OverflowError, ValueError, OSError):
        raise FileError(f"{path} is a damaged .exr: its pixels do not unpack; write it again") from None
    return maps


def _sizes(header: Header, rows: range) -> list[list[int]]:
    """Bytes of every channel in every line."""
    return [
        [channel.bytes_of_line(header.top + row, header.left, header.right) for channel in header.channels]
        for row in rows
    ]


def _block(stream: BinaryIO, offset: int, header: Header, first: int, sizes: list[list[int]]) -> Block:
    stream.seek(offset)
    y, packed = struct.unpack("<ii", stream.read(8))
    size = sum(map(sum, sizes))
    if y != header.top + first or not 0 <= packed <= size or size > max(packed, 1) * DENSEST:
        raise Damaged
    if size > 4 * header.width * header.height + MOST_BESIDE:
        raise Damaged
    body = stream.read(packed)
    if len(body) != packed:
        raise Damaged
    if packed == size:  # stored without compression, as it gained nothing
        return Block(np.frombuffer(body, np.uint8), is_packed=False)
    if header.packing == 0:
        raise Damaged
    return Block(_unpacked(body, size), is_packed=True)


def _unpacked(body: bytes, size: int) -> NDArray[np.uint8]:
    """Exactly `size` bytes, with differences summed, using no more memory than their own."""
    found, unpacker, place = np.empty(size, np.uint8), zlib.decompressobj(), 0
    while place < size:
        piece = unpacker.decompress(body, min(PIECE, size - place))
        body = unpacker.unconsumed_tail
        if not piece:
            raise Damaged
        found[place : place + len(piece)] = np.frombuffer(piece, np.uint8)
        place += len(piece)
    found[1:] -= np.uint8(128)
    np.cumsum(found, dtype=np.uint8, out=found)
    return found


def _fill(rows: NDArray[np.float32], block: Block, sizes: list[list[int]], index: int, kind: int) -> None:
    """Decode one channel of the block into its rows."""
    room = np.empty(BYTES[kind] * rows.shape[1], np.uint8)
    start = 0
    for row, line in enumerate(sizes):
        block.copy_to(room, start + sum(line[:index]))
        rows[row] = room.view(TYPES[kind])
        start += sum(line)
