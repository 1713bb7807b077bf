"""A text file that lost its end, or a line: the data set is refused in one line or read as less, never as another."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cfusion import View
from cfusion.datasets import WRITERS, read, write_views
from cfusion.errors import CFusionError

MOST = 40  # lines of a file that are tried


def texts(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".txt", ".json", ".cfg", ".log", ".mvs"):
            try:
                yield file, file.read_text().splitlines(keepends=True)
            except UnicodeDecodeError:
                continue


def variants(file: Path, lines: list[str]) -> Iterator[str]:
    """Cut after each line, and within it; each line left out, but for keys of JSON, which may have defaults."""
    named = 2 if file.name == "trajectory.json" else 0  # without its first lines it is no trajectory: there is another
    for number in range(named, min(len(lines), MOST)):
        yield "".join(lines[:number])
        yield "".join(lines[:number]) + lines[number][: len(lines[number]) // 2]
        if file.suffix != ".json":
            yield "".join(lines[:number] + lines[number + 1 :])


def is_one_of(view: View, known: list[View]) -> bool:
    """Whether a view has depth, camera and pose of one that was written."""
    return any(
        view.depth.shape == other.depth.shape
        and np.array_equal(view.depth, other.depth, equal_nan=True)
        and view.camera == other.camera
        and np.allclose(view.pose.matrix(), other.pose.matrix())
        for other in known
    )


@pytest.mark.parametrize("format", WRITERS)
def test_what_is_lost_is_refused_or_missing(tmp_path: Path, some_views: list[View], format: str) -> None:
    write_views(some_views, tmp_path, format)
    whole = list(read(tmp_path, format))
    assert len(whole) == 3
    refused = 0
    for file, lines in texts(tmp_path):
        before = file.read_bytes()
        for text in variants(file, lines):
            file.write_text(text)
            try:
                found = list(read(tmp_path, format))
            except CFusionError as error:
                assert "\n" not in str(error)
                refused += 1
            else:
                strange = [view.name for view in found if not is_one_of(view, whole)]
                assert not strange, f"{file.name} as {text!r}"
        file.write_bytes(before)
    assert refused > 0 or format == "openmvs"
