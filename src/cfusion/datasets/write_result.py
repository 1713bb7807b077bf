"""Write a result: maps in the chosen formats, a point cloud, and result.json with its settings and outcome."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cfusion.datasets.fingerprint import file_fingerprint
from cfusion.errors import FileError, InputError
from cfusion.geometry.camera import pixel_size
from cfusion.io.arguments import path_of, word_of, words_of
from cfusion.io.atomic import filling, obsolete_in
from cfusion.io.cameras import camera_to_json
from cfusion.io.codecs import exr, npy, pfm, png
from cfusion.io.codecs.ply import write_ply
from cfusion.io.colour_pictures import depth_colours, png_bytes, point_colours, sigma_colours
from cfusion.io.json_object import JsonObject
from cfusion.io.to_json import to_json
from cfusion.io.versions import versions

if TYPE_CHECKING:
    from cfusion.result import Result

USUAL = ("npy", "png", "pfm", "ply")
FORMATS = (*USUAL, "exr")
FORMAT = "cfusion-result"
VERSION = 1
OWN_FILES = (
    *("depth.*", "confidence.*", "sigma.*", "provenance.*", "points.ply", "result.json"),
    *("depth_colour.png", "sigma_colour.png", "report.html"),
)
PROVENANCE = png.Encoding(scale=1.0, offset=-1.0)  # count 0 = unknown, 1 = filled, n + 1 = observed n times

PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.0)  # seconds: a writer moves its result.json out first and in last
Files = dict[str, dict[str, object]]


def files_of_others(folder: Path) -> list[Path]:
    """Files that a result would replace although no result.json lists them; a page alone may be `Result.report`'s."""
    listed, found = folder / "result.json", []
    for wait in PATIENCE:
        with suppress(FileError):  # a damaged one lists nothing that could be lost
            if listed.exists() and JsonObject.of_file(listed).content.get("format") != FORMAT:
                return [listed]
        if listed.exists():
            return []
        with suppress(OSError):  # what cannot be listed is refused when it is written to
            found = [path for path in obsolete_in(folder, OWN_FILES) if path.name != "report.html"]
        if not found:
            return []
        sleep(wait)  # another writer may just be putting a result there
    return found


def require_formats(formats: Sequence[str]) -> None:
    """Raise before any computation if results cannot be written in these formats."""
    for name in words_of(formats, "formats"):
        if name not in FORMATS:
            raise InputError(f"results cannot be written as {name!r}; choose from {', '.join(FORMATS)}")
    if "png" in formats:
        png.pillow_image()
    if "exr" in formats:
        exr.require_openexr()


def write_result(
    result: "Result",
    folder: str | PathLike[str],
    formats: Sequence[str] = USUAL,
    *,
    source: str | None = None,
    unit: str = "metre",
    settings: Mapping[str, object] | None = None,
    encoding: png.Encoding | None = None,
    overwrite: bool = False,
) -> None:
    """Write a result to a folder, completely or not at all; `source` states where the views came from.

    An older result is replaced. Other files named like those of a result are refused, unless `overwrite`.

    `settings` are stored unchanged, for `settings_of_result`. `encoding` is that of depth.png and sigma.png, by default
    the finest; the frames of a sequence share one. Depths beyond it are unknown in the PNG.
    """
    if not hasattr(result, "provenance"):
        raise InputError(f"write_result needs a Result first, not {type(result).__name__}; make one with fuse(views)")
    target, unit = path_of(folder, "folder"), word_of(unit, "unit")
    require_formats(formats)
    others = [] if overwrite else files_of_others(target)
    if others:
        raise InputError(
            f"{target} holds {others[0].name}, which no result of cfusion lists; choose another folder, or "
            "pass overwrite=True"
        )
    with filling(target, OWN_FILES) as draft:
        files: Files = {}
        trusted = np.where(result.confidence > 0, result.confidence, np.float32(np.nan))
        maps = {"depth": result.depth, "confidence": trusted, "sigma": result.sigma}
        for name, values in maps.items():
            if values is not None:
                chosen = encoding if encoding is not None and name != "confidence" else png.finest_encoding(values)
                files[name] = _write_map(draft, name, values, formats, chosen, unit)
        if "exr" in formats:
            exr.write_exr(draft / "depth.exr", result.depth, result.confidence)
            files["depth"]["exr"] = {"file": "depth.exr", "channels": ["Z", "confidence"]}
        files["provenance"] = _write_provenance(draft, result.provenance, formats)
        if "png" in formats:
            files["pictures"] = _write_pictures(draft, result)
        if "ply" in formats and result.camera is not None:
            files["points"] = _write_points(draft, result)
        _add_fingerprints(draft, files)
        summary = _summary(result, files, source, unit) | ({} if settings is None else {"settings": settings})
        text = json.dumps(to_json(summary), indent=1, allow_nan=False)
        (draft / "result.json").write_text(text, encoding="utf-8")


