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
        turns, places = self._turns, self._places
        world_to_reference = self.reference.rotation.T
        return _motions(world_to_reference @ turns, (places - self.reference.translation) @ self.reference.rotation)

    @cached_property
    def view_from_reference(self) -> Floats:
        """(n, 3, 4)."""
        back, away = self._turns.transpose(0, 2, 1), self.reference.translation - self._places
        return _motions(back @ self.reference.rotation, np.einsum("kij,kj->ki", back, away))

    @property
    def _turns(self) -> Floats:
        """(n, 3, 3) the rotations of the views."""
        return np.stack([pose.rotation for pose in self.poses])

    @property
    def _places(self) -> Floats:
        """(n, 3) where the views were taken."""
        return np.stack([pose.translation for pose in self.poses])


def _motions(rotations: Floats, translations: Floats) -> Floats:
    """(n, 3, 4), of all views at once."""
    return np.concatenate([rotations, translations[:, :, None]], axis=2)


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
