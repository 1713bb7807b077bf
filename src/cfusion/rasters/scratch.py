"""Images on disk, read and written by window, for a mosaic that is larger than memory.

Rows are read and written at their position in a plain file. The file is not memory-mapped: mapped pages count as memory
of the process. Space is reserved when an image is created, so that a full disk is found at once and not in the middle
of the work.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError


@dataclass(frozen=True)
class Image:
    """(planes, height, width) numbers of one type in a file."""

    file: Path
    planes: int
    height: int
    width: int
    dtype: str = "float32"
    first: int = 0  # plane of the file at which this image starts

    @property
    def bytes(self) -> int:
        return self.planes * self.height * self.width * np.dtype(self.dtype).itemsize

    def create(self) -> Image:
        """Reserve the space, filled with zeros; a file of the right size is not changed."""
        if self.file.exists() and self.file.stat().st_size == self.bytes:
            return self
        try:
            descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                os.posix_fallocate(descriptor, 0, self.bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.file.unlink(missing_ok=True)
            raise disk_error(self.file, error, self.bytes) from None
        return self

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)

    def read(self, rows: slice, columns: slice) -> NDArray[Any]:
        """(planes, h, w) of a window."""
        out = np.empty((self.planes, rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        descriptor = os.open(self.file, os.O_RDONLY)
        try:
            for plane in range(self.planes):
                for number, row in enumerate(range(rows.start, rows.stop)):
                    line = memoryview(out[plane, number]).cast("B")
                    if os.preadv(descriptor, [line], self._place(plane, row, columns.start)) != line.nbytes:
                        raise FileError(f"{self.file} is too short; remove its folder and start again")
        finally:
            os.close(descriptor)
        return out

    def write(self, values: NDArray[Any], row: int, column: int) -> None:
        """Write (planes, h, w) at a row and column."""
        given = np.ascontiguousarray(values, self.dtype)
        try:
            descriptor = os.open(self.file, os.O_RDWR)
            try:
                for plane in range(self.planes):
                    for number in range(given.shape[1]):
                        line = memoryview(given[plane, number]).cast("B")
                        if os.pwrite(descriptor, line, self._place(plane, row + number, column)) != line.nbytes:
                            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise disk_error(self.file, error, self.bytes) from None

    def _place(self, plane: int, row: int, column: int) -> int:
        return (((self.first + plane) * self.height + row) * self.width + column) * np.dtype(self.dtype).itemsize


def disk_error(file: Path, error: OSError, needed: int) -> FileError:
    """An error of the disk as one line with its remedy."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FileError(
            f"the disk of {file.parent} is full: {needed / 1e9:.3g} GB are needed there for {file.name}; free some, "
            "or pass --scratch with a folder on another disk"
        )
    return FileError(f"cannot write {file}: {error.strerror or error}; choose another place with --scratch")
