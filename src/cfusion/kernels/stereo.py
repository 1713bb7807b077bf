"""Matching a stereo pair on a CUDA device: launches of the kernels in cuda/stereo_*.cu; volumes stay on the device.

`arrays` and `kernel` are CuPy and the kernels of `cfusion.kernels.cuda.device`; tests pass NumPy and an emulation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from cfusion.kernels.contract import Floats

NETWORK, COSTS, PATHS, MAP = (("stereo_network.cu",), ("stereo_costs.cu",), ("stereo_paths.cu",), ("stereo_map.cu",))
CUES = 8
STEPS = 16  # per pixel of disparity, in the search for specks
PLANES = 64  # of features
TILE_ROWS, TILE_COLUMNS = 4, 32  # output of a block of the network
COST_COLUMNS, COST_DISPARITIES = 16, 128  # of a block of the cost volume
THREADS, WARP = 256, 32
WALKERS, JUDGES = 2, 4  # warps per block
DIRECTIONS = ((False, False), (False, True), (True, False), (True, True))  # vertical, backwards


class Stage(IntEnum):
    """What is done with a layer's sums: kept, rounded to bytes, bytes to bytes, or (last layer) without a threshold."""

    PLAIN, TO_BYTES, BYTES, LAST = range(4)


@dataclass(frozen=True, eq=False)
class Layer:
    """A 3 x 3 convolution into 64 planes; integers times steps if it has 8 bits."""

    weights: Floats  # (planes, 9, 64)
    bias: Floats  # (64,)
    factor: Floats  # (64,) from its sums to steps of its output
    stage: Stage
    step: float  # of its output before the threshold
    next_step: float  # of its output


