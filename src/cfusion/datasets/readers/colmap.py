"""COLMAP dense workspace: sparse model, stereo/depth_maps; world-to-camera, qw first, arbitrary scale.

COLMAP's K has the centre of the first pixel at (0.5, 0.5), but its depth maps are computed and fused by back-projecting
integer pixel coordinates with that K. Read the same way (`pixel_centre="whole"`), our points lie on its fused.ply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import (
    bent_by,
    frames,
    left_out,
    named_view,
    require_some,
    unknown_unless_positive,
    without_images,
)
from cfusion.errors import FileError, InputError, named_by
from cfusion.geometry import Pinhole, View, normals
from cfusion.geometry.quaternion import quaternion_of
from cfusion.io.atomic import filling
from cfusion.io.codecs.colmap_map import read_colmap_map, write_colmap_map
from cfusion.io.codecs.colmap_model import ModelCamera, ModelImage, has_model, read_model
from cfusion.io.codecs.colmap_points import tracks
from cfusion.io.codecs.photo import read_photo
from cfusion.io.codecs.png import write_image
from cfusion.io.paths import path_inside
from cfusion.io.text_tables import numbered

KINDS = ("geometric", "photometric")
PIXEL_CENTRES = ("whole", "half")


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    maps: str = "geometric"  # or photometric, before views are compared
    pixel_centre: str = "whole"  # as COLMAP computes them; "half": as its K is defined
    images: bool = True

    def __post_init__(self) -> None:
        if self.maps not in KINDS:
            raise InputError(f"maps is {self.maps!r}; choose one of: {', '.join(KINDS)}")
        if self.pixel_centre not in PIXEL_CENTRES:
            raise InputError(f"pixel_centre is {self.pixel_centre!r}; choose one of: {', '.join(PIXEL_CENTRES)}")


def recognises(path: Path) -> bool:
    """A folder with stereo/depth_maps and a sparse model."""
    return (path / "stereo" / "depth_maps").is_dir() and model_folder(path) is not None


def lacks(path: Path) -> str | None:
    """What is missing beside a sparse model, or beside depth maps."""
    if (path / "stereo" / "depth_maps").is_dir():
        return (
            "is a COLMAP workspace without a model; copy the one that `colmap image_undistorter` wrote to its sparse/: "
            "cameras and images, .bin or .txt"
        )
    folder = next((each for each in (path, path / "0") if has_model(each)), model_folder(path))
    if folder is None:
        return None
    return (
        "is a COLMAP model without stereo/depth_maps; give its dense workspace (often dense/0), "
        "which `colmap image_undistorter` and then `colmap patch_match_stereo` make"
    )


def read(path: Path, options: Options | None = None) -> Dataset:
    """The views that have a depth map of the chosen kind."""
    chosen = options or Options()
    folder = model_folder(path)
    if folder is None:
        raise FileError(f"{path} has no model in sparse/ (cameras and images, .bin or .txt); give a dense workspace")
    model = read_model(folder)
    maps = path / "stereo" / "depth_maps"
    found: list[tuple[Path, ModelImage]] = []
    for image in model.images:
        file = path_inside(maps, f"{image.name}.{chosen.maps}.bin", f"{folder}: an image")
        if file.is_file():
            found.append((file, image))
    if not found:
        other = next(kind for kind in KINDS if kind != chosen.maps)
        if any((maps / f"{image.name}.{other}.bin").is_file() for image in model.images):
            raise FileError(
                f"{maps} holds {other} maps only; pass --option maps={other}, or make the {chosen.maps} ones"
            )
    require_some(len(found), maps, f"*.{chosen.maps}.bin of an image in the model")
    order = {file: place for place, file in enumerate(numbered([file for file, _ in found]))}
    found.sort(key=lambda each: order[each[0]])

    def load(number: int) -> View:
        file, image = found[number]
        depth = unknown_unless_positive(read_colmap_map(file))
        if depth.ndim != 2:
            raise FileError(f"{file} has {depth.shape[-1]} channels; expected depth only")
        camera = _camera(model.cameras[image.camera], (depth.shape[0], depth.shape[1]), chosen, file)
        photo = path_inside(path / "images", image.name, str(folder)) if chosen.images else None
        pose = image.camera_from_world.inverse()
        return named_view(file, depth, camera, pose, image=read_photo(photo, camera.shape), name=image.name)

    sentence = (
        f"COLMAP: {chosen.maps} depth, 0 = unknown, world-to-camera inverted, qw first, arbitrary scale, "
        f"{'whole pixels back-projected with K, as COLMAP does' if chosen.pixel_centre == 'whole' else 'K less 0.5'}; "
        f"{frames(len(found))}{left_out(len(model.images) - len(found), 'without a depth map')}"
        f"{without_images(path_inside(path / 'images', each.name, str(folder)) for _, each in found if chosen.images)}"
    )
    return Dataset.of_files((each[0] for each in found), load, sentence, "model unit")


def write(views: Sequence[View], folder: str | PathLike[str]) -> None:
    """Write a workspace that COLMAP can fuse: text model with some points, images, geometric depth and normal maps."""
    names = [f"{number:06d}.png" for number in range(len(views))]
    sparse = tracks(views)
    with filling(Path(folder)) as draft:
        for place in ("sparse", "images", "stereo/depth_maps", "stereo/normal_maps", "stereo/consistency_graphs"):
            (draft / place).mkdir(parents=True)
        cameras, images = [], []
        for number, (name, view) in enumerate(zip(names, views, strict=True), start=1):
            camera = view.camera
            assert isinstance(camera, Pinhole)  # `write_views` refuses others
            intrinsics = _text((camera.fx, camera.fy, camera.cx, camera.cy))
            cameras.append(f"{number} PINHOLE {camera.width} {camera.height} {intrinsics}")
            pose = view.pose.inverse()
            placed = _text((*quaternion_of(pose.rotation), *(float(value) for value in pose.translation)))
            images.append(f"{number} {placed} {number} {name}\n{sparse.image_line(number - 1)}")
            photo = np.zeros(view.shape, np.float32) if view.image is None else view.image
            write_image(draft / "images" / name, photo)
            write_colmap_map(draft / "stereo/depth_maps" / f"{name}.geometric.bin", view.depth)
            write_colmap_map(draft / "stereo/normal_maps" / f"{name}.geometric.bin", normals(view.depth, camera))
        (draft / "sparse/cameras.txt").write_text("\n".join([*cameras, ""]))
        (draft / "sparse/images.txt").write_text("\n".join([*images, ""]))
        (draft / "sparse/points3D.txt").write_text("\n".join([*sparse.point_lines(), ""]))
        (draft / "stereo/fusion.cfg").write_text("\n".join([*names, ""]))
        (draft / "stereo/patch-match.cfg").write_text("".join(f"{name}\n__auto__, 20\n" for name in names))


def model_folder(path: Path) -> Path | None:
    """The folder of the sparse model, sparse or sparse/0."""
    return next((folder for folder in (path / "sparse", path / "sparse" / "0") if has_model(folder)), None)


def _camera(camera: ModelCamera, shape: tuple[int, int], options: Options, file: Path) -> Pinhole:
    """The camera of a depth map; if it is smaller than the image, K is scaled without an offset, as in COLMAP."""
    lens = camera.brown_conrady
    if lens is None:
        raise FileError(f"{file}: its camera is {camera.model} with distortion; run colmap image_undistorter first")
    across, down = shape[1] / camera.width, shape[0] / camera.height
    fx, fy, cx, cy = camera.intrinsics
    less = 0.5 if options.pixel_centre == "half" else 0.0
    with named_by(file):
        straight = Pinhole(fx * across, fy * down, cx * across - less, cy * down - less, shape[1], shape[0])
        return bent_by(straight, lens)


def _text(values: tuple[float, ...]) -> str:
    return " ".join(repr(float(value)) for value in values)
