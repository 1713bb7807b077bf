"""ICL-NUIM: 5000 counts per metre with a trajectory, or POV-Ray's own .depth (ray length) with .txt cameras.

Its fy is negative because its frames are left-handed: y is up in the image and in the world. Both are mirrored: with
D = diag(1, -1, 1), R becomes D R D and t becomes D t.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.arrays import Matrix
from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import frames, named_view, pinhole, require_some, unknown_unless_positive
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.io.codecs.photo import beside, read_photo
from cfusion.io.codecs.png import Encoding, read_png
from cfusion.io.codecs.trajectory import nearest, read_trajectory
from cfusion.io.text_tables import is_number, number, numbered, read_text

UNITS_PER_METRE = 5000.0
CAMERA = (481.20, 480.00, 319.50, 239.50)  # the published fy is -480.00
SIZE = (480, 640)  # of the native .depth files, which do not state it
BYTES_A_NUMBER = 64  # at most, with its separator
MIRROR = np.diag([1.0, -1.0, 1.0])
VECTOR = re.compile(r"\b(cam_[a-z]{1,20})[ \t]*=[ \t]*\[([^\]\n]{0,200})\]")
LONGEST = 1 << 20  # bytes of a camera


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    images: bool = True
    shape: tuple[int, int] = SIZE  # (H, W) of native .depth files


def recognises(path: Path) -> bool:
    """A trajectory *.gt.freiburg beside depth/, or native .depth files with their cameras."""
    return any(path.glob("*.gt.freiburg")) or bool(_native(path))


def read(path: Path, options: Options | None = None) -> Dataset:
    """The frames of a sequence, of either layout."""
    chosen = options or Options()
    return _read_native(path, chosen) if _native(path) else _read_png(path, chosen)


def mirrored(rotation: Matrix, place: Matrix) -> Pose:
    """A pose in ICL-NUIM's left-handed frames, converted to right-handed ones."""
    return Pose(MIRROR @ rotation @ MIRROR, MIRROR @ place)


def _read_png(path: Path, options: Options) -> Dataset:
    """depth/%d.png, matched with the trajectory by number."""
    times, poses = read_trajectory(_trajectory(path))
    found: list[tuple[Path, Pose]] = []
    files = numbered(list((path / "depth").glob("*.png")))
    for file in files:
        at, apart = nearest(times, float(file.stem) if is_number(file.stem) else float("nan"))
        pose = poses[at] if apart == 0 else None
        if pose is not None:
            found.append((file, mirrored(pose.rotation, pose.translation)))
    require_some(len(found), path, "depth/*.png whose number is in the trajectory")

    def load(index: int) -> View:
        file, pose = found[index]
        depth = read_png(file, Encoding(1 / UNITS_PER_METRE))
        camera = pinhole(CAMERA, (depth.shape[0], depth.shape[1]), file)
        photo = beside(path / "rgb", file.stem) if options.images else None
        return named_view(file, depth, camera, pose, image=read_photo(photo, camera.shape), name=file.stem)

    left = len(files) - len(found)
    without = f"; {left} without a pose skipped" if left else ""
    sentence = (
        f"ICL-NUIM: {UNITS_PER_METRE:g} counts per metre, 0 and 65535 = missing, camera-to-world, fy = -480 made "
        f"positive by mirroring y; {frames(len(found))}{without}"
    )
    return Dataset.of_files((each[0] for each in found), load, sentence)


def _read_native(path: Path, options: Options) -> Dataset:
    """scene_%02d_%04d.depth (text, one ray length per pixel) with POV-Ray's camera in the .txt of the same name."""
    files = _native(path)

    def load(index: int) -> View:
        file = files[index]
        camera, pose = _povray(file.with_suffix(".txt"), options.shape)
        length = _lengths(file, options.shape)
        depth = unknown_unless_positive(length * camera.rays()[..., 2])
        photo = beside(file.parent, file.stem) if options.images else None
        return named_view(file, depth, camera, pose, image=read_photo(photo, camera.shape), name=file.stem)

    sentence = (
        "ICL-NUIM, POV-Ray's own files: ray length turned into z, fy = -480 made positive by mirroring y; "
        f"{frames(len(files))}"
    )
    return Dataset.of_files(files, load, sentence)


def _native(path: Path) -> list[Path]:
    return numbered([file for file in path.glob("*.depth") if file.with_suffix(".txt").is_file()])


def _trajectory(path: Path) -> Path:
    files = sorted(path.glob("*.gt.freiburg"))
    if not files:
        raise FileError(f"{path} has no trajectory *.gt.freiburg; copy it beside depth/")
    return files[0]


def _lengths(file: Path, shape: tuple[int, int]) -> Matrix:
    words = read_text(file, BYTES_A_NUMBER * shape[0] * shape[1]).split()
    if len(words) != shape[0] * shape[1]:
        raise FileError(f"{file} holds {len(words)} numbers, expected {shape[1]} x {shape[0]}; copy it again")
    try:
        return np.array(words, dtype=np.float64).reshape(shape)
    except ValueError:
        raise FileError(f"{file} holds words that are not numbers; copy it again") from None


def _povray(file: Path, shape: tuple[int, int]) -> tuple[Pinhole, Pose]:
    """Camera and pose from cam_pos, cam_dir, cam_up and cam_right."""
    vectors: dict[str, Matrix] = {}
    for name, words in VECTOR.findall(read_text(file, LONGEST)):
        try:
            vectors[name] = np.array([number(word.strip()) for word in words.split(",")])
        except ValueError as error:
            raise FileError(f"{file}: {name}: {error}") from None
    missing = [key for key in ("cam_pos", "cam_dir", "cam_up", "cam_right") if vectors.get(key, MIRROR).shape != (3,)]
    if missing:
        raise FileError(f"{file} does not give {missing[0]} as three numbers; expected a POV-Ray camera")
    forward, up, across = (vectors[key] for key in ("cam_dir", "cam_up", "cam_right"))
    right = np.cross(up, forward)
    lengths = [float(np.linalg.norm(each)) for each in (forward, up, across, right)]
    if not all(0 < length < np.inf for length in lengths):
        raise FileError(f"{file}: a direction of the camera is zero, not finite, or parallel to another")
    focal, tall, wide, _ = lengths
    forward, right = forward / focal, right / lengths[3]
    height, width = shape
    try:
        pose = mirrored(np.column_stack([right, np.cross(forward, right), forward]), vectors["cam_pos"])
        centre = (width - 1) / 2, (height - 1) / 2
        return Pinhole(focal * width / wide, focal * height / tall, *centre, width, height), pose
    except InputError as error:
        raise FileError(f"{file}: {error}") from None
