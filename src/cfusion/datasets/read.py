"""Read posed depth maps in any known format."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType, ModuleType

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.options import chosen
from cfusion.errors import FileError, InputError, suggestion
from cfusion.io.arguments import path_of
from cfusion.io.paths import within

RESULT = "result.json"
MOST_FOLDERS = 20  # that are looked into, on each level, for a data set below the folder that was given


@dataclass(frozen=True)
class Reader:
    """A format: a summary for the user, and the module that reads it, imported when needed.

    The module has `recognises(path)`, which reads little, and `read(path, options)`; `Options`, a frozen dataclass, if
    there are options; `write(views, folder)` if `writes` is set; `lacks(path)` if it can say what an incomplete folder
    of the format lacks.
    """

    summary: str
    module: str
    writes: str = ""

    def load(self) -> ModuleType:
        """Import the module of this format."""
        return importlib.import_module(self.module)

    def recognises(self, place: Path) -> bool:
        """Whether the folder has this format; a file that cannot be read counts as no."""
        try:
            return bool(self.load().recognises(place))
        except (OSError, ValueError):  # a dangling link, a folder without permission, an invalid name
            return False

    def lacks(self, place: Path) -> str | None:
        """What a folder nearly of this format is, and what it lacks, where the module can tell."""
        tell: Callable[[Path], str | None] = getattr(self.load(), "lacks", lambda _: None)
        try:
            return tell(place)
        except (OSError, ValueError):
            return None

    @property
    def options(self) -> type | None:
        """The format's options, if it has any."""
        return getattr(self.load(), "Options", None)


def _reader(summary: str, module: str, writes: str = "") -> Reader:
    return Reader(summary, f"cfusion.datasets.readers.{module}", writes)


# The order of recognition: the most specific formats first.
READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "bundle": _reader("folder with bundle.json and npy, png, pfm or exr depth maps", "bundle", "all of it"),
        "nerfstudio": _reader("transforms.json with depth_file_path", "nerfstudio", "all of it"),
        "colmap": _reader("dense workspace: sparse/ and stereo/depth_maps/", "colmap", "all of it"),
        "eth3d": _reader("ground_truth_depth/ and *_calibration_*/", "eth3d"),
        "openmvs": _reader("depth maps *.dmap, with confidence", "openmvs", "dmap"),
        "mvsnet": _reader("cams/*_cam.txt and PFM depth (MVSNet, BlendedMVS)", "mvsnet", "all of it"),
        "7-scenes": _reader("frame-*.depth.png and frame-*.pose.txt", "seven_scenes"),
        "icl-nuim": _reader("*.gt.freiburg and depth/, or POV-Ray's *.depth", "icl_nuim"),
        "tum": _reader("TUM RGB-D: depth.txt and groundtruth.txt", "tum", "all but K"),
        "replica": _reader("traj.txt and results/depth*.png", "replica"),
        "scannet": _reader("depth/, pose/ and intrinsic/", "scannet"),
        "stereo": Reader("left/ and right/ with calib.*: pairs, matched here", "cfusion.frontends.pairs"),
        "kitti": Reader("stereo 2012 and 2015, matched here", "cfusion.frontends.kitti_reader", "disparity PNG"),
        "kitti-odometry": _reader("a sequence with disparity maps and poses", "kitti_odometry"),
        "middlebury": _reader("stereo 2014, 2021 (calib.txt) and 2003", "middlebury", "disparity PFM"),
        "open3d": _reader("depth/ and a trajectory, .log or .json", "open3d_log", "all of it"),
        "npz": _reader("depth, conf, extrinsics, intrinsics in one .npz (VGGT, Depth Anything 3)", "npz_depth"),
        "geotiff": _reader("aligned height rasters *.tif", "geotiff", "GeoTIFF on the same grid"),
    }
)


def read(path: str | PathLike[str], format: str | None = None, options: Mapping[str, object] | None = None) -> Dataset:
    """Views found at a path; the format is recognised or named (a key of `READERS`), its options given by name.

    `.sentence` of the result states what was recognised and converted. Frames are read when they are used.

    Args:
        path: folder or file of a data set.
        format: its name, if it is not recognised (`cfusion formats`).
        options: options of the format, by name (`cfusion formats --options`).

    Examples:
        >>> import numpy as np
        >>> from cfusion import Pinhole, Pose, View, read
        >>> from cfusion.datasets import write_bundle
        >>> write_bundle([View(np.full((12, 16), 2.0), Pinhole(50, 50, 7.5, 5.5, 16, 12), Pose.identity())], "data")
        >>> views = read("data")
        >>> len(views), views[0].shape
        (1, (12, 16))
    """
    place = path_of(path, "the data")
    name = recognised(place) if format is None else known(format)
    reader = READERS[name]
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"options is {type(options).__name__}; give them by name, e.g. {{'images': False}}")
    given = () if reader.options is None and not options else (chosen(reader.options, options or {}, name),)
    with within(place if place.is_dir() else place.resolve().parent):
        views: Dataset = reader.load().read(place, *given)
    return views


def recognised(place: Path) -> str:
    """The name of the format at a path."""
    try:
        if not place.exists():
            raise FileError(f"{place} does not exist; give the folder of a data set")
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{str(place)[:80]!r} cannot be the name of a folder ({error}); give another path") from None
    for name, reader in READERS.items():
        if reader.recognises(place):
            return name
    for reader in READERS.values():
        if (lacking := reader.lacks(place)) is not None:
            raise FileError(f"{place} {lacking}")
    if (place / RESULT).is_file():
        maps = place / "depth.npy"
        raise FileError(f"{place} is a result, not data; load its maps (numpy.load({str(maps)!r}), or `cfusion view`)")
    below = _below(place)
    if below is not None:
        raise FileError(f"{place} has no known format, but {below[0]} has ({below[1]}); give that")
    raise FileError(
        f"{place} has no known format ({', '.join(READERS)}; see `cfusion formats`); of other data make a bundle, a "
        "folder with a bundle.json, or views in Python: docs/conventions.md says how"
    )


def _below(place: Path) -> tuple[Path, str] | None:
    """A folder within, two levels down at most, that has a format, and its name; None if there is none."""
    if not place.is_dir():
        return None
    try:
        first = sorted(each for each in place.iterdir() if each.is_dir())[:MOST_FOLDERS]
        second = [inner for each in first for inner in sorted(each.iterdir()) if inner.is_dir()][:MOST_FOLDERS]
        every = ((folder, name) for folder in (*first, *second) for name in READERS)
        return next(((folder, name) for folder, name in every if READERS[name].recognises(folder)), None)
    except OSError:  # of a folder that may not be read
        return None


def known(name: str) -> str:
    """The name of a format, or an error that suggests one."""
    if not isinstance(name, str) or name not in READERS:
        raise InputError(f"unknown format {str(name)[:60]!r}; {suggestion(name, READERS)}")
    return name
