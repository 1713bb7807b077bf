"""The observations of one frame: registered maps, or posed views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn, Protocol

import numpy as np

from cfusion.arrays import DepthMap, Image, MaskStack
from cfusion.errors import InputError
from cfusion.geometry import Camera, Pose, Stack, View
from cfusion.kernels.contract import Backend, Floats
from cfusion.source.motions import Motions
from cfusion.source.reading import Reading, read_at
from cfusion.source.splat import Splat, reference_index
from cfusion.source.upload import UploadedViews, in_view_order, parts_of, upload


@dataclass(frozen=True, eq=False)
class Frame:
    """The frame that is fused into: a raster, and its camera if there is one."""

    shape: tuple[int, int]
    camera: Camera | None = None
    world_from_camera: Pose | None = None
    image: Image | None = None


class Source(Protocol):
    """The observations of one frame."""

    @property
    def frame(self) -> Frame:
        """The frame that is fused into."""

    @property
    def n_views(self) -> int:
        """K, the number of views."""

    @property
    def names(self) -> list[str]:
        """The names of the views."""

    @property
    def reference(self) -> int:
        """The index of the frame's view."""

    @property
    def maps(self) -> Sequence[DepthMap]:
        """The map (H, W) of each view; scaled, if the views are."""

    @property
    def rereads(self) -> bool:
        """Whether views can be read at a surface."""

    @property
    def motions(self) -> Motions | None:
        """The corrections of the views' poses; None if there are none."""

    @property
    def weighed(self) -> bool:
        """Whether observations have a confidence."""

    def first(self, splat: Splat, backend: Backend) -> Stack:
        """The splat of all views, or the registered maps, in the backend's memory."""

    def at(self, surface: DepthMap, agreements: Sequence[float], backend: Backend) -> Reading:
        """The measurements of each view at this surface (see `read_at`)."""

    def parallax(self, surface: DepthMap, backend: Backend) -> Floats:
        """Displacement (K, H, W), in pixels, of a point of this surface in each view, per unit of its depth."""

    def hidden(self, surface: DepthMap, tolerance: Floats, backend: Backend) -> MaskStack:
        """Mask (K, H, W) of points that this surface itself hides from each view, by more than the tolerance (H, W)."""

    def places(self) -> tuple[Floats, Floats, Floats]:
        """The reference's camera (10,), the views' (K, 10), and view_from_reference (K, 3, 4)."""

    def part(self, indices: Sequence[int]) -> Source:
        """The source of some of the views, including the reference."""

    def moved(self, motions: Motions) -> Source:
        """The source with each view scaled, and moved by its motion in the reference's frame."""

    def as_given(self, k: int, factor: float, backend: Backend) -> Source:
        """The source of the reference and view k at its original pose, with depths times a factor."""


@dataclass(frozen=True, eq=False)
class Registered:
    """Registered depth maps of one frame."""

    stack: Stack
    rereads: bool = field(default=False, init=False)
    motions: Motions | None = field(default=None, init=False)

    @property
    def frame(self) -> Frame:
        return Frame(self.stack.shape, self.stack.camera, None, self.stack.image)

    @property
    def n_views(self) -> int:
        return self.stack.views

    @property
    def names(self) -> list[str]:
        return [f"map {k}" for k in range(self.stack.views)]

    @property
    def reference(self) -> int:
        return self.stack.views // 2

    @property
    def maps(self) -> Sequence[DepthMap]:
        return list(self.stack.depths)

    @property
    def weighed(self) -> bool:
        return self.stack.weights is not None

    def first(self, splat: Splat, backend: Backend) -> Stack:
        stack = self.stack.in_memory_of(backend)
        if stack.weights is None or not bool((stack.weights == 0).any()):
            return stack
        return Stack.unchecked(
            np.where(stack.weights > 0, stack.depths, np.float32(np.nan)),
            stack.weights,
            stack.camera,
            stack.image,
            stack.filled,
        )

    def _needs_poses(self, *given: Any, **named: Any) -> NoReturn:
        raise InputError("registered depth maps cannot be read at another surface; give views with poses")

    at = parallax = hidden = places = part = moved = as_given = _needs_poses


