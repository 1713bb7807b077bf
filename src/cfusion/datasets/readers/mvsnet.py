"""MVSNet and BlendedMVS: a text camera and a PFM depth map per view, world-to-camera, probability maps as confidence.

Folders: cams/%08d_cam.txt with depth_est/, depths/ or rendered_depth_maps/ and confidence/; or MVSNet's own
depths_mvsnet/ with %08d.txt, %08d_init.pfm and %08d_prob.pfm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from cfusion.arrays import Matrix
from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import (
    frames,
    left_out,
    lost,
    named_view,
    pinhole,
    pose_or_lost,
    require_some,
    unknown_unless_positive,
)
from cfusion.errors import FileError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.io.atomic import filling
from cfusion.io.codecs.pfm import read_pfm, write_pfm
from cfusion.io.codecs.photo import beside, photo_size, read_photo
from cfusion.io.codecs.png import write_image
from cfusion.io.text_tables import Line, numbered, read_lines

CAMERAS = ("cams", "cams_1")
DEPTHS = ("depth_est", "depths", "rendered_depth_maps", "depth_maps")
CONFIDENCES = ("confidence", "prob_maps", "probability")
IMAGES = ("images", "blended_images", "images_post")
OWN = "depths_mvsnet"


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    images: bool = True
    confidence: bool = True


@dataclass(frozen=True)
class _Files:
    camera: Path
    depth: Path
    confidence: Path | None
    image: Path | None


def recognises(path: Path) -> bool:
    """Text cameras with depth maps, in one of the known folders."""
    return bool(_files(path))


def read(path: Path, options: Options | None = None) -> Dataset:
    """The views that have a camera and a depth map, ordered by number."""
    chosen = options or Options()
    files = _files(path)
    posed = [(each, *read_camera(each.camera)) for each in files]
    found = [(each, intrinsics, pose.inverse()) for each, intrinsics, pose in posed if pose is not None]
    require_some(len(found), path, "depth map with a camera (cams/*_cam.txt)")

    def load(number: int) -> View:
        each, intrinsics, pose = found[number]
        depth = unknown_unless_positive(read_pfm(each.depth))
        shape = (depth.shape[0], depth.shape[1])
        trusted = each.confidence if chosen.confidence else None
        confidence = None if trusted is None else np.nan_to_num(read_pfm(trusted), nan=0.0).clip(min=0.0)
        camera = _camera(intrinsics, shape, each)
        image = read_photo(each.image, shape) if chosen.images else None
        return named_view(each.depth, depth, camera, pose, image=image, confidence=confidence, name=each.depth.stem)

    alone = set(files[0].camera.parent.glob("*_cam.txt")) - {each.camera for each in files}
    weighed = any(each.confidence is not None for each, _, _ in found) and chosen.confidence
    sentence = (
        f"MVSNet: PFM depth, 0 and inf = unknown, world-to-camera inverted"
        f"{', probability as confidence' if weighed else ''}; {frames(len(found))}{lost(len(files) - len(found))}"
        f"{left_out(len(alone), 'with a camera and no depth map')}"
    )
    return Dataset.of_files((each.depth for each, _, _ in found), load, sentence, "model unit")


def read_camera(file: Path) -> tuple[Matrix, Pose | None]:
    """K (3, 3) and camera_from_world of a cam.txt: `extrinsic` 4 x 4, `intrinsic` 3 x 3, then the depth range."""
    lines = list(read_lines(file))
    extrinsic, intrinsic = _block(file, lines, "extrinsic", 4), _block(file, lines, "intrinsic", 3)
    return intrinsic, pose_or_lost(extrinsic, str(file))


def read_pairs(file: Path) -> dict[int, tuple[int, ...]]:
    """pair.txt: the views to match with each view, best first."""
    lines = list(read_lines(file))
    pairs = {}
    for head, body in zip(lines[1::2], lines[2::2], strict=False):
        count, *rest = body.numbers()
        if len(rest) != 2 * int(count):
            raise FileError(f"{body.where} lists {int(count)} views with {len(rest)} numbers; expected two per view")
        pairs[int(head.numbers(0, 1)[0])] = tuple(int(number) for number in rest[::2])
    return pairs


def write(views: Sequence[View], folder: str | PathLike[str]) -> None:
    """Write cams/, depth_est/, confidence/, images/ and pair.txt (neighbours ordered by distance)."""
    with filling(Path(folder)) as draft:
        for place in ("cams", "depth_est", "confidence", "images"):
            (draft / place).mkdir()
        for number, view in enumerate(views):
            stem = f"{number:08d}"
            (draft / "cams" / f"{stem}_cam.txt").write_text(_camera_text(view))
            write_pfm(draft / "depth_est" / f"{stem}.pfm", np.nan_to_num(view.depth, nan=0.0))
            if view.confidence is not None:
                write_pfm(draft / "confidence" / f"{stem}.pfm", view.confidence)
            if view.image is not None:
                write_image(draft / "images" / f"{stem}.png", view.image)
        (draft / "pair.txt").write_text(_pair_text([view.pose for view in views]))


def confidence_of(path: Path, depth: Path) -> Path | None:
    """The confidence file of a depth map; None if there is none."""
    return next((each.confidence for each in _files(path) if each.depth == depth), None)


def _files(path: Path) -> list[_Files]:
    return _own_files(path / OWN if (path / OWN).is_dir() else path) or next(
        (files for cameras in CAMERAS for depths in DEPTHS if (files := _listed(path, cameras, depths))), []
    )


def _own_files(folder: Path) -> list[_Files]:
    """MVSNet's own layout: everything in one folder."""
    files = []
    for depth in numbered(list(folder.glob("*_init.pfm"))):
        stem = depth.stem.removesuffix("_init")
        camera, probability = folder / f"{stem}.txt", folder / f"{stem}_prob.pfm"
        if camera.is_file():
            trusted = probability if probability.is_file() else None
            files.append(_Files(camera, depth, trusted, beside(folder, stem)))
    return files


