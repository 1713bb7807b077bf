"""Bytes of a file, or one line that says why not."""

import os
import stat
from pathlib import Path

from cfusion.errors import FileError
from cfusion.io.limits import MOST_BYTES
from cfusion.io.paths import require_inside


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The whole file, which has to be a file: a pipe or a device may never end."""
    size = require_file(path, most)
    try:
        with path.open("rb") as stream:
            data = stream.read(size + 1)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > size:
        raise FileError(f"{path} grew while it was read; try again")
    return data


def require_file(path: Path, most: int = MOST_BYTES) -> int:
    """The size of a file; refuse what is none, is too large, or lies outside of what is being read."""
    require_inside(path)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; check the name") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if stat.S_ISDIR(found.st_mode):
        raise FileError(f"{path} is a folder, expected a file")
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{path} is a pipe or a device, expected a file")
    if found.st_size > most:
        raise FileError(f"{path} is {found.st_size} bytes long, expected at most {most}")
    return found.st_size
