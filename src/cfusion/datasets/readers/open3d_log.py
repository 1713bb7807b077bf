"""Open3D trajectories beside depth PNGs: .log is camera-to-world by rows, .json world-to-camera by columns."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from cfusion.arrays import Matrix
from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import frames, lost, named_view, pinhole, pose_or_lost, require_some
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.geometry.camera import intrinsics_of
from cfusion.io.atomic import filling
from cfusion.io.codecs.photo import beside, read_photo
from cfusion.io.codecs.png import Encoding, read_png, write_counts, write_image
from cfusion.io.json_object import JsonObject
from cfusion.io.text_tables import numbered, read_lines, read_text

UNITS_PER_METRE = 1000.0
PRIMESENSE = (525.0, 525.0, 319.5, 239.5)
PLACES = ("", "scene")  # of a trajectory
INTRINSICS = ("camera_intrinsic.json", "intrinsic.json", "camera.json", "camera_primesense.json")
COLOURS = ("image", "color", "rgb")
TRAJECTORY = "PinholeCameraTrajectory"
VERSION: dict[str, object] = {"version_major": 1, "version_minor": 0}


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    units_per_metre: float = UNITS_PER_METRE
    camera: tuple[float, ...] | None = None  # fx, fy, cx, cy for a .log without intrinsics
    images: bool = True

    def __post_init__(self) -> None:
        if not self.units_per_metre > 0 or (self.camera is not None and len(self.camera) != 4):
            raise InputError("give a positive units_per_metre, and fx, fy, cx, cy for camera")


def recognises(path: Path) -> bool:
    """A folder with depth/ and a trajectory, .json or .log."""
    return (path / "depth").is_dir() and _trajectory(path) is not None


def read(path: Path, options: Options | None = None) -> Dataset:
    """Depth maps in order, pose k for map k."""
    chosen = options or Options()
    trajectory = _trajectory(path)
    if trajectory is None:
        raise FileError(f"{path} has no trajectory (.json or .log); copy it beside depth/")
    files = numbered(list((path / "depth").glob("*.png")))
    posed = _read_json(trajectory) if trajectory.suffix == ".json" else _read_log(trajectory, _intrinsics(path, chosen))
    if len(posed) != len(files):
        raise FileError(f"{trajectory} has {len(posed)} poses for {len(files)} depth maps; give one per map, in order")
    found = [(file, pose, k) for file, (pose, k) in zip(files, posed, strict=True) if pose is not None]
    require_some(len(found), path, "depth/*.png with a pose")

    def load(number: int) -> View:
        file, pose, intrinsics = found[number]
        depth = read_png(file, Encoding(1 / chosen.units_per_metre))
        camera = pinhole(intrinsics, (depth.shape[0], depth.shape[1]), trajectory)
        photo = next((each for name in COLOURS if (each := beside(path / name, file.stem)) is not None), None)
        image = read_photo(photo, camera.shape) if chosen.images else None
        return named_view(file, depth, camera, pose, image=image, name=file.stem)

    how = "world-to-camera by columns, inverted" if trajectory.suffix == ".json" else "camera-to-world by rows"
    sentence = (
        f"Open3D {trajectory.name}: {how}, counts / {chosen.units_per_metre:g}, 0 and 65535 = missing; "
        f"{frames(len(found))}{lost(len(files) - len(found))}"
    )
    return Dataset.of_files((each[0] for each in found), load, sentence)


def write(views: Sequence[View], folder: str | PathLike[str]) -> None:
    """Write depth/ in millimetres, image/, trajectory.log and trajectory.json; depth beyond 65.5 m becomes unknown."""
    with filling(Path(folder)) as draft:
        for name in ("depth", "image"):
            (draft / name).mkdir()
        for number, view in enumerate(views):
            write_counts(draft / "depth" / f"{number:06d}.png", view.depth, 1 / UNITS_PER_METRE)
            if view.image is not None:
                write_image(draft / "image" / f"{number:06d}.png", view.image)
        (draft / "trajectory.log").write_text(log_text([view.pose for view in views]))
        (draft / "trajectory.json").write_text(json.dumps(_trajectory_json(views), indent=1))


def log_text(poses: Sequence[Pose]) -> str:
    """A .log: three numbers that identify the frame, then camera-to-world by rows."""
    lines = []
    for number, pose in enumerate(poses):
        lines.append(f"{number} {number} {number + 1}")
        lines += [" ".join(repr(float(value)) for value in row) for row in pose.matrix()]
    return "\n".join([*lines, ""])


def _trajectory(path: Path) -> Path | None:
    for place in PLACES:
        for file in sorted((path / place).glob("*.json")):
            if _is_trajectory(file):
                return file
    return next((file for place in PLACES for file in sorted((path / place).glob("*.log"))), None)


def _is_trajectory(file: Path) -> bool:
    return file.is_file() and file.stat().st_size < 1 << 27 and TRAJECTORY in read_text(file)


def _read_log(file: Path, intrinsics: tuple[float, ...]) -> list[tuple[Pose | None, Matrix | tuple[float, ...]]]:
    lines = list(read_lines(file))
    if len(lines) % 5 != 0:
        raise FileError(f"{file} has {len(lines)} lines, expected 5 per pose; copy it again")
    posed: list[tuple[Pose | None, Matrix | tuple[float, ...]]] = []
    for start in range(0, len(lines), 5):
        matrix = np.array([line.numbers(0, 4) for line in lines[start + 1 : start + 5]])
        posed.append((pose_or_lost(matrix, lines[start].where), intrinsics))
    return posed


def _read_json(file: Path) -> list[tuple[Pose | None, Matrix | tuple[float, ...]]]:
    posed: list[tuple[Pose | None, Matrix | tuple[float, ...]]] = []
    for entry in JsonObject.of_file(file).objects("parameters"):
        extrinsic = _columns(entry, "extrinsic", 4)
        camera_from_world = pose_or_lost(extrinsic, entry.where)
        pose = None if camera_from_world is None else camera_from_world.inverse()
        posed.append((pose, _columns(entry.object("intrinsic"), "intrinsic_matrix", 3)))
    return posed


def _columns(entry: JsonObject, key: str, size: int) -> Matrix:
    values = entry.matrix(key)
    if values.shape != (size * size,):
        raise FileError(f"{entry.where}.{key} has shape {values.shape}, expected {size * size} numbers by columns")
    return values.reshape(size, size).T


def _intrinsics(path: Path, options: Options) -> tuple[float, ...]:
    if options.camera is not None:
        return options.camera
    for name in INTRINSICS:
        if (path / name).is_file():
            return intrinsics_of(_columns(JsonObject.of_file(path / name), "intrinsic_matrix", 3))
    return PRIMESENSE


def _trajectory_json(views: Sequence[View]) -> dict[str, object]:
    parameters = []
    for view in views:
        assert isinstance(view.camera, Pinhole)  # `write_views` refuses others
        intrinsic = {
            "height": view.camera.height,
            "width": view.camera.width,
            "intrinsic_matrix": view.camera.matrix.T.ravel().tolist(),
        }
        extrinsic = view.pose.inverse().matrix().T.ravel().tolist()
        camera = {"class_name": "PinholeCameraParameters", "extrinsic": extrinsic, "intrinsic": intrinsic}
        parameters.append({**camera, **VERSION})
    return {"class_name": TRAJECTORY, "parameters": parameters, **VERSION}
