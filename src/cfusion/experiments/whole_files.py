"""Files that appear whole or not at all, though many processes write beside one another."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError


def write_whole(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write beside, then rename: a kill leaves the old file or the new one."""
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
        draft.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays by name, compressed."""
    named: dict[str, Any] = dict(arrays)
    write_whole(path, lambda stream: np.savez_compressed(stream, **named))
