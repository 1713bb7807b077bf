"""Ways to damage a file: bits, bytes, numbers and names that readers stumble over."""

import os
import re
import zlib
from pathlib import Path

import numpy as np

WORDS = (
    *(b"nan", b"-1", b"0", b"1e308", b"1e-320", b"99999999999999999999", b"1_000", b"inf", b"-inf", b"0x10"),
    *(b"../../../etc/passwd", b"/dev/zero", b"\0", b"\xff\xfe", b"\xc2\xb2", b"\x1b[2J", b"\n" * 50, b"[" * 2000),
    *(b"9" * 5000, b"null", b"{}", b"[]", b"true", b'""', b"65535", b"16384", b"4294967295"),
)
SIGNATURE = b"\x89PNG\r\n\x1a\n"
NUMBER = re.compile(rb"-?\d+\.?\d*")


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes, damaged in one to four ways."""
    for _ in range(int(rng.integers(1, 5))):
        data = _ONE[int(rng.integers(0, len(_ONE)))](data, rng)
    if data.startswith(SIGNATURE) and rng.random() < 0.7:
        data = _checksums_mended(data)
    return data[: 1 << 20]


def replaced(path: Path, how: int) -> None:
    """Where a file was there is something else: a folder, a link to what never ends or to nothing, a pipe, nothing."""
    match how:
        case 0:
            path.mkdir()
        case 1:
            path.symlink_to("/dev/zero")
        case 2:
            path.symlink_to(path.parent / "nowhere")
        case 3:
            os.mkfifo(path)


def _checksums_mended(data: bytes) -> bytes:
    """A PNG whose damage no checksum gives away: what is behind the checksums is tried too."""
    found, place = bytearray(data), len(SIGNATURE)
    while place + 12 <= len(found):
        end = place + 8 + int.from_bytes(found[place : place + 4], "big")
        if end + 4 > len(found):
            break
        found[end : end + 4] = zlib.crc32(found[place + 4 : end]).to_bytes(4, "big")
        place = end + 4
    return bytes(found)


def _bit(data: bytes, rng: np.random.Generator) -> bytes:
    if not data:
        return data
    found = bytearray(data)
    found[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
    return bytes(found)


def _early(data: bytes, rng: np.random.Generator) -> bytes:
    """A byte of the header, where it hurts."""
    found = bytearray(data)
    if found:
        found[int(rng.integers(0, min(len(found), 200)))] = int(rng.integers(0, 256))
    return bytes(found)


def _cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: int(rng.integers(0, len(data) + 1))]


def _repeat(data: bytes, rng: np.random.Generator) -> bytes:
    first, last = sorted(int(place) for place in rng.integers(0, len(data) + 1, 2))
    return data[:last] + data[first:last] * int(rng.integers(1, 4)) + data[last:]


def _drop(data: bytes, rng: np.random.Generator) -> bytes:
    first, last = sorted(int(place) for place in rng.integers(0, len(data) + 1, 2))
    return data[:first] + data[last:]


def _number(data: bytes, rng: np.random.Generator) -> bytes:
    """One number of a text becomes an odd word."""
    found = list(NUMBER.finditer(data[:20_000]))
    if not found:
        return _insert(data, rng)
    chosen = found[int(rng.integers(0, len(found)))]
    return data[: chosen.start()] + WORDS[int(rng.integers(0, len(WORDS)))] + data[chosen.end() :]


def _insert(data: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(0, len(data) + 1))
    return data[:place] + WORDS[int(rng.integers(0, len(WORDS)))] + data[place:]


def _large(data: bytes, rng: np.random.Generator) -> bytes:
    """Four bytes of a header become a large number, either way round."""
    found = bytearray(data)
    if len(found) >= 4:
        place = int(rng.integers(0, min(len(found) - 3, 300)))
        found[place : place + 4] = int(rng.choice([0x7FFFFFFF, 0xFFFFFFFF, 16384, 70000, 0])).to_bytes(
            4, "little" if rng.integers(0, 2) else "big"
        )
    return bytes(found)


_ONE = (_bit, _early, _cut, _repeat, _drop, _number, _insert, _large, _number, _bit)
