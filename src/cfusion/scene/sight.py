"""Which blocks of a volume a view can observe, and the pixels at which it sees points."""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.geometry import Pinhole
from cfusion.scene.fused_view import FusedView
from cfusion.scene.slopes import Floats, Indices

SIDE = 8  # voxels along a block
TILE = 16  # pixels along a tile of the map of largest depths


def visible_blocks(
    blocks: NDArray[np.int64], voxel: float, view: FusedView, usable: NDArray[np.bool_], behind: float
) -> NDArray[np.int64]:
    """Blocks (m, 3) inside the image, except those further than `behind` behind every depth around their projection."""
    across = voxel * SIDE
    radius = 0.5 * np.sqrt(3.0) * across
    u, v, z = view.camera.project(view.pose.inverse().apply((blocks + 0.5) * across - 0.5 * voxel))
    height, width = view.depth.shape
    camera = view.camera
    if isinstance(camera, Pinhole):
        near = z < radius  # contains the camera or crosses its plane: the centre's projection is meaningless
        size = max(camera.fx, camera.fy) * radius / np.maximum(z - radius, np.finfo(np.float64).tiny)
    else:
        near, size = np.zeros(z.shape, bool), np.full(z.shape, radius / camera.pixel_size)
    with np.errstate(invalid="ignore"):
        inside = (u > -size - 1) & (v > -size - 1) & (u < width + size) & (v < height + size)
    farthest = _farthest(view, usable)
    row, column = (
        np.clip(np.nan_to_num(at) // TILE, 0, most - 1).astype(np.int64)
        for at, most in zip((v, u), farthest.shape, strict=True)
    )
    hidden = (size < TILE) & (z - radius - behind > farthest[row, column])
    return np.asarray(blocks[(inside & ~hidden) | (near & (z > -radius))])


def landing(view: FusedView, points: Points) -> tuple[Indices, Indices, Indices, tuple[Floats, Floats, Floats]]:
    """The points (n,) that lie in a view's image, the row and column of each, and u, v and depth of all points."""
    u, v, z = view.camera.project(view.pose.inverse().apply(points))
    height, width = view.depth.shape
    with np.errstate(invalid="ignore"):
        at = np.flatnonzero((u >= -0.5) & (v >= -0.5) & (u < width - 0.5) & (v < height - 0.5))
    return at, np.rint(v[at]).astype(np.int64), np.rint(u[at]).astype(np.int64), (u, v, z)


def _farthest(view: FusedView, usable: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The largest depth of each tile and its eight neighbours; -inf if there is none."""
    height, width = view.depth.shape
    down, across = -(-height // TILE), -(-width // TILE)
    padded = np.full((down * TILE, across * TILE), -np.inf)
    padded[:height, :width] = np.where(usable, view.depth, -np.inf)
    tiles = np.pad(padded.reshape(down, TILE, across, TILE).max(axis=(1, 3)), 1, constant_values=-np.inf)
    around = [tiles[i : i + down, j : j + across] for i in range(3) for j in range(3)]
    return np.asarray(np.max(around, axis=0))
