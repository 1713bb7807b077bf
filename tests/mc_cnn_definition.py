"""The computations of the compiled loops of mc-cnn, written as briefly as possible in NumPy; slow.

Volumes are (H, W, D): entry (v, u, d) compares left pixel u with right pixel u - d, `outside` where u < d.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.kernels.stereo import Layer, Stage

Floats = NDArray[np.float64]
OUTSIDE = 1.0
DIRECTIONS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # (dv, du) to the previous pixel of a path


def features(image: Floats, layers: Sequence[Layer]) -> Floats:
    """Unit features (64, H, W) of an image padded by five pixels; 8-bit layers are rounded."""
    planes = image[None].astype(np.float64)
    for layer in layers:
        height, width = planes.shape[1] - 2, planes.shape[2] - 2
        sums = layer.bias[:, None, None].astype(np.float64)
        for tap in range(9):
            there = planes[:, tap // 3 : tap // 3 + height, tap % 3 : tap % 3 + width]
            sums = sums + np.tensordot(layer.weights[:, tap].T.astype(np.float64), there, axes=1)
        if layer.stage in (Stage.BYTES, Stage.LAST):
            sums = layer.step * np.clip(np.rint(sums * layer.factor[:, None, None]), -128, 127)
        planes = sums if layer.stage is Stage.LAST else np.maximum(sums, 0)
        if layer.stage in (Stage.TO_BYTES, Stage.BYTES):
            planes = np.minimum(np.rint(planes / layer.next_step), 255)
    return np.asarray(planes / np.maximum(np.linalg.norm(planes, axis=0), 1e-12))


def cost_volume(left: Floats, right: Floats, disparities: int) -> Floats:
    """(1 - <f, f'>) / 2 of unit features (C, H, W)."""
    _, height, width = left.shape
    out = np.full((height, width, disparities), OUTSIDE)
    for d in range(min(disparities, width)):
        out[:, d:, d] = 0.5 - 0.5 * np.sum(left[:, :, d:] * right[:, :, : width - d], axis=0)
    return out


def semi_global(cost: Floats, left: Image, right: Image, *penalties: float) -> Floats:
    """The mean of the path costs of the four directions; penalties in the order of `Penalties`."""
    mean: Floats = np.stack([_path(cost, left, right, penalties, way) for way in DIRECTIONS]).mean(axis=0)
    return mean


def _path(cost: Floats, left: Image, right: Image, penalties: tuple[float, ...], way: tuple[int, int]) -> Floats:
    height, width, count = cost.shape
    small_step, large_step, one_edge, both_edges, ground, edge = penalties
    out = cost.copy()
    order = np.ndindex(height, width)
    for v, u in order if way < (0, 0) else reversed(list(order)):
        row, column = v + way[0], u + way[1]
        if not (0 <= row < height and 0 <= column < width):
            continue
        before = out[row, column]
        floor = before.min()
        for d in range(count):
            inside = 0 <= u - d < width and 0 <= column - d < width
            edges = int(abs(left[v, u] - left[row, column]) >= edge)
            edges += int(not inside or abs(right[v, u - d] - right[row, column - d]) >= edge)
            divisor = (1.0, one_edge, both_edges)[edges]
            beside = [
                before[d + change] + small_step / divisor / (ground if change == way[0] else 1.0)
                for change in (-1, 1)
                if 0 <= d + change < count
            ]
            out[v, u, d] = cost[v, u, d] + min(before[d], *beside, floor + large_step / divisor) - floor
    return out


def arms(image: Image, longest: int, tolerance: float) -> NDArray[np.int32]:
    """Distances (4, H, W) to the left, right, up and down over which the grey value stays near the pixel's own."""
    height, width = image.shape
    out = np.zeros((4, height, width), np.int32)
    for side, (dv, du) in enumerate(((0, -1), (0, 1), (-1, 0), (1, 0))):
        for v, u in np.ndindex(height, width):
            for length in range(1, longest + 1):
                row, column = v + length * dv, u + length * du
                if not (0 <= row < height and 0 <= column < width):
                    break
                if abs(image[row, column] - image[v, u]) >= tolerance:
                    break
                out[side, v, u] = length
    return out


def aggregate(cost: Floats, ours: NDArray[np.int32], theirs: NDArray[np.int32]) -> Floats:
    """Means over the common region of both pixels: the row arms of all pixels on the column arms."""
    out = cost.copy()
    for v, u, d in np.ndindex(*cost.shape):
        if d <= u:
            up, down = (min(ours[side, v, u], theirs[side, v, u - d]) for side in (2, 3))
            region = []
            for row in range(v - up, v + down + 1):
                first, last = (min(ours[side, row, u], theirs[side, row, u - d]) for side in (0, 1))
                region.append(cost[row, u - first : u + last + 1, d])
            out[v, u, d] = np.concatenate(region).mean()
    return out
