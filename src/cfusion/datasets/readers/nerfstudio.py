"""nerfstudio transforms.json: OpenGL axes, camera-to-world, depth in units of depth_unit_scale_factor metres.

Its pixel centres are at half-integers, so 0.5 is subtracted from cx and cy. instant-ngp's `integer_depth_scale` is
also supported. Depth is z along the axis, .png (counts) or .npy, both times the factor.
"""

import json
import math
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
    lost,
    named_view,
    pose_or_lost,
    require_some,
    resized_pinhole,
    unknown_unless_positive,
    without_images,
)
from cfusion.errors import FileError, InputError, named_by
from cfusion.geometry import Pinhole, Pose, View
from cfusion.io.atomic import filling
from cfusion.io.codecs.npy import write_npy
from cfusion.io.codecs.photo import read_photo
from cfusion.io.codecs.png import write_image
from cfusion.io.json_object import JsonObject
from cfusion.io.maps import read_map
from cfusion.io.paths import path_inside

FILE_NAME = "transforms.json"
DEFAULT_FACTOR = 0.001  # millimetres, nerfstudio's own default
OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])  # opengl_from_opencv, and back
HALF = 0.5
DEPTH_KEYS = ("depth_file_path", "depth_path")
DISTORTIONS = ("k1", "k2", "p1", "p2", "k3")
FISHEYE = ("OPENCV_FISHEYE", "EQUIRECTANGULAR", "FISHEYE624")


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    depth_unit_scale_factor: float | None = None  # metres per count; None: the file's, or 0.001
    ignore_distortion: bool = False  # treat a slightly distorting lens as a pinhole
    images: bool = True

    def __post_init__(self) -> None:
        if self.depth_unit_scale_factor is not None and not self.depth_unit_scale_factor > 0:
            raise InputError(f"depth_unit_scale_factor is {self.depth_unit_scale_factor}; give a positive factor")


def recognises(path: Path) -> bool:
    """A folder with transforms.json, or that file itself."""
    return path.name == FILE_NAME or (path / FILE_NAME).is_file()


def read(path: Path, options: Options | None = None) -> Dataset:
    """The frames that have a depth map."""
    chosen = options or Options()
    file = path if path.name == FILE_NAME else path / FILE_NAME
    whole = JsonObject.of_file(file)
    factor, why = depth_factor(whole, chosen)
    entries = whole.objects("frames")
    with_depth = [(entry, key) for entry in entries for key in DEPTH_KEYS if key in entry]
    if not with_depth:
        raise FileError(f"{file} lists no depth maps; add depth_file_path to its frames")
    found: list[tuple[JsonObject, Path, Pose]] = []
    for entry, key in with_depth:
        camera_to_world = entry.matrix("transform_matrix")
        if camera_to_world.shape not in ((4, 4), (3, 4)):
            raise FileError(f"{entry.where}.transform_matrix is {camera_to_world.shape}, expected 4 x 4")
        pose = pose_or_lost(camera_to_world @ OPENGL, entry.where)
        if pose is not None:
            found.append((entry, path_inside(file.parent, entry.get(key, str), entry.where), pose))
    require_some(len(found), file, "frame with a pose")

    def photo(entry: JsonObject) -> Path | None:
        named = "file_path" in entry and chosen.images
        return path_inside(file.parent, entry.get("file_path", str), entry.where) if named else None

    def load(number: int) -> View:
        entry, source, pose = found[number]
        depth = unknown_unless_positive(read_map(source, factor))
        camera = _camera(entry, whole, (depth.shape[0], depth.shape[1]), chosen)
        image = read_photo(photo(entry), camera.shape)
        return named_view(source, depth, camera, pose, image=image, name=source.stem)

    sentence = (
        f"nerfstudio: OpenGL axes turned, camera-to-world, depth x {factor:g} ({why}), 0 = unknown, cx, cy less 0.5; "
        f"{frames(len(found))}{lost(len(with_depth) - len(found))}"
        f"{left_out(len(entries) - len(with_depth), 'without a depth map')}"
        f"{without_images(photo(entry) for entry, _, _ in found)}"
    )
    return Dataset.of_files((each[1] for each in found), load, sentence)


