"""Frames as coloured points, with one colour scale for all frames."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import share_of
from cfusion.io.colour_pictures import depth_colours, sigma_colours
from cfusion.view.frames import FusedFrame, Maps

LAYER = {"sigma": "sigma", "views": "provenance", "confidence": "confidence"}  # map by the name of the colour
SAMPLED, ACROSS = 9, 64  # frames, and pixels across each, from which the limits of a colour are estimated
Limits = tuple[float, float]


def colours_of(maps: Maps, *, image: bool) -> tuple[str, ...]:
    """The quantities by which a frame can be coloured."""
    return ("depth", *(name for name, layer in LAYER.items() if layer in maps.others), *(["image"] if image else []))


def limits_of(frames: Sequence[FusedFrame], colour: str) -> Limits | None:
    """The range of a colour over all frames, estimated from some, so that it means the same everywhere."""
    some = [frames[int(at)] for at in np.unique(np.linspace(0, len(frames) - 1, SAMPLED).round())]
    known = np.concatenate([_thinned(_values(each.maps(), None, colour)) for each in some])
    known = known[np.isfinite(known) & (known > 0)] if colour == "sigma" else known[np.isfinite(known)]
    if not known.size:
        return None
    low, high = np.percentile(known, (1, 99))
    return float(low), float(max(high, low * (1 + 1e-6), low + 1e-12))


def points_and_colours(
    frame: FusedFrame,
    maps: Maps,
    colour: str,
    stride: int,
    depth: NDArray[np.generic] | None = None,
    *,
    limits: Limits | None = None,
    image: NDArray[np.generic] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Points (N, 3) in the world and their colours (N, 3), from the fused depth or another map of the frame."""
    shown = np.asarray(maps.depth if depth is None else depth, np.float64)
    thinned = np.full(shown.shape, np.nan)
    thinned[::stride, ::stride] = shown[::stride, ::stride]
    known = np.isfinite(thinned)
    points = frame.pose.apply(frame.camera.back_project(thinned)[known])
    if colour == "image" and image is not None and image.shape[:2] == shown.shape:
        painted = _of_image(np.asarray(image, np.float64))
    else:
        values = _values(maps, depth, colour)
        painted = sigma_colours(values, limits) if colour == "sigma" else depth_colours(values, limits)
    return points.astype(np.float32), np.ascontiguousarray(painted[known][:, :3])


def _values(maps: Maps, depth: NDArray[np.generic] | None, colour: str) -> NDArray[np.generic]:
    layer = LAYER.get(colour, "")
    if layer in maps.others:
        return maps.others[layer]
    return np.asarray(maps.depth if depth is None else depth)


def _thinned(values: NDArray[np.generic]) -> NDArray[np.float64]:
    every = share_of(values.shape[1], ACROSS)
    return np.asarray(values[::every, ::every], np.float64).ravel()


def _of_image(image: NDArray[np.float64]) -> NDArray[np.uint8]:
    """An image in [0, 1], grey or colour, as (H, W, 3) bytes."""
    levels = np.clip(np.nan_to_num(image) * 255, 0, 255).astype(np.uint8)
    return np.repeat(levels[..., None], 3, axis=2) if levels.ndim == 2 else levels[..., :3]
