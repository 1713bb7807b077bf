"""ELAS, efficient large-scale stereo, implemented from the paper (Geiger, Roser and Urtasun, ACCV 2010).

A few pixels, the support points, can be matched reliably on their own. Their Delaunay triangles predict the disparity
of every other pixel: p(d) ~ gamma + exp(-(d - mu)^2 / (2 sigma^2)) around the triangle's plane mu, and the disparities
of support points nearby. With p(f | d) ~ exp(-beta |f - f'(d)|_1) the energy is

    E(d) = beta |f - f'(d)|_1 - log(gamma + exp(-(d - mu)^2 / (2 sigma^2))).

Outside the triangles nothing predicts a disparity, and every one is searched. (The paper adds the corners of the image
with the disparity of the nearest support point. Beyond the last support points of a dark road, both maps of a pair then
follow the same extrapolation, and the left-right check confirms it.)
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import optional_module
from cfusion.frontends.opencv import opencv

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
STRAY_CELLS, STRAY_STEP, STRAY_FRIENDS = 5, 5, 5  # grid cells, pixels, number: see `without_strays`
BETA = 0.0015  # per unit of difference between two descriptors, which are clipped at +-127
SIGMA = 1.0  # pixels of disparity
GAMMA = 3.0
UNIQUENESS = 0.9  # tau: largest ratio of the best over the second best support match
GRID = 5  # pixels between candidates for support points
LEAST_TEXTURE = 200  # sum of |Sobel response| over the descriptor
CELL = 20  # pixels: disparities of support points in and beside a pixel's cell are candidates


class Maps(NamedTuple):
    """The maps of a pair before the consistency check, (H, W) each."""

    left: Floats  # pixels of disparity, NaN = unknown
    right: Floats
    away: Floats  # pixels from the nearest support point of the left image


def elas_maps(left: Bytes, right: Bytes, disparities: int) -> Maps:
    """Disparities of the left and of the right image, and where they are supported."""
    kernels = _kernels()
    ours, texture = kernels.descriptors(*_sobel(left))
    theirs, other_texture = kernels.descriptors(*_sobel(right))
    grid = kernels.support_points(
        *(ours, theirs, texture, other_texture, GRID, disparities),
        *(LEAST_TEXTURE, UNIQUENESS),
    )
    grid = kernels.without_strays(grid, STRAY_CELLS, STRAY_STEP, STRAY_FRIENDS)
    rows, columns = np.nonzero(grid >= 0)
    if len(rows) < 3:
        nothing = np.full(left.shape, np.nan, np.float32)
        return Maps(nothing, nothing, np.full(left.shape, np.inf, np.float32))
    support = np.column_stack([columns * GRID, rows * GRID, grid[rows, columns]]).astype(np.float32)
    seen_right = np.column_stack([support[:, 0] - support[:, 2], support[:, 1:]])
    return Maps(
        _one_side(kernels, ours, theirs, support, -1, disparities),
        _one_side(kernels, theirs, ours, seen_right, +1, disparities),
        _away(rows * GRID, columns * GRID, left.shape),
    )


def _one_side(kernels: Any, ours: Bytes, theirs: Bytes, support: Floats, sign: int, disparities: int) -> Floats:
    height, width = ours.shape[:2]
    prior = kernels.planes(_delaunay(support, height, width), support, height, width)
    counts, listed = kernels.nearby(support, -(-height // CELL), -(-width // CELL), CELL, disparities)
    offset = np.arange(int(np.ceil(3 * SIGMA)) * kernels.TABLE_STEPS + 1) / kernels.TABLE_STEPS
    penalty = -np.log(GAMMA + np.exp(-(offset**2) / (2 * SIGMA**2)))
    disparity: Floats = kernels.map_disparities(
        *(ours, theirs, prior, counts, listed, CELL, sign),
        *(BETA, penalty.astype(np.float32), -np.log(GAMMA)),
    )
    return disparity


def _away(rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, ...]) -> Floats:
    """The distance (H, W) from the nearest of some pixels, in pixels."""
    cv2 = opencv()
    elsewhere = np.ones(shape, np.uint8)
    elsewhere[rows, columns] = 0
    distance: Floats = cv2.distanceTransform(elsewhere, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return distance


def _sobel(image: Bytes) -> tuple[Bytes, Bytes]:
    """Responses (H, W) along rows and columns as bytes, 128 = zero, clipped."""
    cv2 = opencv()
    along, down = (np.clip(cv2.Sobel(image, cv2.CV_16S, *axis) + 128, 0, 255) for axis in ((1, 0), (0, 1)))
    return along.astype(np.uint8), down.astype(np.uint8)


def _delaunay(points: Floats, height: int, width: int) -> NDArray[np.int32]:
    """Indices (T, 3) of the points of each triangle."""
    cv2 = opencv()
    margin = 256
    division = cv2.Subdiv2D((-margin, -margin, width + 2 * margin, height + 2 * margin))
    index = {(float(u), float(v)): k for k, (u, v, _) in enumerate(points)}
    inside = [(u, v) for u, v in index if u > -margin]
    division.insert(inside)
    corners = division.getTriangleList().reshape(-1, 3, 2)
    named = [[index.get((float(u), float(v)), -1) for u, v in triangle] for triangle in corners]
    whole = np.array(named, np.int32).reshape(-1, 3)
    return whole[(whole >= 0).all(axis=1)]


def _kernels() -> Any:
    missing = "ELAS needs Numba: pip install 'cfusion[cpu]', or match with sgm"
    return optional_module("cfusion.kernels.cpu.elas", missing=missing)