def _listed(path: Path, cameras: str, depths: str) -> list[_Files]:
    """A folder for each kind of file."""
    files = []
    for camera in numbered(list((path / cameras).glob("*_cam.txt"))):
        stem = camera.stem.removesuffix("_cam")
        depth = path / depths / f"{stem}.pfm"
        confidence = next((file for name in CONFIDENCES if (file := path / name / f"{stem}.pfm").is_file()), None)
        image = next((photo for name in IMAGES if (photo := beside(path / name, stem)) is not None), None)
        if depth.is_file():
            files.append(_Files(camera, depth, confidence, image))
    return files


def _block(file: Path, lines: list[Line], title: str, size: int) -> Matrix:
    starts = [index for index, line in enumerate(lines) if line.words[0].lower() == title]
    if not starts or len(lines) < starts[0] + 1 + size:
        raise FileError(f"{file} has no complete {title} matrix; expected `{title}` and {size} lines of {size} numbers")
    return np.array([line.numbers(0, size) for line in lines[starts[0] + 1 : starts[0] + 1 + size]])


def _camera(intrinsics: Matrix, shape: tuple[int, int], files: _Files) -> Pinhole:
    """The depth map's camera; if K's principal point lies outside it, K is the image's and is scaled as in MVSNet."""
    own = pinhole(intrinsics, shape, files.camera)
    if own.cx < shape[1] and own.cy < shape[0]:
        return own
    if files.image is None:
        raise FileError(f"{files.camera}: K is not of {files.depth.name} but of a larger image, which is missing")
    height, width = photo_size(files.image)
    across, down = shape[1] / width, shape[0] / height
    return pinhole((own.fx * across, own.fy * down, own.cx * across, own.cy * down), shape, files.camera)


def _camera_text(view: View) -> str:
    assert isinstance(view.camera, Pinhole)  # `write_views` refuses others
    known = view.depth[np.isfinite(view.depth)]
    near, far = (float(known.min()), float(known.max())) if known.size else (1.0, 2.0)

    def rows(matrix: Matrix) -> str:
        return "\n".join(" ".join(repr(float(value)) for value in row) for row in matrix)

    extrinsic, intrinsic = rows(view.pose.inverse().matrix()), rows(view.camera.matrix)
    return f"extrinsic\n{extrinsic}\n\nintrinsic\n{intrinsic}\n\n{near!r} {(far - near) / 191!r} 192 {far!r}\n"


def _pair_text(poses: Sequence[Pose]) -> str:
    places = np.array([pose.translation for pose in poses]).reshape(-1, 3)
    lines = [str(len(poses))]
    for number, place in enumerate(places):
        distance = np.linalg.norm(places - place, axis=1)
        near = [int(index) for index in np.argsort(distance, kind="stable") if index != number][:10]
        lines += [
            str(number),
            " ".join([str(len(near)), *(f"{index} {1 / (1 + distance[index]):.4f}" for index in near)]),
        ]
    return "\n".join([*lines, ""])
