"""The fused frames of a folder (one result, a sequence or a scene), read when used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap
from cfusion.errors import FileError
from cfusion.geometry import Camera, Pose
from cfusion.geometry.camera import pixel_size
from cfusion.io.cameras import camera_from_json
from cfusion.io.codecs.npy import read_npy
from cfusion.io.codecs.ply import MOST_ROUNDING, rounding
from cfusion.io.json_object import JsonObject

RESULT, PAGE = "result.json", "report.html"
KEPT = 32  # frames whose maps are cached
LAYERS = ("sigma", "confidence", "provenance")


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a frame by name: depth, and any others."""

    depth: DepthMap
    others: dict[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class FusedFrame:
    """A fused view: its camera and pose, its page, and its maps, read when used."""

    name: str
    camera: Camera
    pose: Pose  # world_from_camera
    maps: Callable[[], Maps]
    page: Path | None = None  # page of this frame only
    input: str = ""  # path of the data set that it was fused from; empty if unknown
    number: int | None = None  # index of its view in that data set; None if unknown
    scene: Path | None = None  # output folder of its scene, from which its page can be made


def open_frames(folder: Path) -> Sequence[FusedFrame]:
    """The frames of a result folder, of a folder of results (a sequence), or of a scene."""
    if (folder / RESULT).is_file():
        return [_of_result(folder)]
    windows = sorted(path.parent for path in folder.glob(f"*/{RESULT}"))
    if windows:
        return [_of_result(each, in_sequence=True) for each in windows]
    if (folder / "cfusion").is_dir():
        found = _of_scene(folder)
        if found:
            return found
    raise FileError(f"{folder} holds no result, no sequence of results and no scene; give the OUT of fuse or scene")


def near_origin(frames: Sequence[FusedFrame]) -> Sequence[FusedFrame]:
    """The frames moved to the origin if they are too far away for single precision, in which they are drawn."""
    for k in sorted(range(len(frames)), key=lambda k: abs(k - len(frames) // 2)):  # from the middle outwards
        frame = frames[k]
        depth = frame.maps().depth
        known = depth[np.isfinite(depth)]
        if known.size:
            break
    else:
        return frames
    place = frame.pose.translation
    if rounding(place) <= MOST_ROUNDING * float(np.median(pixel_size(frame.camera, known))):
        return frames
    moved = [Pose(frame.pose.rotation, frame.pose.translation - np.rint(place)) for frame in frames]
    return [replace(frame, pose=pose) for frame, pose in zip(frames, moved, strict=True)]


def _of_result(folder: Path, *, in_sequence: bool = False) -> FusedFrame:
    entry = JsonObject.of_file(folder / RESULT)
    if "camera" not in entry:
        raise FileError(f"{folder / RESULT} has no camera; maps without one are shown by their page only")
    camera = camera_from_json(entry.object("camera"))
    pose = Pose.from_matrix(entry.matrix("pose")) if "pose" in entry else Pose.identity()
    page = folder / PAGE
    source = entry.content.get("input")
    return FusedFrame(
        name=folder.name,
        camera=camera,
        pose=pose,
        maps=lambda: _read(folder),
        page=page if page.is_file() else None,
        input=source if isinstance(source, str) else "",
        number=int(folder.name) if in_sequence and folder.name.isdigit() else None,
    )


@lru_cache(KEPT)
def _read(folder: Path) -> Maps:
    if not (folder / "depth.npy").is_file():
        raise FileError(f"{folder} has no depth.npy; write the result with npy to view it")
    others: dict[str, NDArray[Any]] = {
        name: read_npy(folder / f"{name}.npy") for name in LAYERS if (folder / f"{name}.npy").is_file()
    }
    return Maps(np.asarray(read_npy(folder / "depth.npy"), np.float32), others)


def _of_scene(folder: Path) -> list[FusedFrame]:
    from cfusion.scene.fused_view import read_fused
    from cfusion.scene.record import FILE

    root = folder / "cfusion"
    found = []
    for file in sorted(root.glob(f"views/*/*/{FILE}")):
        number = int(file.parent.name)
        fused = read_fused(root, number)

        def maps(number: int = number, inside: Path = file.parent) -> Maps:
            again = read_fused(root, number)
            return Maps(again.depth, {"sigma": again.sigma, **scene_layers(inside)})

        frame = FusedFrame(fused.name, fused.camera, fused.pose, maps, number=number, scene=folder)
        found.append(frame)
    return found


def scene_layers(folder: Path) -> dict[str, NDArray[Any]]:
    """Further maps of a view that a scene stored: number of observations and confidence."""
    files = {"provenance": "observed.npy", "confidence": "confidence.npy"}
    return {name: read_npy(folder / file) for name, file in files.items() if (folder / file).is_file()}
