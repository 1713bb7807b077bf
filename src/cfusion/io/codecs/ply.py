"""PLY: a coloured point cloud that every viewer opens (written binary, little endian)."""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import FileError, ShapeError
from cfusion.io.codecs.ply_table import write_table
from cfusion.io.files import read_bytes

POINT, COLOUR = ("x", "y", "z"), ("red", "green", "blue")
VERTEX = np.dtype([*((name, "<f4") for name in POINT), *((name, "u1") for name in COLOUR), ("confidence", "<f4")])
ENCODINGS = {"ascii": "<", "binary_little_endian": "<", "binary_big_endian": ">"}
TYPES = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"},
    **{"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"},
    **{"float": "f4", "double": "f8", "float32": "f4", "float64": "f8"},
}
WHOLE = re.compile(r"[0-9]{1,15}")
LONGEST_HEADER = 1 << 16
END_OF_HEADER = re.compile(rb"^end_header\r?\n", re.MULTILINE)


def write_ply(path: Path, points: Points, colours: NDArray[np.uint8], confidence: NDArray[np.float32]) -> None:
    """Points (N, 3) with colours (N, 3) and confidences (N,)."""
    count = len(points)
    if points.shape != (count, 3) or colours.shape != (count, 3) or confidence.shape != (count,):
        raise ShapeError(
            f"points, colours, confidence are {points.shape}, {colours.shape}, {confidence.shape}; "
            "expected (N, 3), (N, 3), (N,)"
        )
    vertices = np.empty(count, dtype=VERTEX)
    for axis, name in enumerate(POINT):
        vertices[name] = points[:, axis]
    for channel, name in enumerate(COLOUR):
        vertices[name] = colours[:, channel]
    vertices["confidence"] = confidence
    write_table(path, VERTEX, count, [vertices])


def read_ply(path: Path) -> tuple[Points, NDArray[np.uint8] | None, NDArray[np.float32] | None]:
    """Points (N, 3), colours (N, 3) and confidences (N,) of a cloud or mesh, where it has them; text or binary."""
    data = read_bytes(path)
    end = END_OF_HEADER.search(data[:LONGEST_HEADER])
    if not data.startswith(b"ply") or end is None:
        raise FileError(f"{path} is not a .ply file: it has no header from 'ply' to 'end_header'")
    words = [line.split() for line in data[: end.start()].decode("ascii", "replace").splitlines()]
    encoding = next((line[1] for line in words if len(line) > 1 and line[0] == "format"), "")
    if encoding not in ENCODINGS:
        raise FileError(f"{path} is encoded as {encoding[:40]!r}; known are: {', '.join(ENCODINGS)}")
    count, vertex = _vertex(path, words, ENCODINGS[encoding])
    body = data[end.end() :]
    if encoding == "ascii":
        values = _ascii(path, body, count, vertex)
    elif len(body) < count * vertex.itemsize:
        raise FileError(
            f"{path} is truncated: {count} points are {count * vertex.itemsize} bytes, it holds {len(body)}"
        )
    else:
        values = np.frombuffer(body, vertex, count)
    points = np.stack([values[name] for name in POINT], axis=-1).astype(np.float64)
    names = set(vertex.names or ())
    coloured = names.issuperset(COLOUR)
    colours = np.stack([values[name] for name in COLOUR], axis=-1) if coloured else None
    confidence = values["confidence"].astype(np.float32) if "confidence" in names else None
    return points, None if colours is None else colours.astype(np.uint8), confidence


def _vertex(path: Path, words: list[list[str]], order: str) -> tuple[int, np.dtype[np.void]]:
    """How many vertices there are, and how one is laid out; they have to come first, as they do everywhere."""
    places = [index for index, line in enumerate(words) if line[:1] == ["element"]]
    first = words[places[0]] if places else []
    if len(first) != 3 or first[1] != "vertex" or not WHOLE.fullmatch(first[2]):
        raise FileError(f"{path} does not start with its vertices; write it anew")
    block = words[places[0] + 1 : places[1] if len(places) > 1 else len(words)]
    properties = [line for line in block if line[:1] == ["property"]]
    if any(len(line) != 3 or line[1] not in TYPES for line in properties):
        raise FileError(f"{path} has vertices with lists, or of an unknown type; write it anew")
    fields = [(line[2], order + TYPES[line[1]]) for line in properties]
    names = [name for name, _ in fields]
    if not set(names).issuperset(POINT) or len(set(names)) != len(names):
        raise FileError(f"{path} has vertices without x, y and z, or with one of them twice; write it anew")
    return int(first[2]), np.dtype(fields)


def _ascii(path: Path, body: bytes, count: int, vertex: np.dtype[np.void]) -> NDArray[np.void]:
    width = len(vertex.names or ())
    if count * width > len(body):  # a number and its separator are two bytes
        raise FileError(f"{path} is truncated: {count} lines of {width} numbers are not in {len(body)} bytes")
    words = body.split(None, count * width)[: count * width]
    try:
        numbers = np.array(words, dtype=np.float64).reshape(count, width)
    except ValueError:
        raise FileError(f"{path} is truncated or damaged: expected {count} lines of {width} numbers") from None
    values = np.empty(count, vertex)
    for place, name in enumerate(vertex.names or ()):
        values[name] = numbers[:, place]
    return values
