"""A cache of matched and localised stereo bundles: matching takes seconds per pair."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cfusion.experiments.code_version import MATCHING, code_version
from cfusion.experiments.whole_files import read_arrays, write_arrays
from cfusion.geometry import Pinhole, Pose, View
from cfusion.io.to_json import digest

if TYPE_CHECKING:
    from cfusion.experiments.conditions import KittiBundle


@dataclass(frozen=True)
class Matches:
    """The folder of matched bundles."""

    folder: Path

    def load(self, bundle: KittiBundle) -> tuple[list[View], int]:
        """The views of a bundle and the index of the reference; matched now if not cached."""
        self.make(bundle)
        kept = read_arrays(self._file(bundle))
        fx, fy, cx, cy, width, height = kept["camera"].tolist()
        camera = Pinhole(fx, fy, cx, cy, int(width), int(height))
        reference = int(kept["reference"])
        views = [
            View(depth, camera, Pose.from_matrix(pose), kept["image"] if k == reference else None, confidence)
            for k, (depth, confidence, pose) in enumerate(
                zip(kept["depths"], kept["confidences"], kept["poses"], strict=True)
            )
        ]
        return views, reference

    def make(self, bundle: KittiBundle) -> None:
        """Match and localise bundles that are not cached."""
        from cfusion.frontends.kitti import kitti_bundle_views

        if self._file(bundle).is_file():
            return
        matching = bundle.matching if bundle.matched else Path(bundle.matching)
        views = kitti_bundle_views(bundle.place, bundle.number, matching, bundle.localisation)
        reference = len(views) // 2 if views.reference is None else views.reference
        camera, image = views[reference].camera, views[reference].image
        assert isinstance(camera, Pinhole)
        assert image is not None
        arrays = {
            "depths": np.stack([view.depth for view in views]),
            "confidences": np.stack(
                [np.ones(view.shape) if view.confidence is None else view.confidence for view in views]
            ),
            "poses": np.stack([view.pose.matrix() for view in views]),
            "image": image,
            "camera": np.array(list(asdict(camera).values())),
            "reference": np.array(reference),
        }
        write_arrays(self._file(bundle), arrays)

    def _file(self, bundle: KittiBundle) -> Path:
        key = digest([bundle, bundle.checksum(), code_version(MATCHING)], 24)
        return self.folder / f"{bundle.scene}-{key}.npz"
