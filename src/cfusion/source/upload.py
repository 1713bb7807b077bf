"""The maps of views in a backend's memory: one array per shape, so that all are processed at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cfusion.geometry import Pose, View
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.one_pass import some_views, times


@dataclass(frozen=True, eq=False)
class UploadedViews:
    """Views of one shape, independent of the reference, so that every view of a scene can be fused from one upload."""

    indices: list[int]  # of the views in their list
    depths: Floats  # (n, H, W), NaN where unknown
    confidences: Floats | None  # (n, H, W), ones for views without, if others have one
    cameras: Floats  # (n, 10)
    poses: list[Pose]  # world_from_camera

    def reference_from_view(self, world_from_reference: Pose) -> Floats:
        """Motions (n, 3, 4)."""
        reference_from_world = world_from_reference.rotation.T
        offsets = (self._translations - world_from_reference.translation) @ world_from_reference.rotation
        return _motions(reference_from_world @ self._rotations, offsets)

    def view_from_reference(self, world_from_reference: Pose) -> Floats:
        """Motions (n, 3, 4)."""
        view_from_world = self._rotations.transpose(0, 2, 1)
        offsets = world_from_reference.translation - self._translations
        return _motions(
            view_from_world @ world_from_reference.rotation, np.einsum("kij,kj->ki", view_from_world, offsets)
        )

    def moved(self, poses: Sequence[Pose], factors: Sequence[float]) -> UploadedViews:
        """The views with other poses, and depths times factors, both of all views of the list."""
        grown = np.array([factors[k] for k in self.indices], np.float32)[:, None, None]
        depths = self.depths if (grown == 1).all() else times(self.depths, grown)
        return replace(self, poses=[poses[k] for k in self.indices], depths=depths)

    @cached_property
    def _rotations(self) -> Floats:
        """Rotations (n, 3, 3)."""
        return np.stack([pose.rotation for pose in self.poses])

    @cached_property
    def _translations(self) -> Floats:
        """Translations (n, 3)."""
        return np.stack([pose.translation for pose in self.poses])


def _motions(rotations: Floats, translations: Floats) -> Floats:
    """Motions (n, 3, 4)."""
    return np.concatenate([rotations, translations[:, :, None]], axis=2)


def upload(views: Sequence[View], backend: Backend) -> list[UploadedViews]:
    """Upload all views, each map once."""
    weighed = any(view.confidence is not None for view in views)
    out = []
    for shape in dict.fromkeys(view.shape for view in views):
        indices = [k for k, view in enumerate(views) if view.shape == shape]
        chosen = [views[k] for k in indices]
        confidences = None
        if weighed:
            one = np.ones(shape, np.float32)
            given = [one if view.confidence is None else view.confidence for view in chosen]
            confidences = backend.to_device(given, np.float32)
        depths = backend.to_device([view.depth for view in chosen], np.float32)
        if confidences is not None:  # a point of zero confidence is no observation
            depths = np.where(confidences > 0, depths, np.float32(np.nan))
        cameras = np.stack([view.camera.numbers for view in chosen])
        out.append(UploadedViews(indices, depths, confidences, cameras, [view.pose for view in chosen]))
    return out


def parts_of(uploads: Sequence[UploadedViews], chosen: Sequence[int]) -> list[UploadedViews]:
    """Some of the views, numbered in the order of `chosen`, without a transfer."""
    out = []
    for each in uploads:
        indices = [place for place, k in enumerate(chosen) if k in each.indices]  # a view may be chosen twice
        inside = [each.indices.index(chosen[place]) for place in indices]
        if inside:
            depths, confidences = _some(each.depths, inside), _some(each.confidences, inside)
            poses = [each.poses[place] for place in inside]
            out.append(UploadedViews(indices, depths, confidences, each.cameras[inside], poses))
    return out


def _some(stack: Any, places: Sequence[int]) -> Any:
    """Some maps of a stack: a view of consecutive ones, else a copy."""
    if stack is None:
        return None
    first, last = places[0], places[-1]
    return stack[first : last + 1] if list(places) == list(range(first, last + 1)) else some_views(stack, places)


def in_view_order(uploads: Sequence[UploadedViews], parts: Sequence[Any]) -> Any:
    """The arrays (K, ...) of all uploads in the order of the views."""
    if len(parts) == 1:
        return parts[0]
    indices = [index for each in uploads for index in each.indices]
    return np.concatenate(parts)[np.argsort(indices).tolist()]
