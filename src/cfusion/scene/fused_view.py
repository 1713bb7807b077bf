"""The fused maps of a view as written by a worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from cfusion.arrays import DepthMap, Normals
from cfusion.geometry import Camera, Pose
from cfusion.io.cameras import camera_from_json
from cfusion.io.codecs.npy import read_npy
from cfusion.io.json_object import JsonObject
from cfusion.scene.record import FILE, folder_of, require_record
from cfusion.scene.slopes import mean_of_planes, one_sided_normals

KEPT = 24  # views whose maps are cached


@dataclass(frozen=True, eq=False)
class FusedView:
    """Depth and standard deviation of a fused view, with its camera and pose."""

    depth: DepthMap  # (H, W), NaN where unknown
    sigma: DepthMap  # (H, W), NaN where nothing was observed
    camera: Camera
    pose: Pose  # world_from_camera
    name: str = ""

    @cached_property
    def normals(self) -> Normals:
        """Unit normals (H, W, 3) in the camera's frame, facing the camera; NaN where undefined."""
        return one_sided_normals(self.depth, self.camera)

    @cached_property
    def levelled(self) -> FusedView:
        """The view with the mean of its pixels' planes as depth (`mean_of_planes`), for the cloud."""
        return replace(self, depth=mean_of_planes(self))


def read_fused(root: Path, view: int) -> FusedView:
    """The fused maps of a view, from a small cache if possible."""
    folder = folder_of(root, view)
    return _read(folder, (folder / FILE).stat().st_mtime_ns if (folder / FILE).is_file() else 0)


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
