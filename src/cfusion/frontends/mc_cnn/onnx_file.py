"""The numbers of an ONNX file, by their names: as much of its encoding (protocol buffers) as that takes.

A message is a row of fields; a field is a number (which << 3 | how), then a varint, eight bytes, so many bytes, or
four.
"""

from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError

GRAPH, TENSORS = 7, 5  # of a model, of a graph
SIZES, KIND, FLOATS, WHOLES, NAME, RAW = 1, 2, 4, 5, 8, 9  # of a tensor
TYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8"}  # by their number in a tensor
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5


def tensors_of(file: Path) -> dict[str, NDArray[np.generic]]:
    """All constants of a network that lie in its file as they are."""
    try:
        return dict(_tensors(file.read_bytes()))
    except (IndexError, KeyError, ValueError, TypeError, OverflowError, RuntimeError) as error:  # also of generators
        raise FileError(f"{file} is no ONNX file that can be read ({error}); reinstall mccnn") from error


def _tensors(model: bytes) -> Iterator[tuple[str, NDArray[np.generic]]]:
    for graph in _all(model, GRAPH):
        for tensor in _all(graph, TENSORS):
            parts = list(_fields(tensor))
            name = next(value.decode() for which, value in parts if which == NAME and isinstance(value, bytes))
            kind = next(value for which, value in parts if which == KIND and isinstance(value, int))
            sizes = [size for which, value in parts if which == SIZES for size in _wholes(value)]
            numbers = _numbers(parts, TYPES[kind])
            if numbers.size != prod(sizes):
                raise ValueError(f"{name} has {numbers.size} numbers for {sizes}")
            yield name, numbers.reshape(sizes)


def _numbers(parts: list[tuple[int, int | bytes]], kind: str) -> NDArray[np.generic]:
    """As bytes one after the other, or as whole numbers, each a varint."""
    raw = b"".join(value for which, value in parts if which in (FLOATS, RAW) and isinstance(value, bytes))
    wholes = [whole for which, value in parts if which == WHOLES for whole in _wholes(value)]
    return np.array(wholes).astype(kind) if wholes else np.frombuffer(raw, kind)


def _wholes(value: int | bytes) -> list[int]:
    """One number, or all of them packed."""
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
    """Seven bits a byte, the lowest first, and where the next thing starts."""
    value, shift = 0, 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
