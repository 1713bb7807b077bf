"""Write views in a format that other tools read."""

from collections.abc import Sequence
from os import PathLike

from cfusion.datasets.read import READERS, known
from cfusion.datasets.readers.bundle import write_bundle
from cfusion.errors import InputError
from cfusion.geometry import BrownConrady, View
from cfusion.io.arguments import path_of, views_of

WRITERS = ("bundle", "tum", "colmap", "mvsnet", "openmvs", "open3d", "nerfstudio")  # formats that hold posed views


def write_views(views: Sequence[View], folder: str | PathLike[str], format: str = "bundle") -> None:
    """Write views to a folder, completely or not at all."""
    views, target = views_of(views, "write_views"), path_of(folder, "folder")
    name = known(format)
    if name not in WRITERS:
        raise InputError(f"views cannot be written as {name!r}; choose from {', '.join(WRITERS)}")
    if len(views) == 0:
        raise InputError("no views to write; give at least one")
    if name == "bundle":
        write_bundle(views, target)
    elif any(isinstance(view.camera, BrownConrady) for view in views):
        raise InputError(f"{name!r} cannot store lens distortion; write a bundle, or undistort the views first")
    else:
        READERS[name].load().write(views, target)
