"""A truncated signed distance function (Open3D) as a peer: views integrated, the mesh extracted, rays cast at it.

Two traps are stepped around: `integrate` truncates pixel coordinates (Open3D's issue 7580), so half a pixel is added
to the principal point; and its own ray casting is biased, so rays are cast at the extracted mesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cfusion import Pinhole, View
from cfusion.arrays import DepthMap

BLOCK, BLOCKS = 16, 8_000  # it grows where that does not do


@dataclass(frozen=True)
class Setting:
    """Open3D's defaults: 3 m / 512 voxels, truncation after 8 of them, kept where at least 3 views weighed in."""

    voxel: float = 3.0 / 512  # in the unit of depth
    truncation: float = 8.0  # voxels
    weight: float = 3.0

    @property
    def name(self) -> str:
        return f"TSDF {1000 * self.voxel:.3g}e-3/{self.truncation:g}/{self.weight:g}"


def grid(unit: float = 1.0) -> list[Setting]:
    """What hindsight may choose from; `unit` is what counts as a metre."""
    usual = unit * Setting().voxel
    return [
        *(Setting(usual, truncation, weight) for truncation in (8.0, 4.0) for weight in (1.0, 3.0, 5.0)),
        Setting(0.64 * usual, 8.0, 3.0),
    ]


def fused(views: Sequence[View], reference: int, settings: Sequence[Setting]) -> Iterator[tuple[Setting, DepthMap]]:
    """The depth that the reference sees of each setting's mesh; views are integrated once per voxel and truncation."""
    for voxel, truncation in dict.fromkeys((each.voxel, each.truncation) for each in settings):
        volume = integrated(views, voxel, truncation)
        for each in settings:
            if (each.voxel, each.truncation) == (voxel, truncation):
                yield each, _seen(volume.extract_triangle_mesh(weight_threshold=each.weight), views[reference])


def integrated(views: Sequence[View], voxel: float, truncation: float):  # type: ignore[no-untyped-def]
    import open3d as o3d
    from open3d import core

    volume = o3d.t.geometry.VoxelBlockGrid(
        ("tsdf", "weight"), (core.float32, core.float32), ((1), (1)), voxel, BLOCK, BLOCKS
    )
    for view in views:
        if not np.isfinite(view.depth).any():
            continue
        camera = view.camera
        assert isinstance(camera, Pinhole)
        depth = o3d.t.geometry.Image(np.nan_to_num(view.depth))
        matrix = np.array([[camera.fx, 0, camera.cx + 0.5], [0, camera.fy, camera.cy + 0.5], [0, 0, 1]])
        intrinsic, extrinsic = core.Tensor(matrix), core.Tensor(view.pose.inverse().matrix())
        farthest = float(np.nanmax(view.depth)) * 1.01
        blocks = volume.compute_unique_block_coordinates(depth, intrinsic, extrinsic, 1.0, farthest, truncation)
        volume.integrate(blocks, depth, intrinsic, extrinsic, 1.0, farthest, truncation)
    return volume


def ray_cast(volume, view: View, setting: Setting) -> DepthMap:  # type: ignore[no-untyped-def]
    """What Open3D's own ray casting sees: for its speed, as it is biased."""
    from open3d import core

    camera = view.camera
    assert isinstance(camera, Pinhole)
    matrix = np.array([[camera.fx, 0, camera.cx + 0.5], [0, camera.fy, camera.cy + 0.5], [0, 0, 1]])
    placed = core.Tensor(matrix), core.Tensor(view.pose.inverse().matrix())
    blocks = volume.hashmap().key_tensor()[volume.hashmap().active_buf_indices().to(core.int64)]
    farthest = float(np.nanmax(view.depth)) * 1.01
    ranges = (1.0, 0.1, farthest, setting.weight, setting.truncation)  # unit, nearest, farthest, weight, truncation
    seen = volume.ray_cast(blocks, *placed, view.shape[1], view.shape[0], ["depth"], *ranges, 8)
    depth: DepthMap = seen["depth"].numpy()[..., 0]
    return np.where(depth > 0, depth, np.nan)


def _seen(mesh, view: View) -> DepthMap:  # type: ignore[no-untyped-def]
    """Depth along the axis of what each pixel's ray meets first; NaN where nothing."""
    import open3d as o3d
    from open3d import core

    if len(mesh.vertex.positions) == 0 or len(mesh.triangle.indices) == 0:
        return np.full(view.shape, np.nan, np.float32)
    scene = o3d.t.geometry.RaycastingScene()
    scene.add_triangles(mesh)
    camera = view.camera
    assert isinstance(camera, Pinhole)
    rows, columns = np.mgrid[: view.shape[0], : view.shape[1]]
    along = np.stack([(columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy, np.ones(view.shape)], axis=-1)
    start = np.broadcast_to(view.pose.translation, along.shape)
    rays = np.concatenate([start, view.pose.turn(along)], axis=-1).astype(np.float32)
    hit = scene.cast_rays(core.Tensor(rays))["t_hit"].numpy()
    return np.where(np.isfinite(hit), hit, np.nan).astype(np.float32)
