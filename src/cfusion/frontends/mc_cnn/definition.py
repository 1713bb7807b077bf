"""What the compiled loops compute, as short as it can be said in NumPy; slow, for tests.

Volumes are (H, W, D): entry (v, u, d) compares left pixel u with right pixel u - d, `outside` where u < d.
"""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image

Floats = NDArray[np.float64]
OUTSIDE = 1.0
DIRECTIONS = ((0, -1), (0, 1), (-1, -1), (-1, 0), (-1, 1), (1, -1), (1, 0), (1, 1))  # to the pixel before: (dv, du)


def cost_volume(left: Floats, right: Floats, disparities: int) -> Floats:
    """(1 - <f, f'>) / 2 of unit features (C, H, W)."""
    _, height, width = left.shape
    out = np.full((height, width, disparities), OUTSIDE)
    for d in range(min(disparities, width)):
        out[:, d:, d] = 0.5 - 0.5 * np.sum(left[:, :, d:] * right[:, :, : width - d], axis=0)
    return out


def semi_global(
    cost: Floats, left: Image, right: Image, small_step: float, large_step: float, at_edge: float, edge: float
) -> Floats:
    """The mean of the paths' costs of the eight directions."""
    paths = [_path(cost, left, right, (small_step, large_step), at_edge, edge, way) for way in DIRECTIONS]
    mean: Floats = np.stack(paths).mean(axis=0)
    return mean


def _path(
    cost: Floats,
    left: Image,
    right: Image,
    steps: tuple[float, float],
    at_edge: float,
    edge: float,
    way: tuple[int, int],
) -> Floats:
    height, width, count = cost.shape
    out = cost.copy()
    order = np.ndindex(height, width)
    forward = way < (0, 0)
    for v, u in order if forward else reversed(list(order)):
        row, column = v + way[0], u + way[1]
        if not (0 <= row < height and 0 <= column < width):
            continue
        before = out[row, column]
        floor = before.min()
        for d in range(count):
            edges = int(abs(left[v, u] - left[row, column]) >= edge)
            if 0 <= u - d < width and 0 <= column - d < width:
                edges += int(abs(right[v, u - d] - right[row, column - d]) >= edge)
            small, large = (step / at_edge**edges for step in steps)
            beside = [before[each] + small for each in (d - 1, d + 1) if 0 <= each < count]
            out[v, u, d] = cost[v, u, d] + min(before[d], *beside, floor + large) - floor
    return out


def arms(image: Image, longest: int, tolerance: float) -> NDArray[np.int32]:
    """(4, H, W) how far the grey value stays near the pixel's own to the left, right, up and down."""
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
    """Means over the crosses that both pixels have in common, along rows and then along columns."""
    out = cost.copy()
    for sides, axis in (((0, 1), 1), ((2, 3), 0)):
        before = out.copy()
        for v, u, d in np.ndindex(*cost.shape):
            if d <= u:
                first, last = (min(ours[side, v, u], theirs[side, v, u - d]) for side in sides)
                here = (v, slice(u - first, u + last + 1)) if axis else (slice(v - first, v + last + 1), u)
                out[v, u, d] = before[(*here, d)].mean()
    return out
