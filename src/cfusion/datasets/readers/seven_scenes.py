"""7-Scenes: frame-%06d.{color,depth,pose}; millimetres, 0 and 65535 missing, camera-to-world, K 585 by default.

Also the layout with `camera-intrinsics.txt` beside the frames (3DMatch and others).
"""

from dataclasses import dataclass
from pathlib import Path

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import frames, lost, named_view, pinhole, read_pose, require_some
from cfusion.errors import FileError
from cfusion.geometry import View
from cfusion.geometry.camera import intrinsics_of
from cfusion.io.codecs.photo import beside, read_photo
from cfusion.io.codecs.png import Encoding, read_png
from cfusion.io.paths import also
from cfusion.io.text_tables import numbered, read_matrix

MILLIMETRES = Encoding(scale=0.001)
KINECT = (585.0, 585.0, 320.0, 240.0)
INTRINSICS = "camera-intrinsics.txt"


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    images: bool = True  # colour is not exactly registered to depth here


def recognises(path: Path) -> bool:
    """Frames with poses in the folder, or in folders seq-*."""
    return path.is_dir() and any(any(folder.glob("frame-*.pose.txt")) for folder in _sequences(path))


def read(path: Path, options: Options | None = None) -> Dataset:
    """The frames of a sequence, or of all sequences of a scene, which share one world."""
    chosen = options or Options()
    files = [file for folder in _sequences(path) for file in numbered(list(folder.glob("frame-*.pose.txt")))]
    found = [(file, pose) for file in files if (pose := read_pose(file)) is not None]
    require_some(len(found), path, "frame-*.pose.txt with a pose")
    with also(path.resolve().parent):
        intrinsics = _intrinsics(path)

    def load(number: int) -> View:
        file, pose = found[number]
        stem = file.name.removesuffix(".pose.txt")
        source = _depth_file(file)
        depth = read_png(source, MILLIMETRES)
        photo = beside(file.parent, f"{stem}.color") if chosen.images else None
        camera = pinhole(intrinsics, (depth.shape[0], depth.shape[1]), path)
        return named_view(source, depth, camera, pose, image=read_photo(photo, camera.shape), name=stem)

    fx, fy, cx, cy = intrinsics
    sentence = (
        f"7-Scenes: millimetres / 1000, 0 and 65535 = missing, camera-to-world, "
        f"K = {fx:g}, {fy:g}, {cx:g}, {cy:g}; {frames(len(found))}{lost(len(files) - len(found))}"
    )
    return Dataset.of_files((_depth_file(file) for file, _ in found), load, sentence)


def _depth_file(pose_file: Path) -> Path:
    return pose_file.with_name(pose_file.name.removesuffix(".pose.txt") + ".depth.png")


def _sequences(path: Path) -> list[Path]:
    """The folder itself if it holds frames, else its seq-* folders."""
    if not path.is_dir():
        raise FileError(f"{path} is not a folder; give the folder with frame-*.pose.txt")
    if any(path.glob("frame-*.pose.txt")):
        return [path]
    return numbered([folder for folder in path.glob("seq-*") if folder.is_dir()])


def _intrinsics(path: Path) -> tuple[float, ...]:
    for folder in (path, path.parent):
        if (folder / INTRINSICS).is_file():
            return intrinsics_of(read_matrix(folder / INTRINSICS, (3, 3)))
    return KINECT
