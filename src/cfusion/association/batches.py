"""The maps of views in a backend's memory: one array per shape, so that all of them are worked on at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cfusion.geometry import Pose, View
from cfusion.kernels.contract import Backend, Floats


@dataclass(frozen=True, eq=False)
class Batch:
    """Views of one shape."""

    places: list[int]  # of the views in their list
    depths: Floats  # (n, H, W), NaN where unknown
    confidences: Floats | None  # (n, H, W), one for views that have none beside others that do
    cameras: Floats  # (n, 5)
    poses: list[Pose]
    reference: Pose

    @cached_property
    def reference_from_view(self) -> Floats:
        """(n, 3, 4)."""
        reference_from_world = self.reference.inverse()
        return np.stack([(reference_from_world @ pose).matrix()[:3] for pose in self.poses])

    @cached_property
    def view_from_reference(self) -> Floats:
        """(n, 3, 4)."""
        return np.stack([(pose.inverse() @ self.reference).matrix()[:3] for pose in self.poses])


def upload(views: Sequence[View], onto: int, backend: Backend) -> list[Batch]:
    """All views, each map crossing the bus once."""
    weighed = any(view.confidence is not None for view in views)
    out = []
    for shape in dict.fromkeys(view.shape for view in views):
        places = [k for k, view in enumerate(views) if view.shape == shape]
        chosen = [views[k] for k in places]
        confidences = None
        if weighed:
            one = np.ones(shape, np.float32)
            confidences = backend.stacked([one if view.confidence is None else view.confidence for view in chosen])
        depths = backend.stacked([view.depth for view in chosen])
        cameras = np.stack([view.camera.numbers for view in chosen])
        out.append(Batch(places, depths, confidences, cameras, [view.pose for view in chosen], views[onto].pose))
    return out


def in_order(batches: Sequence[Batch], parts: Sequence[Any]) -> Any:
    """(K, ..) the arrays of all batches, of as many views each, in the order of the views."""
    if len(parts) == 1:
        return parts[0]
    places = [place for batch in batches for place in batch.places]
    return np.concatenate(parts)[np.argsort(places).tolist()]