@dataclass(frozen=True)
class DeviceStereo:
    """The steps of `cfusion.frontends.mc_cnn` on a device."""

    arrays: Any
    kernel: Callable[..., Callable[..., None]]

    def put(self, array: Any, dtype: Any = np.float32) -> Any:
        """A contiguous copy on the device."""
        return self.arrays.asarray(np.ascontiguousarray(array, dtype))

    def features(self, image: Floats, layers: Sequence[Layer]) -> Floats:
        """Unit features (64, H, W) of an image padded by five pixels, (H + 10, W + 10)."""
        planes = self.put(image)[None]
        for layer in layers:
            _, height, width = planes.shape
            out = self.arrays.empty((PLANES, height - 2, width - 2), np.float32)
            numbers = (np.int32(each) for each in (len(planes), height, width, layer.stage))
            steps = np.float32(layer.step), np.float32(layer.next_step)
            given = (self.put(each) for each in (layer.weights, layer.bias, layer.factor))
            self.kernel(NETWORK, "convolve")(
                (_blocks(width - 2, TILE_COLUMNS), _blocks(height - 2, TILE_ROWS)),
                (THREADS,),
                (planes, *given, *numbers, *steps, out),
            )
            planes = out
        pixels = planes[0].size
        self.kernel(NETWORK, "normalise")(
            (_blocks(pixels, THREADS),), (THREADS,), (planes, np.float32(layers[-1].step), np.uint32(pixels))
        )
        return planes

    def cost_volume(self, left: Floats, right: Floats, count: int) -> Floats:
        """(1 - <f, f'>) / 2, (H, W, D), of unit features."""
        height, width = left.shape[1:]
        cost = self.arrays.empty((height, width, count), np.float32)
        self.kernel(COSTS, "cost_volume")(
            (_blocks(width, COST_COLUMNS), height, _blocks(count, COST_DISPARITIES)),
            (COST_DISPARITIES,),
            (left, right, *(np.int32(each) for each in cost.shape), cost),
        )
        return cost

    def arms(self, image: Floats, longest: int, tolerance: float) -> Any:
        """Lengths (4, H, W) of a pixel's cross."""
        height, width = image.shape
        out = self.arrays.empty((4, height, width), np.int32)
        self.kernel(COSTS, "arms")(
            (_blocks(width, THREADS), height, 4),
            (THREADS,),
            (self.put(image), np.int32(longest), np.float64(tolerance), np.int32(height), np.int32(width), out),
        )
        return out

    def aggregate(self, cost: Floats, half: Floats, ours: Any, theirs: Any) -> None:
        """Replace the cost by its mean over the common cross of both pixels, in place."""
        height, width, count = cost.shape
        grid, sizes = (_blocks(width * count, THREADS), height), [np.int32(each) for each in cost.shape]
        self.kernel(COSTS, "sum_across")(grid, (THREADS,), (cost, ours, theirs, *sizes, half))
        self.kernel(COSTS, "mean_along")(grid, (THREADS,), (half, ours, theirs, *sizes, cost))

    def semi_global(
        self, cost: Floats, total: Floats, left: Floats, right: Floats, table: Floats, ground: float, edge: float
    ) -> Floats:
        """Write the mean path cost of four directions into `total`; table (3, 2) holds P1 and P2 by number of edges."""
        height, width, count = cost.shape
        ours, theirs = (self._smooth_steps(each, edge) for each in (left, right))
        penalties = np.ascontiguousarray(table.T, np.float32).tobytes()
        of_lane = (f"OF_LANE={_blocks(count, WARP)}",)
        for number, (vertical, backwards) in enumerate(DIRECTIONS):
            cheap, full = np.float32(1 / ground if vertical else 1), np.float32(1)
            self.kernel(PATHS, "walk", of_lane)(
                (_blocks(width if vertical else height, WALKERS),),
                (WALKERS * WARP,),
                (
                    *(cost, total, ours[int(vertical)], theirs[int(vertical)], penalties),
                    *(np.int32(each) for each in cost.shape),
                    *(np.bool_(vertical), np.bool_(backwards)),
                    *((full, cheap) if backwards else (cheap, full)),
                    np.bool_(number == 0),
                    np.float32(1 / len(DIRECTIONS) if number == len(DIRECTIONS) - 1 else 1),
                ),
            )
        return total

    def _smooth_steps(self, image: Floats, edge: float) -> Any:
        height, width = image.shape
        out = self.arrays.empty((2, height, width), np.uint8)
        self.kernel(PATHS, "smooth_steps", ("OF_LANE=1",))(
            *_rows(height, width),
            (self.put(image), np.float32(edge), np.int32(height), np.int32(width), out),
        )
        return out

    def winners(self, total: Floats, cost: Floats) -> Floats:
        """(4, H, W): disparity of least cost, its cost, the least cost elsewhere, the network cost."""
        height, width, count = total.shape
        out = self.arrays.empty((4, height, width), np.float32)
        self.kernel(PATHS, "winners", ("OF_LANE=1",))(
            (_blocks(height * width, JUDGES),),
            (JUDGES * WARP,),
            (total, cost, np.uint32(height * width), np.int32(width), np.int32(count), out),
        )
        return out

    def mirror(self, cost: Floats, out: Floats) -> None:
        """The volume of the mirrored pair."""
        height, width, count = cost.shape
        grid = (_blocks(width * count, THREADS), height)
        self.kernel(COSTS, "mirror")(grid, (THREADS,), (cost, np.int32(width), np.int32(count), out))

    def checked(self, disparity: Floats, mirrored: Floats, tolerance: float) -> tuple[Floats, Floats]:
        """The disagreement of the right image's map, mirrored, with the left one's, and the disparities it confirms."""
        height, width = disparity.shape
        apart, found = self.arrays.empty((2, height, width), np.float32)
        given = (disparity, mirrored, np.float64(tolerance), np.int32(width), apart, found)
        self.kernel(MAP, "compare")(*_rows(height, width), given)
        return apart, found

    def drop_specks(self, found: Floats, size: int, step: float) -> None:
        """Make segments of at most `size` pixels unknown; neighbours within `step` are connected."""
        pixels, width = np.uint32(found.size), np.int32(found.shape[1])
        parent, sizes = self.arrays.empty((2, found.size), np.uint32)
        flat = (_blocks(found.size, THREADS),), (THREADS,)
        self.kernel(MAP, "alone")(*flat, (pixels, parent, sizes))
        self.kernel(MAP, "join_segments")(*flat, (found, np.float32(round(STEPS * step)), width, pixels, parent))
        self.kernel(MAP, "count_segments")(*flat, (pixels, parent, sizes))
        self.kernel(MAP, "drop_specks")(*flat, (parent, sizes, np.uint32(size), pixels, found))

    def cues(
        self, found: Floats, apart: Floats, image: Floats, curves: Floats, halves: tuple[float, float, float]
    ) -> Floats:
        """Cues (8, H, W) against each pixel; `halves` are the jump, texture and margin that count one half."""
        height, width = found.shape
        out = self.arrays.empty((CUES, height, width), np.float32)
        numbers = (*(np.float32(each) for each in halves), np.int32(height), np.int32(width))
        self.kernel(MAP, "cues")(*_rows(height, width), (found, apart, self.put(image), curves, *numbers, out))
        return out

    def refined(self, found: Floats, radius: int, spread: float, step: float) -> Floats:
        """The map after a median and a bilateral filter; holes enter the median as their farther neighbour."""
        height, width = found.shape
        grid, sizes = _rows(height, width), (np.int32(height), np.int32(width))
        one, other = self.arrays.empty((2, height, width), np.float32)
        self.kernel(MAP, "farther")(*grid, (found, np.bool_(True), *sizes, one))
        self.kernel(MAP, "farther")(*grid, (one, np.bool_(False), *sizes, other))
        self.kernel(MAP, "median")(*grid, (found, other, *sizes, one))
        filters = np.int32(radius), np.float32(spread), np.float32(step)
        self.kernel(MAP, "bilateral")(*grid, (one, *filters, *sizes, other))
        return other


def _rows(height: int, width: int) -> tuple[tuple[int, int], tuple[int]]:
    """The launch of one thread per pixel, in blocks along rows."""
    return (_blocks(width, THREADS), height), (THREADS,)


def _blocks(items: int, threads: int) -> int:
    return -(-items // threads)
