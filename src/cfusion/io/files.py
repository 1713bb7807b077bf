"""Bytes of a file, or one line that says why not."""

from pathlib import Path

from cfusion.errors import FileError


def read_bytes(path: Path) -> bytes:
    """The whole file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; check the name") from None
    except IsADirectoryError:
        raise FileError(f"{path} is a folder, expected a file") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
