"""KITTI stereo 2012 and 2015 as views: disparity maps of a bundle converted to depth, with a localisation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.datasets.kitti_bundle import (
    REFERENCE_FRAME,
    Bundle,
    bundles,
    disparity_file,
    layout_of,
    open_bundle,
    read_disparity,
)
from cfusion.datasets.reader_tools import frames, lost, named_view
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pose, View
from cfusion.geometry.disparity import depth_from_disparity
from cfusion.io.codecs.kitti_poses import read_localization
from cfusion.io.codecs.photo import resized
from cfusion.io.paths import also

TRUTH = "truth"


@dataclass(frozen=True)
class Options:
    """Which bundle, and where its disparity maps and poses are."""

    bundle: int | None = None  # required if there are several
    disparity: str | None = None  # folder of 000027_10.png (value / 256), .pfm or .npy; or "truth", the lidar's
    localization: str | None = None  # the paper's .mat; None: the viso one beside the data
    colour: bool = False
    farthest: float = 100.0  # metres; stereo knows little beyond

    def __post_init__(self) -> None:
        if not self.farthest > 0:
            raise InputError(f"farthest is {self.farthest}; give a positive distance in metres")


def recognises(path: Path) -> bool:
    """Whether it is a training or testing folder, or their parent."""
    return layout_of(training_or_testing(path)) is not None and bool(bundles(training_or_testing(path)))


def read(path: Path, options: Options | None = None) -> Dataset:
    """The views of one bundle, from given disparity maps or from the ground truth."""
    chosen = options or Options()
    folder = training_or_testing(path)
    bundle = open_bundle(folder, number_of(folder, chosen.bundle), colour=chosen.colour)
    if chosen.disparity is None:
        raise FileError(
            f"{folder} has images; match them first (cfusion stereo), then give the folder of disparity maps"
        )
    if chosen.disparity == TRUTH:
        if not bundle.has_truth():
            raise FileError(f"{folder} has no ground truth of bundle {bundle.number}; only frame 10 of training has")
        return Dataset((_truth(bundle, chosen),), sentence=_sentence(bundle, chosen, "ground truth disparity", 1, 0))
    maps = folder / chosen.disparity  # which may be absolute
    with also(maps, folder.resolve().parent, (folder / (chosen.localization or ".")).parent):
        return _of_maps(maps, bundle, folder, chosen)


def _of_maps(maps: Path, bundle: Bundle, folder: Path, options: Options) -> Dataset:
    files = {frame: file for frame in bundle.frames if (file := disparity_file(maps, bundle.name(frame))) is not None}
    if not files:
        raise FileError(f"{maps} holds no disparity map of bundle {bundle.number}, e.g. {bundle.name(10)}.png")
    poses = _poses(bundle, folder, options)
    kept = [frame for frame in files if frame in poses]
    if not kept:
        raise FileError(f"no frame of bundle {bundle.number} has both a disparity map and a pose")

    def load(number: int) -> View:
        frame = kept[number]
        depth = depth_from_disparity(read_disparity(files[frame]), bundle.calibration.focal_baseline)
        return _view(bundle, frame, np.where(depth <= options.farthest, depth, np.nan), poses[frame])

    reference = kept.index(REFERENCE_FRAME) if REFERENCE_FRAME in kept else None
    sentence = _sentence(bundle, options, f"disparity of {maps}, camera-to-world", len(kept), len(files) - len(kept))
    return Dataset(LazyViews.reading(load, len(kept)), reference, sentence=sentence)


def _truth(bundle: Bundle, options: Options) -> View:
    depth = depth_from_disparity(bundle.truth(), bundle.calibration.focal_baseline)
    near = np.where(depth <= options.farthest, depth, np.nan)
    return _view(bundle, REFERENCE_FRAME, near, Pose.identity())


def _view(bundle: Bundle, frame: int, depth: NDArray[np.float32], pose: Pose) -> View:
    shape = (depth.shape[0], depth.shape[1])
    image: Image = resized(bundle.left(frame), shape)
    return named_view(
        bundle.name(frame), depth, bundle.calibration.camera(shape), pose, image=image, name=bundle.name(frame)
    )


def _poses(bundle: Bundle, folder: Path, options: Options) -> Mapping[int, Pose]:
    if options.localization is not None:
        given = Path(options.localization)
        return read_localization(given if given.is_absolute() else folder / given, bundle.number)
    beside = folder.resolve().parent / "localization"
    files = sorted(beside.glob(f"bundle_loc_viso_{folder.resolve().name}.mat")) + sorted(beside.glob("*.mat"))
    if not files:
        raise FileError(f"{beside} holds no localisation *.mat; give one with the option localization")
    return read_localization(files[0], bundle.number)


def training_or_testing(path: Path) -> Path:
    """The folder of images; the training set if their parent was given."""
    return path / "training" if (path / "training").is_dir() else path


def number_of(folder: Path, bundle: int | None) -> int:
    """The given bundle, or the only one."""
    if bundle is not None:
        return bundle
    there = bundles(folder)
    if len(there) != 1:
        first = ", ".join(str(each) for each in there[:8])
        raise FileError(f"{folder} holds {len(there)} bundles ({first}); choose one with the option bundle")
    return there[0]


def _sentence(bundle: Bundle, options: Options, what: str, count: int, skipped: int) -> str:
    return (
        f"KITTI {bundle.layout.name}, bundle {bundle.number}: {what} / 256, 0 = unknown, "
        f"depth = {bundle.calibration.focal_baseline:.5g} / disparity, nothing beyond {options.farthest:g} m; "
        f"{frames(count)}{lost(skipped)}"
    )
