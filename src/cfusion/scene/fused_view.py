"""The fused maps of a view as written by a worker, and as cloud and mesh use them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from cfusion.arrays import DepthMap, Normals
from cfusion.errors import CFusionError
from cfusion.geometry import Camera, Pose
from cfusion.geometry.camera import pixel_size
from cfusion.io.cameras import camera_from_json
from cfusion.io.codecs.npy import read_npy
from cfusion.io.json_object import JsonObject
from cfusion.scene.job import Job, open_job
from cfusion.scene.record import FILE, folder_of, require_record
from cfusion.scene.residual import towards_measured
from cfusion.scene.slopes import mean_of_planes, one_sided_normals

KEPT = 24  # views whose maps are cached
NOISY = 0.5  # median sigma, in pixels, above which a map counts as noisy


@dataclass(frozen=True, eq=False)
class FusedView:
    """Depth and standard deviation of a fused view, with its camera and pose."""

    depth: DepthMap  # (H, W), NaN where unknown
    sigma: DepthMap  # (H, W), NaN where nothing was observed
    camera: Camera
    pose: Pose  # world_from_camera
    name: str = ""
    measured: DepthMap | None = None  # (H, W), the view's own map before fusion, if at hand
    smooth: DepthMap | None = None  # (H, W), the map that normals are taken from; None: depth

    @cached_property
    def normals(self) -> Normals:
        """Unit normals (H, W, 3) in the camera's frame, facing the camera; NaN where undefined."""
        return one_sided_normals(self.depth if self.smooth is None else self.smooth, self.camera)

    @cached_property
    def levelled(self) -> FusedView:
        """The view as it is merged: depth is the mean of its pixels' planes, moved towards the measured map.

        A noisy map is not moved: what it measured is mostly noise.
        """
        planes = mean_of_planes(self)
        if self.measured is None or self.is_noisy:
            return replace(self, depth=planes)
        return replace(self, depth=towards_measured(planes, self.measured), smooth=planes)

    @property
    def is_noisy(self) -> bool:
        """Whether the median sigma exceeds half a pixel: slopes are then noise."""
        known = np.isfinite(self.depth) & np.isfinite(self.sigma)
        pixels = pixel_size(self.camera, self.depth[known])
        return bool(known.any() and np.median(self.sigma[known]) > NOISY * np.median(pixels))


def read_fused(root: Path, view: int) -> FusedView:
    """The fused maps of a view, from a small cache if possible."""
    folder = folder_of(root, view)
    return _read(folder, _changed(folder))


def read_to_merge(job: Job, view: int) -> FusedView:
    """The same with the view's own map, from a small cache if possible."""
    return _read_to_merge(job, view, _changed(folder_of(job.folder, view)))


def _changed(folder: Path) -> int:
    return (folder / FILE).stat().st_mtime_ns if (folder / FILE).is_file() else 0


@lru_cache(KEPT)
def _read_to_merge(job: Job, view: int, changed: int) -> FusedView:
    try:
        measured = open_job(job).views[view].depth
    except CFusionError:  # gone or damaged since it was fused
        measured = None
    return replace(read_fused(job.folder, view), measured=measured)


@lru_cache(KEPT)
def _read(folder: Path, changed: int) -> FusedView:
    record = require_record(folder)
    entry = JsonObject.of_file(folder / FILE)
    return FusedView(
        depth=np.asarray(read_npy(folder / "depth.npy"), np.float32),
        sigma=np.asarray(read_npy(folder / "sigma.npy"), np.float32),
        camera=camera_from_json(entry.object("camera")),
        pose=Pose.from_matrix(entry.matrix("pose")),
        name=record.name,
    )
