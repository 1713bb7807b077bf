"""The bundle: a folder with `bundle.json` and the depth maps that it lists; docs/conventions.md explains every key."""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from cfusion.arrays import WeightMap
from cfusion.datasets.dataset import KEPT, Dataset, LazyViews
from cfusion.errors import FileError, InputError, named_by
from cfusion.geometry import Pose, View
from cfusion.io.arguments import path_of, views_of, word_of
from cfusion.io.atomic import filling, require_none_of
from cfusion.io.cameras import camera_from_json, camera_to_json
from cfusion.io.codecs import npy, png
from cfusion.io.json_object import JsonObject
from cfusion.io.maps import read_map

FILE_NAME = "bundle.json"
FORMAT = "cfusion-bundle"
VERSION = 1
WRITTEN = ("depth", "image", "confidence", FILE_NAME)


def recognises(path: Path) -> bool:
    """Whether it is a folder with bundle.json, or that file."""
    return path.name == FILE_NAME or (path / FILE_NAME).is_file()


def read(path: Path) -> Dataset:
    """The views of a bundle, given by its folder or its bundle.json."""
    file = path if path.name == FILE_NAME else path / FILE_NAME
    entry = JsonObject.of_file(file)
    found = entry.content.get("format"), entry.content.get("version")
    if found != (FORMAT, VERSION):
        raise FileError(f"{file} has format {found[0]!r}, version {found[1]!r}; expected {FORMAT!r}, version {VERSION}")
    entry.refuse_unknown("format", "version", "unit", "views", "reference")
    items = entry.objects("views")
    frames = LazyViews.reading(lambda number: _read_view(items[number], file.parent, number), len(items))
    views = frames if len(items) > KEPT else _checked(frames)  # a bundle that fits into the cache is checked at once
    if not items:
        raise FileError(f"{file} lists no views; add at least one")
    reference = entry.get("reference", int) if "reference" in entry else None
    unit = entry.get("unit", str) if "unit" in entry else "metre"
    sentence = f"bundle: unit {unit}, camera-to-world; {len(items)} view{'s' * (len(items) != 1)}"
    with named_by(file):
        files = tuple(each.path_inside("depth", file.parent) for each in items)
        return Dataset(views, reference, unit, sentence, files)


def _checked(frames: LazyViews) -> Sequence[View]:
    """All views; if some cannot be read, the lazy ones, which raise when such a view is accessed."""
    found: list[View] = []
    first: FileError | None = None
    for number in range(len(frames)):
        try:
            found.append(frames[number])
        except FileError as error:
            first = first or error
    if first is not None and not found:
        raise first
    return tuple(found) if first is None else frames


def write_bundle(
    views: Sequence[View],
    folder: str | PathLike[str],
    *,
    reference: int | None = None,
    unit: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write views as a bundle that `read` returns bit by bit (images: to 8 bits).

    A bundle that stands there is replaced; folders of the same names are refused where there is none, unless
    `overwrite`. Reference and unit are by default those of the data set, if `views` is one; else the unit is the metre.
    """
    views, target = views_of(views, "write_bundle"), path_of(folder, "folder")
    reference = getattr(views, "reference", None) if reference is None else reference
    unit = getattr(views, "unit", "metre") if unit is None else unit
    if len(views) == 0:
        raise InputError("no views to write; give at least one")
    header: dict[str, object] = {"format": FORMAT, "version": VERSION, "unit": word_of(unit, "unit")}
    if reference is not None:
        header["reference"] = Dataset(tuple(views), reference).reference
    if not (overwrite or recognises(target)):
        require_none_of(WRITTEN, target)
    with filling(target) as draft:
        entries = [_write_view(view, draft, f"{number:03d}") for number, view in enumerate(views)]
        text = json.dumps(header | {"views": entries}, indent=1, allow_nan=False)
        (draft / FILE_NAME).write_text(text, encoding="utf-8")


def _read_view(entry: JsonObject, folder: Path, number: int) -> View:
    entry.refuse_unknown("name", "depth", "scale", "camera", "pose", "image", "confidence", "confidence_scale")
    with named_by(entry.where):
        camera = camera_from_json(entry.object("camera"))
        size = camera.shape
        return View(
            depth=read_map(entry.path_inside("depth", folder), entry.scale("scale"), expected=size),
            camera=camera,
            pose=Pose.from_matrix(entry.matrix("pose")),
            image=png.read_image(entry.path_inside("image", folder), size) if "image" in entry else None,
            confidence=_read_confidence(entry, folder, size) if "confidence" in entry else None,
            name=entry.get("name", str) if "name" in entry else f"{number:03d}",
        )


def _read_confidence(entry: JsonObject, folder: Path, size: tuple[int, int]) -> WeightMap:
    path, scale = entry.path_inside("confidence", folder), entry.scale("confidence_scale")
    if path.suffix.lower() == ".png":
        return png.read_weights(path, scale, size)
    return read_map(path, scale, expected=size)


def _write_view(view: View, draft: Path, stem: str) -> dict[str, object]:
    entry: dict[str, object] = {
        "name": view.name or stem,
        "depth": f"depth/{stem}.npy",
        "camera": camera_to_json(view.camera),
        "pose": view.pose.matrix().tolist(),
    }
    for folder in ("depth", "image", "confidence"):
        (draft / folder).mkdir(exist_ok=True)
    npy.write_npy(draft / "depth" / f"{stem}.npy", view.depth)
    if view.image is not None:
        entry["image"] = f"image/{stem}.png"
        png.write_image(draft / "image" / f"{stem}.png", view.image)
    if view.confidence is not None:
        entry["confidence"] = f"confidence/{stem}.npy"
        npy.write_npy(draft / "confidence" / f"{stem}.npy", view.confidence)
    return entry