@dataclass(frozen=True, eq=False)
class Posed:
    """Views with poses, fused into one of them."""

    views: Sequence[View]
    reference: int
    uploads: Sequence[UploadedViews] | None = None  # the same views in a device's memory; None on the host
    motions: Motions | None = None  # by which the views were moved
    rereads: bool = field(default=True, init=False)

    @staticmethod
    def of(views: Sequence[View], reference: int | None, backend: Backend) -> Posed:
        """Views in the backend's memory; the reference is the middle one by default."""
        index = reference_index(views, reference)
        return Posed(views, index, None if backend.arrays is np else upload(views, backend))

    @property
    def frame(self) -> Frame:
        view = self.views[self.reference]
        return Frame(view.shape, view.camera, view.pose, view.image)

    @property
    def n_views(self) -> int:
        return len(self.views)

    @property
    def names(self) -> list[str]:
        return [view.name or f"view {k}" for k, view in enumerate(self.views)]

    @property
    def maps(self) -> Sequence[DepthMap]:
        return [view.depth for view in self.views]

    @property
    def weighed(self) -> bool:
        return any(view.confidence is not None for view in self.views)

    def first(self, splat: Splat, backend: Backend) -> Stack:
        return splat(self.views, self.reference, backend=backend, uploads=self.uploads)

    def at(self, surface: DepthMap, agreements: Sequence[float], backend: Backend) -> Reading:
        motions = None if self.uploads is None else self._places[2]
        return read_at(surface, self.views, self.views[self.reference], agreements, backend, self.uploads, motions)

    def parallax(self, surface: DepthMap, backend: Backend) -> Floats:
        return backend.parallax(surface, *self.places())

    def hidden(self, surface: DepthMap, tolerance: Floats, backend: Backend) -> MaskStack:
        return backend.hidden(surface, *self.places(), [view.shape for view in self.views], tolerance)

    def places(self) -> tuple[Floats, Floats, Floats]:
        return self._places

    @cached_property
    def _places(self) -> tuple[Floats, Floats, Floats]:
        reference = self.views[self.reference]
        cameras = np.stack([view.camera.numbers for view in self.views])
        if self.uploads is not None:  # all at once
            parts = [each.view_from_reference(reference.pose) for each in self.uploads]
            return reference.camera.numbers, cameras, in_view_order(self.uploads, parts)
        motions = [(view.pose.inverse() @ reference.pose).matrix()[:3] for view in self.views]
        return reference.camera.numbers, cameras, np.stack(motions)

    def part(self, indices: Sequence[int]) -> Posed:
        chosen = list(indices)
        uploads = None if self.uploads is None else parts_of(self.uploads, chosen)
        part = Posed([self.views[k] for k in chosen], chosen.index(self.reference), uploads)
        camera, cameras, motions = self._places
        vars(part)["_places"] = camera, cameras[chosen], motions[chosen]  # the poses are unchanged
        return part

    def moved(self, motions: Motions) -> Posed:
        world_from_reference = self.views[self.reference].pose
        reference_from_world = world_from_reference.inverse()
        poses = [
            world_from_reference @ motion @ reference_from_world @ view.pose
            for motion, view in zip(motions.poses, self.views, strict=True)
        ]
        views = [
            replace(view, pose=pose, depth=view.depth if factor == 1 else view.depth * np.float32(factor))
            for view, pose, factor in zip(self.views, poses, motions.factors, strict=True)
        ]
        uploads = self.uploads and [each.moved(poses, motions.factors) for each in self.uploads]
        return Posed(views, self.reference, uploads, motions)

    def as_given(self, k: int, factor: float, backend: Backend) -> Posed:
        reference, view = self.views[self.reference], self.views[k]
        if self.motions is not None:
            back, factor = self.motions.poses[k].inverse(), factor / self.motions.factors[k]
            view = replace(view, pose=reference.pose @ back @ reference.pose.inverse() @ view.pose)
        return Posed.of([reference, replace(view, depth=view.depth * np.float32(factor))], 0, backend)
