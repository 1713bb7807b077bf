"""Files laid down byte by byte, so that readers are not tested against our own writers."""

import struct
import zlib
from collections.abc import Callable

import pytest

PngMaker = Callable[..., bytes]


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.fixture
def png_bytes() -> PngMaker:
    """A PNG from rows of raw bytes (each gets filter byte 0), with any bit depth and colour type."""

    def make(
        width: int,
        height: int,
        rows: list[bytes],
        *,
        bits: int = 16,
        colour: int = 0,
        palette: bytes = b"",
        interlaced: int = 0,
    ) -> bytes:
        header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)
        packed = zlib.compress(b"".join(b"\0" + row for row in rows))
        return (
            b"\x89PNG\r\n\x1a\n"
            + _chunk(b"IHDR", header)
            + (_chunk(b"PLTE", palette) if palette else b"")
            + _chunk(b"IDAT", packed)
            + _chunk(b"IEND", b"")
        )

    return make
