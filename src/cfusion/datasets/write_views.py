"""Write views in a format that other tools read."""

from collections.abc import Sequence
from os import PathLike

from cfusion.datasets.read import READERS, known
from cfusion.datasets.readers.bundle import write_bundle
from cfusion.errors import InputError
from cfusion.geometry import BrownConrady, View
from cfusion.io.arguments import path_of, views_of

WRITERS = ("bundle", "tum", "colmap", "mvsnet", "openmvs", "open3d", "nerfstudio")  # those that hold posed views


def write_views(views: Sequence[View], folder: str | PathLike[str], format: str = "bundle") -> None:
    """Write views to a folder, whole or not at all."""
    views, target = views_of(views, "write_views"), path_of(folder, "folder")
    name = known(format)
    if name not in WRITERS:
        raise InputError(f"views cannot be written as {name!r}; known are: {', '.join(WRITERS)}")
    if len(views) == 0:
        raise InputError("there are no views to write; give at least one")
    if name == "bundle":
        write_bundle(views, target)
    elif any(isinstance(view.camera, BrownConrady) for view in views):
        raise InputError(f"{name!r} has no place for the distortion of a lens; write a bundle, or undistort before")
    else:
        READERS[name].load().write(views, target)
