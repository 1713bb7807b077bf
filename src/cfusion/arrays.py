"""Array aliases with their shapes, the rules about types, and medians of known values.

Maps and images are float32 (as sensors give and kernels read them), cameras, poses and points float64.
Unknown depth is NaN; weights and confidences are >= 0, and zero where depth is unknown.

Arrays may also be in the memory of a GPU: CuPy's, to which NumPy's functions dispatch, or those of another library by
DLPack.
"""

import math
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import InputError, first_line

DepthMap: TypeAlias = NDArray[np.float32]  # (H, W), z along the optical axis, NaN = unknown
DepthStack: TypeAlias = NDArray[np.float32]  # (K, H, W), registered depth maps
WeightMap: TypeAlias = NDArray[np.float32]  # (H, W), >= 0
WeightStack: TypeAlias = NDArray[np.float32]  # (K, H, W), >= 0, zero where depth is unknown
Normals: TypeAlias = NDArray[np.float32]  # (H, W, 3), unit, towards the camera, NaN = unknown
Image: TypeAlias = NDArray[np.float32]  # (H, W) or (H, W, 3), 0 = black, 1 = white
Mask: TypeAlias = NDArray[np.bool_]  # (H, W)
MaskStack: TypeAlias = NDArray[np.bool_]  # (K, H, W)
Counts: TypeAlias = NDArray[np.int32]  # (H, W)
Points: TypeAlias = NDArray[np.float64]  # (..., 3), in one frame and the unit of depth
Coordinates: TypeAlias = NDArray[np.float64]  # (...), pixels or units of depth
Matrix: TypeAlias = NDArray[np.float64]  # 3x3, 3x4 or 4x4

# Of normal errors: standard deviation over median and mean size, and median size over standard deviation.
OVER_MEDIAN, OVER_MEAN, MEDIAN_SIZE = 1.4826, 1.2533, 0.6745
TINY, SMALL = 1e-300, 1e-30  # instead of zero, to divide by: in double, and in single precision
_DLPACK_HOST = 1
MOST_WHOLE = 10**300  # for Python's unbounded integers
MOST_RADIUS = 200  # pixels of a hole that is filled; the time grows with its square


def adopt(given: Any, dtype: Any, what: str, *, masked: float = math.nan) -> Any:
    """The array with that type in its own memory, without a copy if it has that type already.

    Masked entries become `masked`. Arrays without numbers (text, dates, objects), or of complex ones, raise an error
    that begins with `what`.
    """
    if isinstance(given, np.ma.MaskedArray):
        _require_real(given.dtype, what)
        given = np.ma.filled(given.astype(np.float64), masked)
    array = _taken(given, what)
    if np.dtype(dtype) != np.bool_:
        _require_real(array.dtype, what)
    elif array.dtype.kind != "b":
        raise InputError(f"{what} is {array.dtype}; give an array of True and False")
    with np.errstate(over="ignore"):  # too large values become inf, and are refused later
        return array.astype(dtype, copy=False)


def _taken(given: Any, what: str) -> Any:
    """The array of any library, in its own type."""
    try:
        if isinstance(given, np.ndarray) or not hasattr(given, "__dlpack_device__"):
            return np.asarray(given)
        if given.__dlpack_device__()[0] == _DLPACK_HOST:
            return np.from_dlpack(given)
        return given if hasattr(given, "__array_function__") else import_module("cupy").from_dlpack(given)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        hint = "make it rows of equal length" if isinstance(given, list | tuple) else "detach it, as float32"
        raise InputError(f"{what} cannot be read from {type(given).__name__} ({first_line(error)}); {hint}") from None


def _require_real(dtype: Any, what: str) -> None:
    if dtype.kind not in "fiub":
        raise InputError(f"{what} is {dtype}; give an array of real numbers")


def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether a value is an integer between two bounds; True and 2.0 are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= int(value) <= most


def is_number(value: Any) -> bool:
    """Whether a value is one real number that floating point can represent; True is not, NaN is."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not isinstance(value, int) or abs(value) < MOST_WHOLE


def median_of(stack: NDArray[np.floating]) -> NDArray[np.floating]:
    """The median of the known values along the first axis; NaN where there are none."""
    if len(stack) == 1:
        return np.asarray(stack[0])
    ordered, count = np.sort(stack, axis=0), np.isfinite(stack).sum(axis=0)  # NaN last
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(stack) - 1)
    one, two = (np.take_along_axis(ordered, place[None], 0)[0] for place in (low, high))
    return np.where(count > 0, (one + two) / 2, np.nan)


def lower_median(cells: NDArray[np.floating]) -> NDArray[np.floating]:
    """The lower median of the known values along the last axis; NaN where there are none."""
    ordered, count = np.sort(cells, axis=-1), np.isfinite(cells).sum(axis=-1)  # NaN last
    return np.asarray(np.take_along_axis(ordered, np.maximum(count - 1, 0)[..., None] // 2, axis=-1)[..., 0])


def share_of(count: int, parts: int) -> int:
    """How many of so many fall to each of some parts; at least one."""
    return max(1, count // parts)


def stride_for(pixels: int, most: int) -> int:
    """The step, in rows and in columns, that leaves about so many of the pixels."""
    return max(1, int(np.sqrt(pixels / most)))


LATTICES = 2 * 3 * 5  # distances of columns that sensors measure have such divisors


def some_columns(maps: Any, most: int) -> Any:
    """Evenly spaced columns of maps (..., H, W), at most about so many pixels of each; every row: a lidar measures few.

    A sensor may measure every second or fourth column only: their distance has no divisor in common with it.
    """
    every = share_of(maps.shape[-2] * maps.shape[-1], most)
    while every > 1 and math.gcd(every, LATTICES) > 1:
        every += 1
    return maps[..., ::every]


def on_host(array: Any) -> bool:
    """Whether the array is NumPy's own."""
    return isinstance(array, np.ndarray)


def chunks(stack: Any) -> Any:
    """The stack map by map on the host (to save memory), or whole on a GPU (to save launches)."""
    return stack[:, None] if on_host(stack) else stack[None]
