"""The bytes of a file, or an error of one line."""

import os
import stat
from pathlib import Path

from cfusion.errors import FileError
from cfusion.io.limits import MOST_BYTES
from cfusion.io.paths import require_inside


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file: a pipe or a device may never end."""
    size = require_file(path, most)
    data = read_start(path, size + 1)
    if len(data) > size:
        raise FileError(f"{path} grew while it was read; try again")
    return data


def read_start(path: Path, count: int) -> bytes:
    """The first bytes of a file that `require_file` accepts."""
    try:
        with path.open("rb") as stream:
            return stream.read(count)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error


def require_file(path: Path, most: int = MOST_BYTES) -> int:
    """The size of a file; refuses a missing, special or too large file, or one outside the folders being read."""
    require_inside(path)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; check the name") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if stat.S_ISDIR(found.st_mode):
        raise FileError(f"{path} is a folder; give a file")
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{path} is a pipe or a device; give a file")
    if found.st_size > most:
        raise FileError(f"{path} is {found.st_size} bytes long, more than {most}; give a smaller file")
    return found.st_size
