"""Frames as coloured points: as many as there is room for, spread evenly; one frame alone in full."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfusion.io.colour_pictures import depth_colours, sigma_colours
from cfusion.view.frames import FusedFrame, Maps

MOST_POINTS = 1_500_000  # of all frames together
COLOURS = ("depth", "sigma", "views", "confidence")


def stride_for(frames: int, pixels: int) -> int:
    """Every how many pixels a frame is drawn when all are."""
    return max(1, int(np.ceil(np.sqrt(frames * pixels / MOST_POINTS))))


def points_and_colours(
    frame: FusedFrame, maps: Maps, colour: str, stride: int, depth: NDArray[np.generic] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """(N, 3) points in the world and their (N, 3) colours; of another depth map of the frame, if one is given."""
    shown = np.asarray(maps.depth if depth is None else depth, np.float64)
    thinned = np.full(shown.shape, np.nan)
    thinned[::stride, ::stride] = shown[::stride, ::stride]
    known = np.isfinite(thinned)
    points = frame.pose.apply(frame.camera.back_project(thinned)[known])
    return points.astype(np.float32), np.ascontiguousarray(_colours(maps, shown, colour)[known][:, :3])


def _colours(maps: Maps, depth: NDArray[np.float64], colour: str) -> NDArray[np.uint8]:
    if colour == "sigma" and "sigma" in maps.others:
        return sigma_colours(maps.others["sigma"])
    name = {"views": "provenance"}.get(colour, colour)
    if name in maps.others and name != "sigma":
        return depth_colours(np.asarray(maps.others[name], np.float64))
    return depth_colours(depth)
