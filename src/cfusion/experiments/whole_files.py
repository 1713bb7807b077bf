"""Files that appear complete or not at all, although many processes write into one folder."""

import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError


def write_whole(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write to a temporary file, then rename: a killed process leaves the old file or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as stream:
            fill(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            draft.unlink()


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays that `write_arrays` wrote; a damaged file is removed, so that the next run makes it again."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        path.unlink(missing_ok=True)
        raise FileError(f"{path} was damaged and is removed; run the same command again") from None


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays by name, compressed."""
    named: dict[str, Any] = dict(arrays)
    write_whole(path, lambda stream: np.savez_compressed(stream, **named))
