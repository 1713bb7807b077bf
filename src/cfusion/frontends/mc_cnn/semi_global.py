"""Semi-global matching on a given cost: paths in four directions, with cheaper jumps at image edges.

    L_r(p, d) = C(p, d) + min(L_r(q, d), L_r(q, d +- 1) + P1, min_k L_r(q, k) + P2) - min_k L_r(q, k),   q = p - r,

summed over the directions r. P1 and P2 are divided by `one_edge` where one image has an edge between p and q, by
`both_edges` where both have; P1 is also divided by `ground` where the disparity grows downwards by one pixel, as on the
ground (Zbontar and LeCun, 2016, section 4.2: there for every vertical step, in their program for these).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image

Floats = NDArray[np.float32]
DIRECTIONS = 4


class Penalties(NamedTuple):
    """The cost of a change of disparity along a path, in units of the matching cost."""

    small_step: float  # P1: change by one pixel
    large_step: float  # P2: larger change
    one_edge: float  # divides both where one image has an edge
    both_edges: float  # divides both where both images have an edge
    ground: float  # divides P1 where the disparity grows downwards
    edge: float  # difference of neighbouring values that is an edge, in standard deviations of the image

    def table(self) -> Floats:
        """(3, 2): P1 and P2 where none, one or both images have an edge."""
        cheaper = np.array([1.0, self.one_edge, self.both_edges], np.float32)[:, None]
        return np.array([[self.small_step, self.large_step]], np.float32) / cheaper


def semi_global(kernels: Any, cost: Floats, total: Floats, left: Image, right: Image, penalties: Penalties) -> Floats:
    """Write the mean path cost (H, W, D) of the left image into `total`; images are `normed`."""
    total[...] = 0
    table, count, edge = penalties.table(), cost.shape[2], penalties.edge
    kernels.along_rows(cost, total, smooth_steps(left, edge, 1), mirrored(smooth_steps(right, edge, 1), count), table)
    steps = smooth_steps(left, edge, 0), mirrored(smooth_steps(right, edge, 0), count)
    kernels.along_columns(cost, total, *steps, table, 1 / penalties.ground)
    total *= np.float32(1 / DIRECTIONS)
    return total


def smooth_steps(image: Image, edge: float, axis: int) -> Floats:
    """1 where the value changes by at most `edge` from the previous pixel along the axis, else 0; (H, W).

    The border of the image counts as an edge.
    """
    out = np.zeros(image.shape, np.float32)
    inner = (slice(1, None), slice(None)) if axis == 0 else (slice(None), slice(1, None))
    out[inner] = np.abs(np.diff(image, axis=axis)) < edge
    return out


def mirrored(steps: Floats, count: int) -> Floats:
    """Rows reversed and padded with zeros, (H, W + count): entry W - 1 - u + d is that of column u - d."""
    behind = np.zeros((len(steps), count), np.float32)
    return np.ascontiguousarray(np.concatenate([steps[:, ::-1], behind], axis=1))
