"""A folder of stereo pairs as a data set: left/, right/ and calib.*; poses.txt if poses are known.

Pairs are matched when used. calib.* is OpenCV's YAML or XML, KITTI's or Middlebury's calib.txt; pairs with a full
calibration are rectified. Without poses.txt (12 numbers per line, camera-to-world) our odometry estimates them.
"""

from dataclasses import dataclass
from pathlib import Path

from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.datasets.reader_tools import frames, lost
from cfusion.errors import FileError, InputError, named_by
from cfusion.frontends import odometry
from cfusion.frontends.calibration import Calibration, RawRig, read_rig, rectified, size_warning, unit_of
from cfusion.frontends.depth import depth_of
from cfusion.frontends.pair_check import find_points, not_the_same, require_pair, same_size, short_range
from cfusion.frontends.rig import Rig, StereoFrame
from cfusion.frontends.stereo import grey_bytes, match, require_matcher
from cfusion.geometry import Pose, View
from cfusion.io.codecs.kitti_poses import read_odometry_poses
from cfusion.io.codecs.photo import SUFFIXES, photo_size, read_photo

POSES = "poses.txt"
UNCHECKED = "pass --option unchecked=true"


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    matcher: str = "sgm"  # sgm, elas or mc-cnn
    disparities: int = 128  # pixels searched
    farthest: float | None = None  # unit of the baseline; None: the depth of one pixel of disparity
    unchecked: bool = False  # also match pairs that look swapped, unrectified or unrelated
    backend: str = "auto"  # auto or cpu; mc-cnn: also cuda

    def __post_init__(self) -> None:
        if self.farthest is not None and not self.farthest > 0:
            raise InputError(f"farthest is {self.farthest}; give a positive distance")


def recognises(path: Path) -> bool:
    """left/ and right/, with images or beside a calibration: a folder that lacks one of them is told what it lacks."""
    sides = [path / side for side in ("left", "right")]
    return all(each.is_dir() for each in sides) and (_calibration_file(path) is not None or all(map(_photos, sides)))


def read(path: Path, options: Options | None = None) -> Dataset:
    """The views of the left camera, matched when used."""
    chosen = options or Options()
    require_matcher(chosen.matcher, chosen.backend)
    file, names = _required_calibration(path), _names(path)
    calibration = read_rig(file)
    frame, rig = _frame(path, names[0], calibration)
    looks = grey_bytes(frame.left), grey_bytes(frame.right)
    with named_by(names[0]):
        points = find_points(*looks) if chosen.unchecked else require_pair(*looks, unless=UNCHECKED)
    cautions = size_warning(rig), short_range(points, chosen.disparities, setting="--option disparities=")
    source, poses = _poses(path, names, calibration, rig)
    kept = [k for k, pose in enumerate(poses) if pose is not None]
    if not kept:
        raise FileError(f"{path / POSES} holds no finite pose; remove it to use our odometry")
    farthest = chosen.farthest if chosen.farthest is not None else rig.focal_baseline

    def load(number: int) -> View:
        name, pose = names[kept[number]], poses[kept[number]]
        assert pose is not None
        seen, seen_rig = _frame(path, name, calibration)
        found = match(seen.left, seen.right, chosen.matcher, chosen.disparities, backend=chosen.backend)
        seen_depth = depth_of(found, seen_rig, farthest)
        return View(
            seen_depth.depth,
            seen_rig.camera,
            pose,
            image=seen.left,
            confidence=seen_depth.weight,
            name=Path(name).stem,
        )

    turned = "rectified, " if isinstance(calibration, RawRig) else ""
    sentence = (
        f"stereo pairs, {turned}matched with {chosen.matcher} over {chosen.disparities} pixels: "
        f"depth = {rig.focal_baseline:.5g} / (disparity + {rig.doffs:g}), poses from {source}; "
        f"{frames(len(kept))}{lost(len(names) - len(kept))}"
    )
    sentence = "; ".join([sentence, *(f"caution: {each}" for each in cautions if each is not None)])
    return Dataset(LazyViews.reading(load, len(kept)), unit=unit_of(file), sentence=sentence)


def read_pair(left: Path, right: Path, calibration: Calibration | RawRig | None) -> tuple[StereoFrame, Rig | None]:
    """Two images of one size, rectified if their calibration allows; and the rig, if there is a calibration."""
    images = []
    for path in (left, right):
        if path.is_dir():
            raise FileError(
                f"{path} is a folder; give two images (a folder with left/, right/ and calib.* is a data set: see "
                "`cfusion fuse`)"
            )
        if not path.is_file():
            raise FileError(f"{path} does not exist; give the two images of a stereo pair")
        image = read_photo(path, photo_size(path))
        assert image is not None
        images.append(image)
    same_size(*images)
    not_the_same(*images)
    frame = StereoFrame(*images)
    return (frame, None) if calibration is None else rectified(frame, calibration)


def _frame(folder: Path, name: str, calibration: Calibration | RawRig) -> tuple[StereoFrame, Rig]:
    with named_by(name):
        frame, rig = read_pair(folder / "left" / name, _partner(folder, name), calibration)
    assert rig is not None
    return frame, rig


def _names(folder: Path) -> list[str]:
    """File names of the left images, in order; each has a partner."""
    names = _photos(folder / "left")
    if not names:
        raise FileError(f"{folder / 'left'} holds no image; add .png or .jpg files")
    for name in names:
        if not _partner(folder, name).is_file():
            raise FileError(f"{folder / 'left' / name} has no partner {Path(name).stem} in {folder / 'right'}; add it")
    return names


def _photos(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.suffix in SUFFIXES)


def _partner(folder: Path, name: str) -> Path:
    """The right image with the same name, or the same number as in left_0012.png and right_0012.png."""
    right = folder / "right"
    for other in (name, name.replace("left", "right"), name.replace("Left", "Right")):
        if (right / other).is_file():
            return right / other
    return right / name


def _poses(
    folder: Path, names: list[str], calibration: Calibration | RawRig, rig: Rig
) -> tuple[str, tuple[Pose | None, ...]]:
    file = folder / POSES
    if file.is_file():
        given = read_odometry_poses(file)
        if len(given) != len(names):
            raise FileError(f"{file} holds {len(given)} poses for {len(names)} pairs; write one line per pair")
        return POSES, given
    if len(names) == 1:
        return "nowhere, for one pair needs none", (Pose.identity(),)
    return "our odometry", odometry.trajectory((_frame(folder, name, calibration)[0] for name in names), rig)


def _calibration_file(folder: Path) -> Path | None:
    names = [f"calib{ending}" for ending in (".yml", ".yaml", ".xml", ".txt")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _required_calibration(folder: Path) -> Path:
    file = _calibration_file(folder)
    if file is None:
        raise FileError(f"{folder} has no calibration; add calib.yml, .yaml, .xml or .txt")
    return file
