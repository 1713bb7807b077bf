"""Arrays in a .npz archive: headers are read first, pickles refused, uncompressed values memory-mapped."""

import io
import lzma
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from cfusion.errors import FileError, first_line
from cfusion.io.codecs.npy import HEADER_READERS
from cfusion.io.files import require_file
from cfusion.io.limits import most_unpacked

LONGEST_HEADER = 1 << 16
PIECE = 1 << 20  # bytes unpacked at a time
DAMAGE = (
    *(OSError, ValueError, EOFError, RuntimeError, MemoryError, struct.error, zlib.error, lzma.LZMAError),
    *(zipfile.BadZipFile, zipfile.LargeZipFile, LookupError, AttributeError, TypeError, OverflowError),
)
MOST_ARCHIVE = 1 << 40  # bytes; archives are mapped, not read
LOCAL_HEADER = struct.Struct("<26xHH")  # of a member, which zipfile has checked: lengths of name and extra field


@dataclass(frozen=True)
class Member:
    """One array of an archive; its values are read when first used."""

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    header: int  # bytes before the values
    stored_at: int | None  # offset of the values in the file, None if compressed
    fortran: bool

    @cached_property
    def values(self) -> NDArray[np.generic]:
        """The array: mapped if it is not compressed, else decompressed into memory."""
        try:
            if self.stored_at is not None:
                order = "F" if self.fortran else "C"
                return np.memmap(self.file, self.dtype, "r", self.stored_at, self.shape, order)  # type: ignore[call-overload,no-any-return]
            return self._unpacked()
        except DAMAGE as error:
            raise FileError(f"{self.file}: {self.name} is damaged ({first_line(error)}); write it again") from None

    def _unpacked(self) -> NDArray[np.generic]:
        """The array, decompressed into its own memory without a second copy."""
        values = np.empty(self.shape, self.dtype, order="F" if self.fortran else "C")
        room = values.reshape(-1, order="A").view(np.uint8).data if values.size else memoryview(bytearray())
        with zipfile.ZipFile(self.file) as archive, archive.open(f"{self.name}.npy") as stream:
            stream.read(self.header)
            place = 0
            while place < len(room):
                piece = stream.read(min(PIECE, len(room) - place))
                if not piece:
                    raise EOFError("it ends too early")
                room[place : place + len(piece)] = piece
                place += len(piece)
        return values


def members(file: Path) -> dict[str, Member]:
    """The arrays of an archive by name, without their values; pickled objects are refused."""
    require_file(file, MOST_ARCHIVE)
    try:
        with zipfile.ZipFile(file) as archive:
            return {
                info.filename.removesuffix(".npy"): _member(file, archive, info)
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
    except DAMAGE as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"{file} is not a .npz archive, or a damaged one ({first_line(error)}); write it again"
        ) from None


def _member(file: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    name = info.filename.removesuffix(".npy")
    with archive.open(info) as stream:
        start = io.BytesIO(stream.read(LONGEST_HEADER))
    try:
        shape, fortran, dtype = HEADER_READERS[npy_format.read_magic(start)](start)
    except Exception:  # the header is a Python expression; damaged ones fail in many ways
        raise FileError(f"{file}: {name} has a damaged header; write it again") from None
    if dtype.hasobject:
        raise FileError(f"{file}: {name} holds pickled Python objects; save plain arrays instead")
    claimed = math.prod(shape) * dtype.itemsize
    most = info.compress_size if info.compress_type == zipfile.ZIP_STORED else most_unpacked(info.compress_size)
    if claimed != info.file_size - start.tell() or not 0 <= claimed <= most:
        raise FileError(
            f"{file}: {name} claims {claimed} bytes and holds {info.file_size - start.tell()}; write it again"
        )
    stored = _offset(file, info) + start.tell() if info.compress_type == zipfile.ZIP_STORED else None
    return Member(file, name, shape, dtype, start.tell(), stored if claimed else None, fortran)


def _offset(file: Path, info: zipfile.ZipInfo) -> int:
    """The offset of a stored member's bytes; its local header may be longer than the directory states."""
    with file.open("rb") as stream:
        stream.seek(info.header_offset)
        name, extra = LOCAL_HEADER.unpack(stream.read(LOCAL_HEADER.size))
    return info.header_offset + LOCAL_HEADER.size + int(name) + int(extra)