def _summary(result: "Result", files: Files, source: str | None, unit: str) -> dict[str, object]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "method": result.method,
        "parameters": result.parameters,
        "status": result.status,
        "gap": result.gap,
        "energies": result.energies,
        "history": [{"energy": step.energy, "gap": step.gap, "iterations": step.iterations} for step in result.history],
        "seconds": result.seconds,
        "iterations": result.iterations,
        "backend": result.backend,
        "input": source,
        "unit": unit,
        "camera": None if result.camera is None else camera_to_json(result.camera),
        "pose": None if result.pose is None else result.pose.matrix(),
        "files": files,
        "versions": versions(),
    }


def _add_fingerprints(draft: Path, files: Files) -> None:
    """Add size and hash of every file, by which a later run detects changes."""
    for kinds in files.values():
        for written in kinds.values():
            assert isinstance(written, dict)
            written |= file_fingerprint(draft / written["file"])


def _write_map(
    draft: Path, name: str, values: NDArray[np.float32], formats: Sequence[str], encoding: png.Encoding, unit: str
) -> dict[str, object]:
    """Write one map in every chosen format for maps; in float formats confidence is 0 instead of NaN."""
    written: dict[str, object] = {}
    floats = np.nan_to_num(values) if name == "confidence" else values
    if "npy" in formats:
        npy.write_npy(draft / f"{name}.npy", floats)
        written["npy"] = {"file": f"{name}.npy"}
    if "pfm" in formats:
        pfm.write_pfm(draft / f"{name}.pfm", floats)
        written["pfm"] = {"file": f"{name}.pfm"}
    if "png" in formats:
        beyond = values > encoding.largest
        words = {"Unit": "1" if name == "confidence" else unit, "Title": name}
        png.write_png(draft / f"{name}.png", np.where(beyond, np.float32(np.nan), values), encoding, words)
        stated: dict[str, object] = {"file": f"{name}.png", "scale": encoding.scale, "offset": encoding.offset}
        written["png"] = stated | ({"beyond": int(beyond.sum())} if beyond.any() else {})
    return written


def _write_provenance(draft: Path, provenance: NDArray[np.int16], formats: Sequence[str]) -> dict[str, object]:
    written: dict[str, object] = {}
    if "npy" in formats:
        npy.write_npy(draft / "provenance.npy", provenance)
        written["npy"] = {"file": "provenance.npy"}
    if "png" in formats:
        png.write_png(draft / "provenance.png", np.where(provenance < 0, np.nan, provenance), PROVENANCE)
        written["png"] = {"file": "provenance.png", "scale": PROVENANCE.scale, "offset": PROVENANCE.offset}
    return written


def _write_pictures(draft: Path, result: "Result") -> dict[str, object]:
    """Write depth and sigma as coloured pictures; unknown pixels are transparent."""
    pictures = {"depth": depth_colours(result.depth)}
    if result.sigma is not None:
        pictures["sigma"] = sigma_colours(result.sigma)
    for name, colours in pictures.items():
        (draft / f"{name}_colour.png").write_bytes(png_bytes(colours))
    return {name: {"file": f"{name}_colour.png"} for name in pictures}


def _write_points(draft: Path, result: "Result") -> dict[str, object]:
    """Write the observed pixels as points: in the world if the pose is known, else in the camera's frame."""
    assert result.camera is not None
    observed = np.where(result.provenance == 0, np.float32(np.nan), result.depth)
    known = np.isfinite(observed)
    points = result.camera.back_project(observed)[known]
    if result.pose is not None:
        points = result.pose.apply(points)
    colours = point_colours(observed, result.image)
    pixel = float(np.median(pixel_size(result.camera, observed[known]))) if known.any() else 1.0
    write_ply(draft / "points.ply", points, colours, result.confidence[known], pixel)
    return {"ply": {"file": "points.ply", "frame": "camera" if result.pose is None else "world"}}
