"""Tables as text: of numbers in files, checked, with errors that name file and line; and for a terminal, aligned."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.arrays import Matrix
from cfusion.errors import FileError
from cfusion.io.files import read_bytes

LONGEST_TEXT = 1 << 28  # bytes; COLMAP's models are long
LONGEST_TABLE = 1 << 25  # bytes; a trajectory of a day
WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
SEPARATORS = re.compile(r"[\s,]+")
NOT_A_NUMBER = re.compile(r"[-+]?\d*\.?#(IND|QNAN|SNAN|INF)\w*", re.IGNORECASE)  # NaN in old Windows programs


@dataclass(frozen=True)
class Line:
    """A line of a text file, split into words; not empty and not a comment."""

    words: tuple[str, ...]
    where: str  # file and line number

    def numbers(self, first: int = 0, count: int | None = None) -> tuple[float, ...]:
        """The words from `first` on as numbers, `count` of them if given; NaN and inf are allowed."""
        chosen = self.words[first:] if count is None else self.words[first : first + count]
        if count is not None and len(chosen) < count:
            raise FileError(f"{self.where} has {len(self.words)} words, expected {first + count}")
        try:
            return tuple(number(word) for word in chosen)
        except ValueError as error:
            raise FileError(f"{self.where}: {error}") from None


def number(word: str) -> float:
    """A word as a number."""
    if NOT_A_NUMBER.fullmatch(word):
        return float("nan")
    try:
        if "_" in word or not word.isascii():  # spellings that only Python accepts
            raise ValueError
        return float(word)
    except ValueError:
        raise ValueError(f"{word[:40]!r} is not a number") from None


def whole(word: str) -> int:
    """A word as a whole number."""
    if not WHOLE.fullmatch(word):
        raise ValueError(f"{word[:40]!r} is not a whole number")
    return int(word)


def read_text(path: Path, most: int = LONGEST_TEXT) -> str:
    """The whole file as text."""
    data = read_bytes(path, most)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{path} is not text in UTF-8; write it again") from None


def read_lines(path: Path) -> Iterator[Line]:
    """Lines split into words, without empty lines and comments (#)."""
    for index, line in enumerate(io.StringIO(read_text(path, LONGEST_TABLE), newline=None)):
        words = tuple(word for word in SEPARATORS.split(line) if word)
        if words and not words[0].startswith("#"):
            yield Line(words, f"{path}, line {index + 1}")


def read_matrix(path: Path, *shapes: tuple[int, int]) -> Matrix:
    """A matrix of one of the shapes, in row order; its entries need not be finite."""
    rows = [line.numbers() for line in read_lines(path)]
    values = [value for row in rows for value in row]
    for shape in shapes:
        if len(values) == shape[0] * shape[1]:
            return np.array(values, dtype=np.float64).reshape(shape)
    expected = " or ".join(f"{rows} x {columns}" for rows, columns in shapes)
    raise FileError(f"{path} holds {len(values)} numbers, expected {expected}")


def is_number(stem: str) -> bool:
    """Whether a file name is a frame number."""
    return stem.isascii() and stem.isdigit() and len(stem) < 16


def numbered(paths: Sequence[Path]) -> list[Path]:
    """Paths ordered by the last number in their names: 2.png before 10.png."""

    def key(path: Path) -> tuple[int, str]:
        digits = re.findall(r"[0-9]+", path.stem[-300:])
        return (int(digits[-1]) if digits else -1, path.name)

    return sorted(paths, key=key)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of the rows in columns two spaces apart: the first one left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{'>' if place else '<'}{width}}}" for place, width in enumerate(widths))
    return [form.format(*row).rstrip() for row in rows]
