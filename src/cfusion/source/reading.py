"""Re-association: read the measurements of every view at a surface.

Noise stays where it was measured, nothing is invented, and the splat's bias towards the nearest surface disappears.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap
from cfusion.geometry import View
from cfusion.kernels.contract import Backend
from cfusion.kernels.host import nothing
from cfusion.source.upload import UploadedViews, in_view_order

NONE = nothing(2, np.float32)
NONE.setflags(write=False)  # like the confidence of a view: else the kernel is compiled twice


@dataclass(frozen=True, eq=False)
class Reading:
    """The measurements of the views at a surface, along the rays of the reference."""

    depths: NDArray[Any]  # (K, H, W), NaN if there is none
    weights: NDArray[Any]  # (K, H, W) the views' own confidence (default one), zero if there is no measurement
    seen: NDArray[Any]  # (K, H, W) whether the view sees the point


def read_at(
    surface: DepthMap,
    views: Sequence[View],
    reference: View,
    agreements: Sequence[float],
    backend: Backend,
    uploads: Sequence[UploadedViews] | None,
    motions: NDArray[Any] | None,
) -> Reading:
    """Read every view at the surface; on a device all of a shape at once, given view_from_reference (K, 3, 4).

    Neighbouring pixels of a view that differ by less than its `agreement` are interpolated; 0 reads the nearest.
    """
    camera = reference.camera.numbers
    if uploads is None or motions is None:
        cameras, motions, maps, trusted = zip(*(_given(view, reference) for view in views), strict=True)
        here = np.ascontiguousarray(surface, np.float32)
        return Reading(*backend.read_view(here, camera, cameras, motions, maps, trusted, agreements))
    parts = []
    for each in uploads:
        confidences = NONE if each.confidences is None else each.confidences
        limits = np.array([agreements[k] for k in each.indices])
        here = motions[each.indices]
        parts.append(backend.read_view(surface, camera, each.cameras, here, each.depths, confidences, limits))
    depths, weights, seen = (in_view_order(uploads, part) for part in zip(*parts, strict=True))
    return Reading(depths, weights, seen)


def _given(view: View, reference: View) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The camera of a view, its motion from the reference, its measurements, and their confidence."""
    view_from_reference = np.ascontiguousarray((view.pose.inverse() @ reference.pose).matrix()[:3])
    if view.confidence is None:
        return view.camera.numbers, view_from_reference, view.depth, NONE
    return view.camera.numbers, view_from_reference, measured(view.depth, view.confidence), view.confidence


def measured(depth: NDArray[Any], confidence: NDArray[Any]) -> NDArray[Any]:
    """The depths that are measurements: those of some confidence."""
    known = np.where(confidence > 0, depth, np.float32(np.nan))
    known.setflags(write=False)  # like a view's own: else kernels are compiled twice
    return known
