"""Splatting: every depth map is projected onto the reference, and small holes are closed."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cfusion.arrays import MOST_RADIUS, Coordinates, DepthMap, Mask, Matrix, WeightMap, is_whole
from cfusion.errors import InputError
from cfusion.geometry import Stack, View
from cfusion.kernels.one_pass import one_pass
from cfusion.source.reading import measured
from cfusion.source.upload import UploadedViews, in_view_order

PIXELS_IN_FLIGHT = 1 << 22  # views are splatted in parallel while their points take a few hundred MB


class Rasteriser(Protocol):
    """The functions of a backend that splatting uses."""

    def reproject(
        self, depth: DepthMap, camera: Coordinates, onto: Coordinates, onto_from_view: Matrix, /
    ) -> tuple[Coordinates, Coordinates, Coordinates]:
        """u, v and z of the points of a depth map in another camera."""

    def splat_nearest(
        self,
        u: Coordinates,
        v: Coordinates,
        z: Coordinates,
        values: WeightMap | None,
        shape: tuple[int, int],
        /,
    ) -> tuple[DepthMap, WeightMap | None]:
        """Forward z-buffer of points (N,): depth and carried values (H, W), NaN if no point landed."""

    def close_mask(self, mask: Mask, radius: int, /) -> Mask:
        """Morphological closing with a disc."""

    def fill_natural(self, depth: DepthMap, region: Mask, /) -> DepthMap:
        """Natural-neighbour interpolation at the unknown pixels of the region."""


@dataclass(frozen=True)
class Splat:
    """A stack from views by a forward z-buffer to the nearest pixel: the smallest depth wins (as in the paper).

    Holes that a morphological closing with a disc of `radius` pixels closes are then filled by natural-neighbour
    interpolation; larger ones stay. Confidence is carried with the points. A point of zero confidence is no
    observation, and hides nothing.
    """

    fill: bool = True
    radius: int = 5  # pixels of the reference

    def __post_init__(self) -> None:
        if not is_whole(self.radius, 0, MOST_RADIUS):
            raise InputError(f"the fill radius is {self.radius}; give a whole number of pixels, 0 to {MOST_RADIUS}")

    def __call__(
        self,
        views: Sequence[View],
        onto: int | None = None,
        *,
        backend: Rasteriser,
        uploads: Sequence[UploadedViews] | None = None,
    ) -> Stack:
        """The stack (K, H, W) of all views, in order, as seen by view `onto` (default: the middle one).

        It is in the backend's memory if the views' `uploads` are.
        """
        reference = views[reference_index(views, onto)]
        if uploads is not None:
            return self._of_uploads(uploads, reference, backend)
        reference_from_world = reference.pose.inverse()
        weighed = any(view.confidence is not None for view in views)

        def splat(view: View) -> tuple[DepthMap, WeightMap | None, Mask | None]:
            confidence = _confidence(view) if weighed else None
            depth = view.depth if confidence is None else measured(view.depth, confidence)
            reference_from_view = (reference_from_world @ view.pose).matrix()[:3]
            u, v, z = backend.reproject(depth, view.camera.numbers, reference.camera.numbers, reference_from_view)
            return self._onto(reference.shape, u, v, z, confidence, backend)

        pixels = max(view.depth.size for view in views)
        workers = max(1, min(len(views), os.cpu_count() or 1, PIXELS_IN_FLIGHT // pixels))
        with ThreadPoolExecutor(workers) as pool:  # maps are independent: so are results of the number of threads
            splatted = list(pool.map(splat, views))
        depths, weights, filled = zip(*splatted, strict=True)
        return Stack(
            np.stack(depths),
            weights=np.stack(weights) if weighed else None,
            camera=reference.camera,
            image=reference.image,
            filled=np.stack(filled) if self.fill else None,
        )

    def _of_uploads(self, uploads: Sequence[UploadedViews], reference: View, backend: Rasteriser) -> Stack:
        """The stack in the memory of the uploads."""
        splatted = []
        for each in uploads:
            motions = each.reference_from_view(reference.pose)
            u, v, z = backend.reproject(each.depths, each.cameras, reference.camera.numbers, motions)
            splatted.append(self._onto(reference.shape, u, v, z, each.confidences, backend))
        depth, weight, filled = (
            None if parts[0] is None else in_view_order(uploads, parts) for parts in zip(*splatted, strict=True)
        )
        assert depth is not None
        return Stack.unchecked(depth, weight, reference.camera, reference.image, filled)

    def _onto(
        self,
        shape: tuple[int, int],
        u: Coordinates,
        v: Coordinates,
        z: Coordinates,
        confidence: WeightMap | None,
        backend: Rasteriser,
    ) -> tuple[DepthMap, WeightMap | None, Mask | None]:
        """Depth, weight (if any view has one) and filled mask (if requested) of views' points in the reference."""
        values = None if confidence is None else confidence.reshape(z.shape)
        landed, weight = backend.splat_nearest(u, v, z, values, shape)
        if not self.fill:
            return landed, _zero_where_unknown(weight), None
        measured = _known(landed)
        region = backend.close_mask(measured, self.radius)
        complete = backend.fill_natural(landed, region)
        if weight is not None:
            weight = backend.fill_natural(weight, region)
        return complete, _zero_where_unknown(weight), _filled(measured, complete)


def reference_index(views: Sequence[View], onto: int | None) -> int:
    """The index of the view to fuse into: `onto`, or the middle one."""
    if len(views) == 0:
        raise InputError("there are no views; give at least one")
    if onto is None:
        return len(views) // 2
    if not is_whole(onto, 0, len(views) - 1):
        raise InputError(f"reference {onto} is not one of the {len(views)} views; choose 0 to {len(views) - 1}")
    return onto


@one_pass
def _known(depth: DepthMap) -> Mask:
    return ~np.isnan(depth)


@one_pass
def _filled(measured: Mask, complete: DepthMap) -> Mask:
    """Where something is known that was not measured."""
    return ~measured & ~np.isnan(complete)


def _confidence(view: View) -> WeightMap:
    """The view's own confidence; ones for a view without, if others have one."""
    return np.ones(view.shape, np.float32) if view.confidence is None else view.confidence


def _zero_where_unknown(weight: WeightMap | None) -> WeightMap | None:
    """Zero where unknown, or where interpolation between zeros rounds to less."""
    return None if weight is None else np.fmax(weight, 0.0)