def write(views: Sequence[View], folder: str | PathLike[str]) -> None:
    """Write transforms.json with intrinsics per frame, images/ and depth/ (.npy in metres, factor 1)."""
    entries: list[dict[str, object]] = []
    with filling(Path(folder)) as draft:
        for name in ("images", "depth"):
            (draft / name).mkdir()
        for number, view in enumerate(views):
            camera = view.camera
            assert isinstance(camera, Pinhole)  # `write_views` refuses others
            depth, photo = f"depth/{number:06d}.npy", f"images/{number:06d}.png"
            write_npy(draft / depth, np.nan_to_num(view.depth, nan=0.0))
            write_image(draft / photo, np.zeros(view.shape, np.float32) if view.image is None else view.image)
            pose = view.pose.matrix() @ OPENGL
            entries.append(
                {
                    **{"fl_x": camera.fx, "fl_y": camera.fy, "cx": camera.cx + HALF, "cy": camera.cy + HALF},
                    **{"w": camera.width, "h": camera.height},
                    **{"file_path": photo, "depth_file_path": depth, "transform_matrix": pose.tolist()},
                }
            )
        content = {"camera_model": "OPENCV", "depth_unit_scale_factor": 1.0, "frames": entries}
        (draft / FILE_NAME).write_text(json.dumps(content, indent=1))


def depth_factor(whole: JsonObject, options: Options) -> tuple[float, str]:
    """Metres per count, and where that is stated."""
    if options.depth_unit_scale_factor is not None:
        return options.depth_unit_scale_factor, "the option"
    for key in ("depth_unit_scale_factor", "integer_depth_scale"):
        factor = whole.scale(key)
        if factor is not None:
            return factor, f"{key} of the file"
    return DEFAULT_FACTOR, "nerfstudio's default"


def _camera(entry: JsonObject, whole: JsonObject, shape: tuple[int, int], options: Options) -> Pinhole:
    """The intrinsics of the frame, or of all frames, for a depth map that may be smaller than the image."""

    def value(key: str, otherwise: float | None = None) -> float:
        for place in (entry, whole):
            if key in place:
                return place.number(key)
        if otherwise is None:
            raise FileError(f"{entry.where} has no {key}, and neither has the whole file; add it")
        return otherwise

    def focal(key: str, angle: str, size: int, otherwise: float | None = None) -> float:
        """In pixels, or from a field of view in radians, as Blender and instant-ngp state it."""
        if key in entry or key in whole or angle not in whole:
            return value(key, otherwise)
        field = whole.number(angle)
        if not 0 < field < math.pi:
            raise FileError(f"{whole.where}.{angle} is {field:g}; give a field of view in radians, between 0 and pi")
        return size / (2 * math.tan(field / 2))

    model = whole.content.get("camera_model")
    if model in FISHEYE or value("k4", 0.0) != 0.0:
        kind = model if model in FISHEYE else "k4"
        raise FileError(f"{entry.where}: its camera is a fisheye ({kind}), not a perspective one; undistort it first")
    lens = [0.0 if options.ignore_distortion else value(key, 0.0) for key in DISTORTIONS]
    image_shape = round(value("h", shape[0])), round(value("w", shape[1]))
    if 0 in image_shape:
        raise FileError(f"{entry.where} has an image of empty size (w, h)")
    fx = focal("fl_x", "camera_angle_x", image_shape[1])
    fy = focal("fl_y", "camera_angle_y", image_shape[0], fx)
    centre = value("cx", image_shape[1] / 2) - HALF, value("cy", image_shape[0] / 2) - HALF
    with named_by(entry.where):
        return bent_by(resized_pinhole((fx, fy, *centre), image_shape, shape), lens)
