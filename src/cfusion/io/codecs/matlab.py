"""MATLAB 5 files (.mat) as far as localisations need them: real matrices, cells and structs, plain or compressed.

Our own reader, because a damaged file must not crash the interpreter. Everything is bounded: each element by its
parent, uncompressed data by the compressed size. Format: "MAT-File Format", The MathWorks, chapter 1.
"""

import math
import struct
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cfusion.errors import FileError
from cfusion.io.files import read_bytes
from cfusion.io.limits import most_unpacked

HEADER = 128  # bytes: text, version and byte order
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED, INT8, INT32, UINT32 = 14, 15, 1, 5, 6
CELL, STRUCT = 1, 2
NUMERIC = range(6, 16)  # double, single, int8 to uint64
COMPLEX = 0x0800
DEEPEST = 16  # levels of nested cells
MOST_ENTRIES = 1 << 20  # of a cell or struct array

Value: TypeAlias = Any  # an array of numbers, a list (cell), or a list of dictionaries (struct)


class _Damaged(ValueError):
    """A record does not fit into its parent."""


def read_matlab(file: Path) -> dict[str, Value]:
    """The variables of a file by name; None for unsupported kinds (text, functions, sparse)."""
    data = read_bytes(file)
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None or len(data) < HEADER:
        raise FileError(f"{file} is not a MATLAB file of version 5 to 7; save it with -v7")
    variables: dict[str, Value] = {}
    try:
        for kind, body in _elements(memoryview(data)[HEADER:], order):
            if kind == COMPRESSED:
                unpacked = _unpacked(body)
                variables |= dict(
                    _matrix(inner, order, 0) for kind, inner in _elements(unpacked, order) if kind == MATRIX
                )
            elif kind == MATRIX:
                name, value = _matrix(body, order, 0)
                variables[name] = value
    except (_Damaged, zlib.error, struct.error, UnicodeDecodeError):
        raise FileError(f"{file} is a damaged MATLAB file; copy it again") from None
    return variables


def _unpacked(body: memoryview) -> memoryview:
    most = most_unpacked(len(body))
    unpacked = zlib.decompressobj().decompress(body, most + 1)
    if len(unpacked) > most:
        raise _Damaged
    return memoryview(unpacked)


def _elements(data: memoryview, order: str) -> list[tuple[int, memoryview]]:
    """Kind and body of consecutive elements; each starts at a multiple of eight bytes."""
    found, place = [], 0
    while len(data) - place >= 8:
        kind, size = struct.unpack_from(f"{order}II", data, place)
        start, end = place + 8, place + 8 + size
        if kind >> 16:  # a small element: size and body share the first eight bytes
            kind, size = kind & 0xFFFF, kind >> 16
            start, end = place + 4, place + 4 + size
            if size > 4:
                raise _Damaged
            place += 8
        else:
            place = end if kind == COMPRESSED else end + -end % 8
        if end > len(data):
            raise _Damaged
        found.append((kind, data[start:end]))
    return found


def _matrix(body: memoryview, order: str, depth: int) -> tuple[str, Value]:
    """Name and value of an array: flags, sizes, name, then the contents of its class."""
    if len(body) == 0:  # an empty cell
        return "", np.empty((0, 0))
    parts = _elements(body, order)
    if depth > DEEPEST or len(parts) < 3 or [kind for kind, _ in parts[:3]] != [UINT32, INT32, INT8]:
        raise _Damaged
    (_, flags), (_, sizes), (_, name) = parts[:3]
    if len(flags) != 8 or len(sizes) % 4:
        raise _Damaged
    head = struct.unpack_from(f"{order}I", flags)[0]
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
    if any(size < 0 for size in shape):
        raise _Damaged
    return bytes(name).decode("ascii"), _value(head, shape, parts[3:], order, depth)


def _value(head: int, shape: tuple[int, ...], parts: list[tuple[int, memoryview]], order: str, depth: int) -> Value:
    kind, count = head & 0xFF, math.prod(shape)
    if kind in NUMERIC and not head & COMPLEX:
        return _numbers(shape, parts, order)
    if kind not in (CELL, STRUCT):
        return None
    if count > MOST_ENTRIES:
        raise _Damaged
    if kind == CELL:
        cells = [_matrix(body, order, depth + 1)[1] for what, body in parts if what == MATRIX]
        if len(cells) != count:
            raise _Damaged
        return cells
    return _struct(count, parts, order, depth)


def _struct(count: int, parts: list[tuple[int, memoryview]], order: str, depth: int) -> list[dict[str, Value]]:
    if len(parts) < 2 or len(parts[0][1]) != 4:
        raise _Damaged
    length = struct.unpack_from(f"{order}i", parts[0][1])[0]
    text = bytes(parts[1][1])
    if length < 1 or len(text) % length:
        raise _Damaged
    fields = [text[at : at + length].split(b"\0")[0].decode("ascii") for at in range(0, len(text), length)]
    bodies = [body for kind, body in parts[2:] if kind == MATRIX]
    if len(bodies) != count * len(fields):
        raise _Damaged
    values = [_matrix(body, order, depth + 1)[1] for body in bodies]
    return [dict(zip(fields, values[at * len(fields) :], strict=False)) for at in range(count)]


def _numbers(shape: tuple[int, ...], parts: list[tuple[int, memoryview]], order: str) -> Value:
    """Numbers may be stored in a smaller type than the array's class; they keep the stored type."""
    if not parts or parts[0][0] not in NUMBERS:
        raise _Damaged
    dtype = np.dtype(order + NUMBERS[parts[0][0]])
    if math.prod(shape) * dtype.itemsize != len(parts[0][1]):
        raise _Damaged
    return np.frombuffer(parts[0][1], dtype).reshape(shape, order="F")
