"""Limits on what a file may claim, relative to its size, so that memory is bounded before decoding."""

from pathlib import Path

from cfusion.errors import FileError, ShapeError

MOST_PIXELS = 2**28  # 16384 x 16384; a larger claim is a damaged header
FREE_PIXELS = 2**25  # for any file, however small: a frame of 33 megapixels may be empty
PIXELS_PER_BYTE = 64  # and per byte of the file
MOST_BYTES = 2**32  # of a file that is read completely
FREE_BYTES = 2**27  # decompressed, for any archive however small
UNPACKING = 64  # and per byte of the archive


def require_pixels(path: Path, width: int, height: int, held: int, bytes_each: int = 4) -> None:
    """Refuse an image whose header claims more pixels of `bytes_each` than `held` bytes can represent."""
    most = min(MOST_PIXELS, MOST_BYTES // bytes_each, max(FREE_PIXELS, PIXELS_PER_BYTE * held))
    if width < 1 or height < 1 or width * height > most:
        raise FileError(f"{path} claims {width} x {height} pixels in {held} bytes, not 1 to {most}; write it again")


def require_bytes(path: Path, held: int, claimed: int, what: str) -> None:
    """Refuse a file with fewer or more bytes of values than its header claims (`12 x 9 floats are` so many bytes)."""
    if held != claimed:
        kind = "truncated" if held < claimed else "too long"
        raise FileError(f"{path} is {kind}: {what} {claimed} bytes, it holds {held}; copy it again")


def require_shape(path: Path, shape: tuple[int, int], expected: tuple[int, int] | None) -> None:
    """Refuse a map (H, W) whose size differs from the data set's, before it is decoded."""
    if expected is not None and shape != expected:
        raise ShapeError(f"{path} is {shape[1]} x {shape[0]} pixels, its camera has {expected[1]} x {expected[0]}")


def most_unpacked(packed: int) -> int:
    """The most bytes that this many compressed bytes may become."""
    return min(MOST_BYTES, max(FREE_BYTES, UNPACKING * packed))
