"""Replica as exported for SLAM: results/depth*.png with 6553.5 counts per metre, traj.txt camera-to-world."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import frames, lost, named_view, pinhole, pose_or_lost, require_some
from cfusion.errors import FileError
from cfusion.geometry import View
from cfusion.io.codecs.photo import beside, read_photo
from cfusion.io.codecs.png import Encoding, read_png
from cfusion.io.json_object import JsonObject
from cfusion.io.paths import also
from cfusion.io.text_tables import numbered, read_lines

UNITS_PER_METRE = 6553.5
CAMERA = (600.0, 600.0, 599.5, 339.5)  # 1200 x 680
PARAMETERS = "cam_params.json"  # beside the scenes


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    images: bool = True


def recognises(path: Path) -> bool:
    """A folder with traj.txt and results/depth*.png."""
    return (path / "traj.txt").is_file() and any((path / "results").glob("depth*.png"))


def read(path: Path, options: Options | None = None) -> Dataset:
    """The frames of a scene, in order: line k of the trajectory is the pose of depth map k."""
    chosen = options or Options()
    files = numbered(list((path / "results").glob("depth*.png")))
    lines = list(read_lines(path / "traj.txt"))
    if len(lines) < len(files):
        raise FileError(f"{path / 'traj.txt'} has {len(lines)} poses for {len(files)} depth maps; give one per map")
    poses = (pose_or_lost(np.array(line.numbers(0, 16)).reshape(4, 4), line.where) for line in lines)
    found = [(file, pose) for file, pose in zip(files, poses, strict=False) if pose is not None]
    require_some(len(found), path, "results/depth*.png with a pose")
    with also(path.resolve().parent):
        camera, units_per_metre = _parameters(path)

    def load(number: int) -> View:
        file, pose = found[number]
        depth = read_png(file, Encoding(1 / units_per_metre))
        seen = pinhole(camera, (depth.shape[0], depth.shape[1]), path)
        photo = beside(file.parent, file.stem.replace("depth", "frame")) if chosen.images else None
        return named_view(file, depth, seen, pose, image=read_photo(photo, seen.shape), name=file.stem)

    sentence = (
        f"Replica: {units_per_metre:g} counts per metre, 0 and 65535 = missing, camera-to-world; "
        f"{frames(len(found))}{lost(len(files) - len(found))}"
    )
    return Dataset.of_files((each[0] for each in found), load, sentence)


def counts_a_metre(path: Path) -> float:
    """The scale of the scene's depth maps."""
    return _parameters(path)[1]


def _parameters(path: Path) -> tuple[tuple[float, ...], float]:
    """fx, fy, cx, cy and counts per metre, from the cam_params.json of the scene or its parent if there is one."""
    for folder in (path, path.resolve().parent):
        if (folder / PARAMETERS).is_file():
            entry = JsonObject.of_file(folder / PARAMETERS).object("camera")
            scale = entry.scale("scale")
            camera = tuple(entry.number(key) for key in ("fx", "fy", "cx", "cy"))
            return camera, UNITS_PER_METRE if scale is None else scale
    return CAMERA, UNITS_PER_METRE
