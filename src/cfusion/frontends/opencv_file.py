"""Matrices from files of OpenCV's FileStorage: YAML, XML or JSON.

Our own reader: OpenCV's trusts the sizes that a damaged file states, and writes beyond its buffers.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cfusion.arrays import Matrix
from cfusion.errors import FileError
from cfusion.io.text_tables import number, read_text, whole

LONGEST_FILE = 1 << 20  # bytes
LARGEST_MATRIX = 64  # numbers
KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*:")
SEPARATORS = re.compile(r"[\s,]+")


def read_matrices(file: Path) -> dict[str, Matrix]:
    """The matrices at the top level of the file by name; everything else is ignored."""
    text = read_text(file, LONGEST_FILE)
    try:
        found: dict[str, Matrix] = {}
        for name, rows, columns, words in _stated(text):
            shape = (whole(rows), whole(columns))
            values = [number(word) for word in words]
            if not 0 < len(values) == math.prod(shape) <= LARGEST_MATRIX:
                raise ValueError(f"{name} is {shape[0]} x {shape[1]} with {len(values)} numbers")
            if not all(map(math.isfinite, values)):
                raise ValueError(f"{name} has entries that are not finite")
            found.setdefault(name, np.array(values).reshape(shape))
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:100] if str(error) else "it is nested too deeply"
        raise FileError(f"{file} cannot be read as OpenCV's YAML, XML or JSON ({reason}); write it again") from None
    return found


def _stated(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Name, rows, columns and numbers of every matrix, as text."""
    start = text.lstrip()
    if start.startswith("{"):
        yield from _of_json(text)
    elif start.startswith("<"):
        yield from _of_xml(text)
    else:
        for name, block in _blocks(text):
            parts = [_after(block, key) for key in ("rows", "cols")]
            if all(parts) and "data" in block:
                _, _, data = block.partition("data")
                inside = data.partition("[")[2].partition("]")[0]
                yield name, parts[0], parts[1], _words(inside)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Every name at the start of a line, with the indented lines below it."""
    name, lines = "", []
    for line in (*text.splitlines(), "end:"):
        key = KEY.match(line)
        if key is None:
            lines.append(line)
            continue
        if name:
            yield name, "\n".join(lines)
        name, lines = key[1], [line[key.end() :]]


def _of_json(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    for name, entry in json.loads(text).items():
        if isinstance(entry, dict) and isinstance(entry.get("data"), list):
            yield name, str(entry.get("rows")), str(entry.get("cols")), [str(each) for each in entry["data"]]


def _of_xml(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    place = text.find("<opencv_storage>") + 1
    for found in re.finditer(r"<([A-Za-z_][A-Za-z0-9_]*) type_id=\"opencv-matrix\">", text[place:]):
        start = place + found.end()
        body = text[start : start + text[start:].find(f"</{found[1]}>")]
        parts = [_between(body, key) for key in ("rows", "cols", "data")]
        yield found[1], parts[0].strip(), parts[1].strip(), _words(parts[2])


def _between(body: str, key: str) -> str:
    return body.partition(f"<{key}>")[2].partition(f"</{key}>")[0]


def _after(block: str, key: str) -> str:
    """The word after `key:` on its line."""
    for line in block.splitlines():
        before, colon, after = line.partition(":")
        if colon and before.strip() == key:
            return after.strip()
    return ""


def _words(text: str) -> list[str]:
    return [word for word in SEPARATORS.split(text) if word]
