"""The residuals that a page shows: measurements of every view at a surface, minus the surface."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap
from cfusion.geometry import Camera, Orthographic, Pose, Stack, View

Residuals = NDArray[np.float32]
LEAST_RATE = 0.1  # change of the view's depth with the surface's; below, the view looks across the ray


def residuals_of_view(view: View, surface: DepthMap, camera: Camera, pose: Pose) -> Residuals:
    """Residuals (H, W), measured minus predicted depth, along the rays of the surface's camera; NaN where unmeasured.

    A pixel of the surface is projected into the view, where the nearest measured depth is read:
    r = (z_measured - z_predicted) / (dz / dx), with dz / dx the change of the view's depth with the surface's.
    """
    view_from_surface = (view.pose.inverse() @ pose).matrix()
    points = camera.back_project(surface)
    seen = points @ view_from_surface[:3, :3].T + view_from_surface[:3, 3]
    u, v, predicted = view.camera.project(seen)
    with np.errstate(invalid="ignore"):
        column, row = np.rint(u), np.rint(v)
        inside = (column >= 0) & (column < view.camera.width) & (row >= 0) & (row < view.camera.height)
    inside &= np.isfinite(predicted)
    measured = np.full(surface.shape, np.nan, np.float32)
    measured[inside] = view.depth[row[inside].astype(np.intp), column[inside].astype(np.intp)]
    if view.confidence is not None:  # zero confidence means no observation
        doubted = np.zeros(surface.shape, np.bool_)
        doubted[inside] = view.confidence[row[inside].astype(np.intp), column[inside].astype(np.intp)] <= 0
        measured[doubted] = np.nan
    rate = _rate(points, surface, view_from_surface[2, :3], camera)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (measured - predicted) / np.where(np.abs(rate) > LEAST_RATE, rate, np.nan)
    return found.astype(np.float32)


def _rate(
    points: NDArray[np.float64], surface: DepthMap, axis: NDArray[np.float64], camera: Camera
) -> NDArray[np.float64]:
    """dz / dx of a view whose optical axis is `axis` in the frame of the surface's camera."""
    if isinstance(camera, Orthographic):  # only z changes
        return np.full(surface.shape, axis[2])
    with np.errstate(invalid="ignore", divide="ignore"):
        rate: NDArray[np.float64] = (points @ axis) / np.asarray(surface, np.float64)
    return rate


def residuals_of_stack(stack: Stack, surface: DepthMap, index: int) -> Residuals:
    """The same for a map of a registered stack; pixels of zero weight are no observations."""
    apart = np.asarray(stack.depths[index], np.float32) - surface
    if stack.weights is None:
        return apart
    return np.where(np.asarray(stack.weights[index]) > 0, apart, np.float32(np.nan))


def names_of(views: Sequence[View] | Stack) -> list[str]:
    """The views' own names, or their numbers."""
    if isinstance(views, Stack):
        return [f"map {k}" for k in range(len(views.depths))]
    return [view.name or f"view {k}" for k, view in enumerate(views)]
