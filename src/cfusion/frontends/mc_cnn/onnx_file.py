"""The tensors of an ONNX file by name, with the part of protocol buffers that this needs.

A message is a sequence of fields; a field is a varint (number << 3 | wire type), then a varint, eight bytes, a counted
number of bytes, or four bytes.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError

GRAPH, TENSORS = 7, 5  # of a model, of a graph
SIZES, KIND, FLOATS, WHOLES, NAME, RAW = 1, 2, 4, 5, 8, 9  # of a tensor
TYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8"}  # by their number in a tensor
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5


def tensors_of(file: Path) -> dict[str, NDArray[np.generic]]:
    """All constants of a network that are stored in its file."""
    try:
        return dict(_tensors(file.read_bytes()))
    except (IndexError, KeyError, ValueError, TypeError, OverflowError, RuntimeError) as error:  # also of generators
        raise FileError(f"{file} cannot be read as an ONNX file ({error}); reinstall mccnn") from error


def _tensors(model: bytes) -> Iterator[tuple[str, NDArray[np.generic]]]:
    for graph in _all(model, GRAPH):
        for tensor in _all(graph, TENSORS):
            parts = list(_fields(tensor))
            name = next(value.decode() for which, value in parts if which == NAME and isinstance(value, bytes))
            kind = next(value for which, value in parts if which == KIND and isinstance(value, int))
            sizes = [size for which, value in parts if which == SIZES for size in _wholes(value)]
            yield name, _numbers(parts, TYPES[kind]).reshape(sizes)


def _numbers(parts: list[tuple[int, int | bytes]], kind: str) -> NDArray[np.generic]:
    """The values: raw bytes, or integers as varints."""
    raw = b"".join(value for which, value in parts if which in (FLOATS, RAW) and isinstance(value, bytes))
    wholes = [whole for which, value in parts if which == WHOLES for whole in _wholes(value)]
    return np.array(wholes).astype(kind) if wholes else np.frombuffer(raw, kind)


def _wholes(value: int | bytes) -> list[int]:
    """One integer, or packed integers."""
    if isinstance(value, int):
        return [value]
    out, place = [], 0
    while place < len(value):
        whole, place = _varint(value, place)
        out.append(whole)
    return out


def _all(message: bytes, which: int) -> Iterator[bytes]:
    return (value for number, value in _fields(message) if number == which and isinstance(value, bytes))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        how = key & 7
        if how == VARINT:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if how == BYTES:
            length, place = _varint(message, place)
        else:
            length = {EIGHT_BYTES: 8, FOUR_BYTES: 4}[how]
        if place + length > len(message):
            raise ValueError("it ends too early")
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A varint (seven bits per byte, lowest first), and the position after it."""
    value, shift = 0, 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
