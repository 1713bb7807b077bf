"""Write views in a format that other tools read."""

from collections.abc import Sequence
from os import PathLike

import numpy as np

from cfusion.datasets.read import READERS, known
from cfusion.datasets.readers.bundle import WRITTEN, write_bundle
from cfusion.errors import InputError
from cfusion.geometry import BrownConrady, Pinhole, View
from cfusion.io.arguments import path_of, views_of
from cfusion.io.atomic import require_none_of
from cfusion.io.codecs.png import LARGEST_COUNT

WRITERS = {  # formats that hold posed views, and what is written
    "bundle": WRITTEN,
    "tum": ("depth", "rgb", "depth.txt", "rgb.txt", "groundtruth.txt"),
    "colmap": ("sparse", "images", "stereo"),
    "mvsnet": ("cams", "depth_est", "confidence", "images", "pair.txt"),
    "openmvs": ("images",),  # beside depth*.dmap, by which the format is recognised
    "open3d": ("depth", "image", "trajectory.log", "trajectory.json"),
    "nerfstudio": ("images", "depth", "transforms.json"),
}
FEWEST_COUNTS = 50  # of a depth: fewer round it by more than a percent
MOST_LOST = 0.9  # share of the depths out of range, above which they are in another unit


def write_views(
    views: Sequence[View], folder: str | PathLike[str], format: str = "bundle", *, overwrite: bool = False
) -> None:
    """Write views to a folder, completely or not at all.

    A data set of that format is replaced; files and folders of the same names are refused where there is none, unless
    `overwrite`.
    """
    views, target = views_of(views, "write_views"), path_of(folder, "folder")
    name = known(format)
    if name not in WRITERS:
        raise InputError(f"views cannot be written as {name!r}; choose from {', '.join(WRITERS)}")
    if len(views) == 0:
        raise InputError("no views to write; give at least one")
    require_storable(views, name)
    if not (overwrite or READERS[name].recognises(target)):
        require_none_of(WRITERS[name], target)
    if name == "bundle":
        write_bundle(views, target, overwrite=overwrite)
    else:
        READERS[name].load().write(views, target)


def require_storable(views: Sequence[View], format: str) -> None:
    """Refuse cameras that a format cannot store, and depths of which it would lose nearly all (no metres)."""
    if format == "bundle":
        return
    known = lost = 0
    counts = getattr(READERS[format].load(), "UNITS_PER_METRE", None)  # of formats that store depth as 16-bit PNG
    for number, view in enumerate(views):
        if isinstance(view.camera, BrownConrady):
            raise InputError(f"{format!r} cannot store lens distortion; write a bundle, or undistort the views first")
        if not isinstance(view.camera, Pinhole):
            raise InputError(f"view {number} is {type(view.camera).__name__}; {format!r} stores pinhole cameras")
        if counts is not None:
            depths = view.depth[np.isfinite(view.depth)] * counts
            known += depths.size
            lost += int(np.count_nonzero((depths < FEWEST_COUNTS) | (depths >= LARGEST_COUNT + 0.5)))
    if counts is not None and lost > MOST_LOST * known:
        raise InputError(
            f"{format!r} stores depths from {FEWEST_COUNTS / counts:g} to {LARGEST_COUNT / counts:.1f} metres, and "
            f"{lost} of {known} lie outside; bring depths and poses to metres, or write a bundle"
        )
