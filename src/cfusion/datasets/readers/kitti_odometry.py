"""KITTI odometry: a sequence folder (image_0, image_1, calib.txt), poses/NN.txt two levels up, and disparity maps."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.datasets.kitti_bundle import LAYOUTS, read_calibration, read_disparity
from cfusion.datasets.reader_tools import frames, lost, named_view, require_some
from cfusion.errors import FileError, InputError
from cfusion.geometry import View
from cfusion.geometry.disparity import depth_from_disparity
from cfusion.io.codecs.kitti_poses import read_odometry_poses
from cfusion.io.codecs.photo import beside, read_photo
from cfusion.io.maps import SUFFIXES
from cfusion.io.paths import also
from cfusion.io.text_tables import is_number, numbered

GREY = LAYOUTS[0]


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    disparity: str = "disparity"  # folder of 000000.png (value / 256), .pfm or .npy
    poses: str | None = None  # None: ../../poses/NN.txt
    farthest: float = 100.0  # metres
    images: bool = True

    def __post_init__(self) -> None:
        if not self.farthest > 0:
            raise InputError(f"farthest is {self.farthest}; give a positive distance in metres")


def recognises(path: Path) -> bool:
    """A folder with calib.txt, image_0 and times.txt."""
    return (path / "calib.txt").is_file() and (path / "image_0").is_dir() and (path / "times.txt").is_file()


def read(path: Path, options: Options | None = None) -> Dataset:
    """The frames that have a disparity map and a pose; camera 0."""
    chosen = options or Options()
    calibration = read_calibration(path / "calib.txt", GREY)
    file = path.resolve().parent.parent / "poses" / f"{path.resolve().name}.txt"
    with also(file.parent, (path / (chosen.poses or ".")).parent):
        poses = dict(enumerate(read_odometry_poses(file if chosen.poses is None else path / chosen.poses)))
    maps = path / chosen.disparity
    if not maps.is_dir():
        raise FileError(f"{maps} does not exist; match the pairs first and put the disparity maps (000000.png) into it")
    files = numbered([each for each in maps.iterdir() if each.suffix in SUFFIXES and is_number(each.stem)])
    found = [(each, pose) for each in files if (pose := poses.get(int(each.stem))) is not None]
    require_some(len(found), maps, "disparity map with a pose")

    def load(number: int) -> View:
        source, pose = found[number]
        depth = depth_from_disparity(read_disparity(source), calibration.focal_baseline)
        camera = calibration.camera((depth.shape[0], depth.shape[1]))
        photo = beside(path / "image_0", source.stem) if chosen.images else None
        near = np.where(depth <= chosen.farthest, depth, np.float32(np.nan))
        return named_view(source, near, camera, pose, image=read_photo(photo, camera.shape), name=source.stem)

    sentence = (
        f"KITTI odometry: disparity / 256, 0 = unknown, depth = {calibration.focal_baseline:.5g} / disparity, nothing "
        f"beyond {chosen.farthest:g} m, camera-to-world; {frames(len(found))}{lost(len(files) - len(found))}"
    )
    with also(maps):
        return Dataset(LazyViews.reading(load, len(found)), sentence=sentence)
