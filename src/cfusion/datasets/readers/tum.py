"""TUM RGB-D: lists of files by time, 16-bit PNG with 5000 counts per metre, camera-to-world with qw last."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import bent_by, frames, lost, named_view, pinhole, require_some, without_images
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pose, View
from cfusion.io.atomic import filling
from cfusion.io.codecs.photo import read_photo
from cfusion.io.codecs.png import Encoding, read_png, write_counts, write_image
from cfusion.io.codecs.trajectory import Times, nearest, read_trajectory, trajectory_text
from cfusion.io.paths import path_inside
from cfusion.io.text_tables import read_lines

UNITS_PER_METRE = 5000.0
CAMERAS = {  # fx, fy, cx, cy, k1, k2, p1, p2, k3 of the colour camera, to which depth is registered
    "freiburg1": (517.3, 516.5, 318.6, 255.3, 0.2624, -0.9531, -0.0054, 0.0026, 1.1633),
    "freiburg2": (520.9, 521.0, 325.1, 249.7, 0.2312, -0.7849, -0.0033, -0.0001, 0.9172),
    "freiburg3": (535.4, 539.2, 320.1, 247.6),
}
ROS_DEFAULT = (525.0, 525.0, 319.5, 239.5)
FRAMES_PER_SECOND = 30.0  # of written sequences


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    camera: tuple[float, ...] | None = None  # fx, fy, cx, cy [, k1, k2, p1, p2, k3]; None: by the folder's name
    units_per_metre: float = UNITS_PER_METRE
    seconds_apart: float = 0.02  # at most, between a depth map and its pose or image
    images: bool = True

    def __post_init__(self) -> None:
        if self.camera is not None and len(self.camera) not in (4, 9):
            raise InputError(
                f"camera has {len(self.camera)} numbers; give fx, fy, cx, cy, and k1, k2, p1, p2, k3 if known"
            )
        if not self.units_per_metre > 0 or not self.seconds_apart >= 0:
            raise InputError("give a positive units_per_metre, and seconds_apart of at least 0")


def recognises(path: Path) -> bool:
    """A folder with depth.txt and groundtruth.txt."""
    return (path / "depth.txt").is_file() and (path / "groundtruth.txt").is_file()


def lacks(path: Path) -> str | None:
    """A list of depth maps without poses."""
    if not (path / "depth.txt").is_file():
        return None
    return "has TUM's depth.txt but no groundtruth.txt; poses are needed (a line each: time tx ty tz qx qy qz qw)"


def read(path: Path, options: Options | None = None) -> Dataset:
    """Depth maps with the pose nearest in time; maps without a near pose are skipped."""
    chosen = options or Options()
    listed = _listed(path, "depth.txt")
    photos = _listed(path, "rgb.txt") if chosen.images and (path / "rgb.txt").is_file() else []
    times, poses = read_trajectory(path / "groundtruth.txt")
    photo_times: Times = np.array([time for time, _ in photos])
    found: list[tuple[Path, Pose, Path | None, float]] = []
    skipped = unmatched = 0
    for time, file in listed:
        at, apart = nearest(times, time)
        pose = poses[at] if at >= 0 else None
        if apart > chosen.seconds_apart:
            unmatched += 1
        elif pose is None:
            skipped += 1
        else:
            at_photo, photo_apart = nearest(photo_times, time)
            photo = photos[at_photo][1] if photo_apart <= chosen.seconds_apart else None
            found.append((file, pose, photo, time))
    require_some(len(found), path, f"depth map within {chosen.seconds_apart:g} s of a pose")
    camera, why = _camera(path, chosen)

    def load(number: int) -> View:
        file, pose, photo, time = found[number]
        depth = read_png(file, Encoding(1 / chosen.units_per_metre))
        seen = bent_by(pinhole(camera[:4], (depth.shape[0], depth.shape[1]), path), camera[4:])
        return named_view(file, depth, seen, pose, image=read_photo(photo, seen.shape), name=f"{time:.6f}")

    left = f"; {unmatched} without a pose within {chosen.seconds_apart:g} s skipped" if unmatched else ""
    sentence = (
        f"TUM RGB-D: {chosen.units_per_metre:g} counts per metre, 0 and 65535 = missing, camera-to-world, qw last, "
        f"K{' and lens' if camera[4:] else ''} of {why}; {frames(len(found))}{lost(skipped)}{left}"
        f"{without_images(photo for _, _, photo, _ in found)}"
    )
    return Dataset.of_files((each[0] for each in found), load, sentence)


def write(views: Sequence[View], folder: str | PathLike[str]) -> None:
    """Write depth PNGs, images, lists and trajectory; depth beyond 13.1 m becomes unknown, K is not stored."""
    with filling(Path(folder)) as draft:
        for name in ("depth", "rgb"):
            (draft / name).mkdir()
        depths, photos, times, poses = [], [], [], []
        for number, view in enumerate(views):
            time = number / FRAMES_PER_SECOND
            write_counts(draft / "depth" / f"{time:.6f}.png", view.depth, 1 / UNITS_PER_METRE)
            depths.append(f"{time:.6f} depth/{time:.6f}.png")
            times.append(time)
            poses.append(view.pose)
            if view.image is not None:
                write_image(draft / "rgb" / f"{time:.6f}.png", view.image)
                photos.append(f"{time:.6f} rgb/{time:.6f}.png")
        (draft / "depth.txt").write_text("\n".join(["# timestamp filename", *depths, ""]))
        (draft / "rgb.txt").write_text("\n".join(["# timestamp filename", *photos, ""]))
        (draft / "groundtruth.txt").write_text(trajectory_text(times, poses))


def _listed(path: Path, name: str) -> list[tuple[float, Path]]:
    """Times and files of a list, in ascending order."""
    found = []
    for line in read_lines(path / name):
        if len(line.words) < 2:
            raise FileError(f"{line.where} has {len(line.words)} word; write a time and a file name")
        time = line.numbers(0, 1)[0]
        if not np.isfinite(time):
            raise FileError(f"{line.where} has the time {line.words[0]!r}; give seconds")
        found.append((time, path_inside(path, line.words[1], line.where)))
    return sorted(found)


def _camera(path: Path, options: Options) -> tuple[tuple[float, ...], str]:
    if options.camera is not None:
        return options.camera, "the option"
    folder = path.resolve().name.lower()
    for name, camera in CAMERAS.items():
        if name in folder:
            return camera, name
    return ROS_DEFAULT, "the ROS default (525)"
