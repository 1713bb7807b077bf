"""How much a file may claim, by its own size: bounds on memory before anything is decoded."""

from pathlib import Path

from cfusion.errors import FileError, ShapeError

MOST_PIXELS = 2**28  # 16384 x 16384; a larger claim is a damaged header
FREE_PIXELS = 2**25  # of any file, however small: a frame of 33 megapixels may be empty
PIXELS_PER_BYTE = 64  # of a file, beyond that
MOST_BYTES = 2**32  # of a file that is read whole
FREE_BYTES = 2**27  # unpacked, of an archive however small
UNPACKING = 64  # bytes per byte of an archive, beyond that


def require_pixels(path: Path, width: int, height: int, held: int, bytes_each: int = 4) -> None:
    """Refuse an image whose header claims more pixels, decoded to `bytes_each`, than `held` bytes can stand for."""
    most = min(MOST_PIXELS, MOST_BYTES // bytes_each, max(FREE_PIXELS, PIXELS_PER_BYTE * held))
    if width < 1 or height < 1 or width * height > most:
        raise FileError(f"{path} claims {width} x {height} pixels in {held} bytes, expected 1 to {most}; write it anew")


def require_shape(path: Path, shape: tuple[int, int], expected: tuple[int, int] | None) -> None:
    """Refuse a map (H, W) of another size than its data set states, before it is decoded."""
    if expected is not None and shape != expected:
        raise ShapeError(f"{path} is {shape[1]} x {shape[0]} pixels, its camera sees {expected[1]} x {expected[0]}")


def most_unpacked(packed: int) -> int:
    """The bytes that so many packed ones may become."""
    return min(MOST_BYTES, max(FREE_BYTES, UNPACKING * packed))
