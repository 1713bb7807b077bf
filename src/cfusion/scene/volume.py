"""A truncated signed distance volume in sparse blocks, with per-pixel weights.

A voxel at depth z of view k, where its map has depth d and standard deviation sigma, is observed as

    s_k = c (d - z),   w_k = (c / sigma)^2,   c = |n . ray|

c converts a distance along the ray to one along the normal, and gives obliquely seen surfaces, whose errors are
largest, less weight; for noisy maps, whose slopes are noise, c = 1. The volume stores sum w s / sum w, with |s| clipped
to the truncation. Between pixels d is interpolated; at the last pixel of a surface it follows that pixel's plane out to
the pixel's border, because half a pixel is a long way on an obliquely seen surface. Only blocks within the truncation
of some surface exist. Every view updates all of them: where a view sees through another view's surface it contributes s
= truncation. Blocks are created for all views (`reserve`) before the first is integrated, so the result does not depend
on the order of views.

A view whose surface lies more than the truncation before a voxel says nothing about s. Its weight is summed up as
`hidden` if the surface is shortly before: inside an object, a few wrong pixels that see through its surface would be
the only ones to speak, and make a second surface behind the first.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import SMALL, Image, Mask, Points
from cfusion.errors import InputError
from cfusion.kernels.threads import in_parallel, threads
from cfusion.scene.fused_view import FusedView
from cfusion.scene.sight import SIDE, landing, visible_blocks
from cfusion.scene.slopes import Floats, Indices, on_plane

VOXELS = SIDE**3
AT_ONCE = 128  # blocks projected together: what fits a core's cache
SHALLOWEST = 0.2  # c below which a pixel is not used
HIDDEN = 8.0  # truncations behind a noisy map's surface up to which the map counts as looking at a voxel
BEHIND = 2.0  # truncations behind a map's surface up to which the map hides a voxel, for maps that are not noisy
Block = tuple[int, int, int]
Colours = NDArray[np.float32]  # (..., 3)
OFFSETS = np.stack(np.meshgrid(*[np.arange(SIDE, dtype=np.float64)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)


@dataclass(eq=False)
class Volume:
    """Distances, weights and colours of voxels, block by block."""

    voxel: float  # side of a voxel, in the unit of depth
    truncation: float
    unit_sigma: float  # the sigma whose weight is 1
    noisy: bool = False  # sigma exceeds half a pixel: voxels that few of the maps looking there are near are noise
    slots: dict[Block, int] = field(default_factory=dict)
    distance: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, VOXELS), np.float32))
    weight: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, VOXELS), np.float32))
    colour: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, VOXELS, 3), np.float32))
    painted: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, VOXELS), np.float32))  # colours' weights
    near: NDArray[np.uint16] = field(default_factory=lambda: np.zeros((0, VOXELS), np.uint16))  # maps within truncation
    looked: NDArray[np.uint16] = field(default_factory=lambda: np.zeros((0, VOXELS), np.uint16))  # maps that are near,
    # see through the voxel, or have a surface shortly before it
    hidden: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, VOXELS), np.float32))  # weights of maps
    # whose surface is between the truncation and BEHIND times the truncation before the voxel

    def __post_init__(self) -> None:
        if not (self.voxel > 0 and self.truncation >= self.voxel and self.unit_sigma > 0):
            raise InputError(
                f"voxel = {self.voxel}, truncation = {self.truncation}, sigma = {self.unit_sigma}: give positive "
                "values, and a truncation of at least one voxel"
            )

    def reserve(self, view: FusedView) -> None:
        """Create the blocks near a view's surface; to be called for all views before the first `integrate`."""
        usable, _ = _usable(view)
        if usable.any():
            self._slots_of(self._touched(view, usable))

    def integrate(self, view: FusedView, image: Image | None = None) -> None:
        """Add a view's map; its image (H, W) or (H, W, 3) colours the voxels."""
        usable, facing = _usable(view)  # caches the normals, which the threads read
        if not usable.any():
            return
        self._slots_of(self._touched(view, usable))
        behind = HIDDEN if self.noisy else BEHIND
        facing = np.ones_like(facing) if self.noisy else facing
        blocks = visible_blocks(self.blocks, self.voxel, view, usable, behind * self.truncation)
        slots = self._slots_of(blocks)
        colours = _rgb(image, view.depth.shape)
        firsts, count = range(0, len(blocks), AT_ONCE), threads()

        def update(some: range) -> None:
            for first in some:
                part = slice(first, first + AT_ONCE)
                self._update(view, usable, facing, colours, blocks[part], slots[part])

        in_parallel([(update, firsts[number::count]) for number in range(count)])  # each block is in one part

    @property
    def blocks(self) -> Indices:
        """All blocks (n, 3), in order of creation."""
        return np.array(list(self.slots), np.int64).reshape(-1, 3)

    def _touched(self, view: FusedView, usable: Mask) -> Indices:
        """Blocks (n, 3) within the truncation of the map's surface."""
        points = view.camera.back_project(np.where(usable, view.depth, np.nan))
        across = self.voxel * SIDE
        step = _stride(points, 0.5 * across)
        sampled = points[::step, ::step]
        sampled = sampled[np.isfinite(sampled[..., 2])]
        rays = sampled / np.linalg.norm(sampled, axis=-1, keepdims=True)
        reach = np.linspace(-self.truncation, self.truncation, 2 + int(4 * self.truncation / across))
        along = (sampled[:, None] + reach[None, :, None] * rays[:, None]).reshape(-1, 3)
        found = np.floor(view.pose.apply(along) / across).astype(np.int64)
        low = found.min(axis=0)
        span = found.max(axis=0) - low + 1
        keys = np.unique(((found[:, 0] - low[0]) * span[1] + found[:, 1] - low[1]) * span[2] + found[:, 2] - low[2])
        places = np.stack([keys // (span[1] * span[2]), keys // span[2] % span[1], keys % span[2]], axis=-1)
        return np.asarray(places + low)

    def _slots_of(self, blocks: Indices) -> Indices:
        """Slots of the blocks; missing ones are created."""
        out = np.empty(len(blocks), np.int64)
        for place, block in enumerate(map(tuple, blocks.tolist())):
            out[place] = self.slots.setdefault(block, len(self.slots))
        if len(self.slots) > len(self.distance):
            more = max(len(self.slots), 3 * len(self.distance) // 2) - len(self.distance)
            for name in ("distance", "weight", "colour", "painted", "near", "looked", "hidden"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)]))
        return out

    def _update(
        self, view: FusedView, usable: Mask, cosine: Floats, colours: Colours, blocks: Indices, slots: Indices
    ) -> None:
        centres: Points = (blocks[:, None] * SIDE + OFFSETS[None]).reshape(-1, 3) * self.voxel
        at, row, column, (u, v, z) = landing(view, centres)
        seen = usable[row, column]
        at, row, column = at[seen], row[seen], column[seen]
        depth = _between(view, usable, u[at], v[at], row, column, self.truncation)
        distance = cosine[row, column] * (depth - z[at])
        where = slots[at // VOXELS], at % VOXELS
        weight = (self.unit_sigma * cosine[row, column] / view.sigma[row, column].astype(np.float64)) ** 2
        self.looked[where] += distance >= -HIDDEN * self.truncation
        self.hidden[where] += np.where(
            (distance < -self.truncation) & (distance >= -BEHIND * self.truncation), weight, 0
        )
        kept = distance >= -self.truncation
        at, row, column, weight = at[kept], row[kept], column[kept], weight[kept]
        signed = np.minimum(distance[kept], self.truncation)
        where = slots[at // VOXELS], at % VOXELS
        total = self.weight[where] + weight
        self.distance[where] += weight / total * (signed - self.distance[where])
        self.weight[where] = total
        near = signed < self.truncation
        self._paint((where[0][near], where[1][near]), weight[near], colours[row[near], column[near]])

    def _paint(self, where: tuple[Indices, Indices], weight: Floats, colours: Colours) -> None:
        """Add colours of voxels within the truncation: one that the map sees through does not have its colour."""
        self.near[where] += 1
        total = self.painted[where] + weight
        self.colour[where] += (weight / total)[:, None] * (colours - self.colour[where])
        self.painted[where] = total


def _usable(view: FusedView) -> tuple[Mask, Floats]:
    """Usable pixels (H, W), and |n . ray| of all pixels."""
    facing = np.abs(np.einsum("hwx,hwx->hw", view.normals.astype(np.float64), view.camera.rays()))
    with np.errstate(invalid="ignore"):
        known = np.isfinite(view.depth) & np.isfinite(view.sigma) & (view.sigma > 0)
        return known & (facing > SHALLOWEST), facing


def _between(view: FusedView, usable: Mask, u: Floats, v: Floats, row: Indices, column: Indices, step: float) -> Floats:
    """Depth interpolated between four pixels of one surface, else on the plane of the nearest pixel."""
    height, width = view.depth.shape
    left, top = (
        np.clip(np.floor(u).astype(np.int64), 0, width - 2),
        np.clip(np.floor(v).astype(np.int64), 0, height - 2),
    )
    corners = [(top + down, left + across) for down in (0, 1) for across in (0, 1)]
    values = np.stack([view.depth[corner].astype(np.float64) for corner in corners])
    right, below = np.clip(u - left, 0, 1), np.clip(v - top, 0, 1)
    shares = np.stack([(1 - below) * (1 - right), (1 - below) * right, below * (1 - right), below * right])
    with np.errstate(invalid="ignore"):
        one = np.stack([usable[corner] for corner in corners]).all(axis=0) & (np.ptp(values, axis=0) < step)
    return np.where(one, (shares * values).sum(axis=0), on_plane(view, u, v, row, column))


def _stride(points: Points, spacing: float) -> int:
    """Largest sampling stride, in pixels, at which neighbouring samples are nearly everywhere closer than `spacing`."""
    apart = np.linalg.norm(np.diff(points[::4], axis=1), axis=-1)
    known = apart[np.isfinite(apart)]
    usual = float(np.quantile(known, 0.9)) if known.size else spacing
    return max(1, int(spacing / max(usual, SMALL)))


def _rgb(image: Image | None, shape: tuple[int, int]) -> Colours:
    if image is None:
        return np.full((*shape, 3), 0.63, np.float32)
    return np.ascontiguousarray(np.broadcast_to(image[..., None], (*shape, 3)) if image.ndim == 2 else image)
