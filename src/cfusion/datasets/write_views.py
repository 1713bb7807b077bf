"""Write views in a format that other tools read."""

from collections.abc import Sequence
from os import PathLike

import numpy as np

from cfusion.datasets.read import READERS, known
from cfusion.datasets.readers.bundle import write_bundle
from cfusion.errors import InputError
from cfusion.geometry import BrownConrady, Pinhole, View
from cfusion.io.arguments import path_of, views_of
from cfusion.io.codecs.png import LARGEST_COUNT

WRITERS = ("bundle", "tum", "colmap", "mvsnet", "openmvs", "open3d", "nerfstudio")  # formats that hold posed views
FEWEST_COUNTS = 50  # of a depth: fewer round it by more than a percent
MOST_LOST = 0.9  # share of the depths out of range, above which they are in another unit


def write_views(views: Sequence[View], folder: str | PathLike[str], format: str = "bundle") -> None:
    """Write views to a folder, completely or not at all."""
    views, target = views_of(views, "write_views"), path_of(folder, "folder")
    name = known(format)
    if name not in WRITERS:
        raise InputError(f"views cannot be written as {name!r}; choose from {', '.join(WRITERS)}")
    if len(views) == 0:
        raise InputError("no views to write; give at least one")
    require_storable(views, name)
    if name == "bundle":
        write_bundle(views, target)
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
