"""PNG: 16-bit grey for maps (value = offset + scale * count, counts 0 and 65535 = unknown), and images.

Sensors write 65535 where nothing was measured, and exporters for all that is too far: it is no depth in any data set.
"""

import importlib
import io
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.errors import FileError, first_line, optional_module
from cfusion.io.codecs.png_chunks import GREY, GREY_ALPHA, PALETTE, RGB, check
from cfusion.io.files import read_bytes

WHITE = {8: 255, 16: 65535}  # the largest count, by the bits
SATURATED = WHITE[16]
LARGEST_COUNT = SATURATED - 1  # of a known value
ROWS = 64


@dataclass(frozen=True)
class Encoding:
    """The meaning of a 16-bit PNG's counts: value = offset + scale * count."""

    scale: float
    offset: float = 0.0

    @property
    def largest(self) -> float:
        """The largest value that it can represent."""
        return self.offset + self.scale * (LARGEST_COUNT + 0.5)


def read_png(
    path: Path, encoding: Encoding, *, zero_is_unknown: bool = True, expected: tuple[int, int] | None = None
) -> NDArray[np.float32]:
    """A map (H, W) from a 16-bit grey PNG; NaN where the count is 0 or 65535, unless `zero_is_unknown` is False."""
    counts = _read_counts(path, expected)
    values = np.empty(counts.shape, np.float32)
    with np.errstate(over="ignore"):  # an absurd scale gives inf, which a View refuses
        for first in range(0, len(counts), ROWS):  # double precision, in strips to save memory
            rows = slice(first, first + ROWS)
            values[rows] = encoding.offset + encoding.scale * counts[rows].astype(np.float64)
            if zero_is_unknown:
                values[rows][(counts[rows] == 0) | (counts[rows] == SATURATED)] = np.nan
    return values


def read_weights(path: Path, scale: float | None, expected: tuple[int, int] | None) -> NDArray[np.float32]:
    """Weights (H, W) from a grey PNG of 8 or 16 bits: counts times the scale; without one, white is 1."""
    data = read_bytes(path)
    bits, colour = check(path, data, expected)
    if bits not in WHITE or colour != GREY:
        raise FileError(f"{path} is a {_kind(bits, colour)} PNG; save a confidence as 8- or 16-bit grey without alpha")
    counts = _decode(path, data, mode=None)
    return np.multiply(counts, 1 / WHITE[bits] if scale is None else scale, dtype=np.float64).astype(np.float32)


def write_png(
    path: Path, values: NDArray[np.generic], encoding: Encoding, words: Mapping[str, str] | None = None
) -> None:
    """Write a map (H, W) as 16-bit grey; NaN becomes 0, known values at least 1.

    The file states its scale and offset (tEXt chunks `Scale` and `Offset`), and the given `words`.
    """
    known = np.isfinite(values.astype(np.float64))
    counts = np.rint((np.where(known, values, 0.0) - encoding.offset) / encoding.scale)
    clipped = np.where(known, np.clip(counts, 1, LARGEST_COUNT), 0).astype(np.uint16)
    text_chunks = importlib.import_module("PIL.PngImagePlugin").PngInfo()
    for key, text in ({"Scale": repr(encoding.scale), "Offset": repr(encoding.offset)} | dict(words or {})).items():
        text_chunks.add_text(key, text)
    pillow_image().fromarray(clipped).save(path, format="PNG", pnginfo=text_chunks)


def write_counts(path: Path, depth: NDArray[np.floating], scale: float) -> None:
    """Write a depth map (H, W) as counts of `scale`; depth beyond the largest count becomes unknown."""
    encoding = Encoding(scale)
    with np.errstate(invalid="ignore"):
        held = np.where(depth < encoding.largest, depth, np.nan)
    write_png(path, held, encoding)


def finest_encoding(values: NDArray[np.floating]) -> Encoding:
    """The smallest step of 1, 2 or 5 times a power of ten that represents every known value in 16 bits."""
    known = values[np.isfinite(values)].astype(np.float64)
    if known.size == 0:
        return Encoding(scale=1.0)
    return encoding_of(min(0.0, float(known.min())), float(known.max()))


def encoding_of(low: float, high: float) -> Encoding:
    """The same for values between `low` (at most 0) and `high`."""
    finest = (high - low) / (LARGEST_COUNT - 1)
    if finest == 0.0:
        return Encoding(scale=1.0, offset=low - 1.0 if low < 0 else 0.0)
    power = 10.0 ** np.floor(np.log10(finest))
    scale = next(float(f"{step * power:.1g}") for step in (1, 2, 5, 10) if step * power >= finest)
    return Encoding(scale, offset=low - scale if low < 0 else 0.0)


def read_image(path: Path, expected: tuple[int, int] | None = None) -> Image:
    """An image (H, W) or (H, W, 3) in [0, 1]; transparency is dropped."""
    data = read_bytes(path)
    bits, colour = check(path, data, expected)
    if colour == GREY and bits == 16:
        return np.divide(_decode(path, data, mode=None), np.float32(WHITE[16]), dtype=np.float32)
    mode = "L" if colour in (GREY, GREY_ALPHA) else "RGB"
    return np.divide(_decode(path, data, mode=mode), np.float32(WHITE[8]), dtype=np.float32)


def write_image(path: Path, image: Image) -> None:
    """An image (H, W) or (H, W, 3) in [0, 1], as 8 bits a channel."""
    levels = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    pillow_image().fromarray(levels).save(path, format="PNG")


def pillow_image() -> Any:
    """Pillow's Image module, imported late."""
    return optional_module("PIL.Image", missing="PNG files need Pillow: pip install 'cfusion[data]'")


def _read_counts(path: Path, expected: tuple[int, int] | None) -> NDArray[np.uint16]:
    data = read_bytes(path)
    bits, colour = check(path, data, expected)
    if bits != 16 or colour != GREY:
        raise FileError(f"{path} is a {_kind(bits, colour)} PNG; save depth as 16-bit grey without alpha")
    return _decode(path, data, mode=None).astype(np.uint16, copy=False)


def _kind(bits: int, colour: int) -> str:
    return f"{bits}-bit { ({GREY: 'grey', RGB: 'colour', PALETTE: 'palette'}.get(colour, 'transparent')) }"


def _decode(path: Path, data: bytes, mode: str | None) -> NDArray[np.uint16]:
    with decoding(path, "is a damaged PNG") as module:
        picture = module.open(io.BytesIO(data), formats=("PNG",))
        picture.load()
    return np.asarray(picture if mode is None else picture.convert(mode))


@contextmanager
def decoding(path: Path, wrong: str) -> Iterator[Any]:
    """Pillow's Image module: no warnings about large images, whose size the caller bounds; errors become one line."""
    module = pillow_image()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", module.DecompressionBombWarning)
            yield module
    except FileError:
        raise
    except (OSError, SyntaxError, ValueError, zlib.error, module.DecompressionBombError) as error:
        raise FileError(f"{path} {wrong} ({first_line(error)}); write it again") from None
