"""Semi-global matching on a given cost: paths in eight directions, cheaper jumps where the images have edges.

    L_r(p, d) = C(p, d) + min(L_r(q, d), L_r(q, d +- 1) + P1, min_k L_r(q, k) + P2) - min_k L_r(q, k),   q = p - r,

summed over the directions r. P1 and P2 are divided by `at_edge` where one image has an edge between p and q, by
`at_edge` twice over where both have (Zbontar and LeCun, 2016, section 4.2).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image

Floats = NDArray[np.float32]
DIRECTIONS = 8


class Penalties(NamedTuple):
    """What a change of the disparity costs along a path, in units of the matching cost."""

    small_step: float  # P1: by one pixel
    large_step: float  # P2: by more
    at_edge: float  # both are divided by it for each image that has an edge there
    edge: float  # difference of neighbouring grey values in [0, 1] that makes an edge

    def table(self) -> Floats:
        """(3, 2): P1 and P2 where none, one or both images have an edge."""
        cheaper = np.array([1.0, self.at_edge, self.at_edge**2], np.float32)[:, None]
        return np.array([[self.small_step, self.large_step]], np.float32) / cheaper


def semi_global(kernels: Any, cost: Floats, total: Floats, left: Image, right: Image, penalties: Penalties) -> Floats:
    """(H, W, D) mean of the eight paths' costs, for the left image, written into `total`."""
    total[...] = 0
    table, count = penalties.table(), cost.shape[2]
    ours, theirs = (smooth_steps(each, penalties.edge, 0, (-1,)) for each in (left, right))
    kernels.along_rows(cost, total, ours[0], mirrored(theirs, count)[0], table)
    for row in (-1, 1):
        ours, theirs = (smooth_steps(each, penalties.edge, row, (-1, 0, 1)) for each in (left, right))
        kernels.along_columns(cost, total, ours, mirrored(theirs, count), table, row > 0)
    total *= np.float32(1 / DIRECTIONS)
    return total


def smooth_steps(image: Image, edge: float, row: int, columns: tuple[int, ...]) -> Floats:
    """(len(columns), H, W): 1 where the grey value stays within `edge` on the way to (v + row, u + column), else 0.

    1 also where the neighbour lies outside.
    """
    height, width = image.shape
    out = np.ones((len(columns), height, width), np.float32)
    rows = slice(max(0, -row), height - max(0, row))
    rows_there = slice(max(0, row), height - max(0, -row))
    for k, column in enumerate(columns):
        here = rows, slice(max(0, -column), width - max(0, column))
        there = rows_there, slice(max(0, column), width - max(0, -column))
        out[k][here] = np.abs(image[here] - image[there]) < edge
    return out


def mirrored(steps: Floats, count: int) -> Floats:
    """(..., W + count) rows from right to left, ones behind: entry W - 1 - u + d is of column u - d."""
    behind = np.ones((*steps.shape[:-1], count), np.float32)
    return np.ascontiguousarray(np.concatenate([steps[..., ::-1], behind], axis=-1))
