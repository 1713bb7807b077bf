"""Which file holds heights, weights or sigmas: stated by the user, never guessed.

A folder may state it in a `mosaic.json`:

    {"rasters": [{"heights": "a.tif", "sigma": "a_sigma.tif"}, {"heights": "b.tif", "nodata": 0}]}

or by the layout that CARS writes (dsm.tif, and weights.tif beside it).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cfusion.errors import FileError, InputError
from cfusion.io.json_object import JsonObject
from cfusion.io.paths import path_inside
from cfusion.rasters.raster import Raster, open_raster

SUFFIXES = (".tif", ".tiff")
DESCRIPTION = "mosaic.json"
ROLES = ("heights", "weights", "sigma")
FIELDS = {*ROLES, "band", "nodata"}
NO_HEIGHTS = re.compile(
    r"(?:^|[^a-z])(weights?|sigmas?|std|stdev|stddev|uncertainty|confidences?|ambiguity|masks?|counts?|nmad|classif"
    r"|classification|colou?r|clr|ortho|hillshade|provenance|sources?|npts|validity)(?:$|[^a-z])"
)


@dataclass(frozen=True)
class Input:
    """One height model with its weights or sigmas, if there are any."""

    heights: Raster
    weights: Raster | None = None  # larger is better
    sigma: Raster | None = None  # larger is worse, in the unit of the heights

    @property
    def name(self) -> str:
        return self.heights.name

    @property
    def files(self) -> list[Path]:
        return [each.path for each in (self.heights, self.weights, self.sigma) if each is not None]


@dataclass(frozen=True)
class Roles:
    """The inputs, and a sentence about each decision that was made."""

    inputs: tuple[Input, ...]
    sentences: tuple[str, ...] = ()


def assign(
    paths: Sequence[Path],
    weights: Sequence[Path] = (),
    sigma: Sequence[Path] = (),
    band: int = 1,
    nodata: Sequence[float] = (),
) -> Roles:
    """Inputs from files, folders and descriptions, in the given order."""
    inputs: list[Input] = []
    sentences: list[str] = []
    for path in paths:
        found = _of(path, band, tuple(nodata))
        inputs += found.inputs
        sentences += found.sentences
    if not inputs:
        raise InputError("no rasters were given; give GeoTIFF files, or a folder of them")
    for flag, files in (("weights", weights), ("sigma", sigma)):
        inputs = _with(inputs, flag, files)
    seen: set[Path] = set()
    for path in (each.heights.path.resolve() for each in inputs):
        if path in seen:
            raise InputError(f"{path.name} is given twice; give every raster once")
        seen.add(path)
    return Roles(tuple(inputs), tuple(sentences))


def _with(inputs: list[Input], flag: str, files: Sequence[Path]) -> list[Input]:
    if not files:
        return inputs
    if len(files) != len(inputs):
        raise InputError(f"--{flag} lists {len(files)} rasters for {len(inputs)} of heights; give one for each")
    if any(each.weights or each.sigma for each in inputs):
        raise InputError(f"--{flag} repeats weights that are already stated; state them in one place")
    return [replace(each, **{flag: open_raster(file)}) for each, file in zip(inputs, files, strict=True)]


def _of(path: Path, band: int, nodata: tuple[float, ...]) -> Roles:
    if path.is_dir():
        if (path / DESCRIPTION).is_file():
            return _described(path / DESCRIPTION, band, nodata)
        if (path / "dsm.tif").is_file():
            return _cars(path, band, nodata)
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        if not files:
            raise FileError(f"{path} holds no GeoTIFF (*.tif); give a folder with some")
        return Roles(tuple(_heights(file, band, nodata) for file in files))
    if path.suffix.lower() == ".json":
        return _described(path, band, nodata)
    return Roles((_heights(path, band, nodata),))


def _heights(file: Path, band: int, nodata: tuple[float, ...]) -> Input:
    called = NO_HEIGHTS.search(file.stem.lower())
    if called:
        raise InputError(
            f"{file} does not hold heights, to judge by its name ({called.group(1)}); state what it holds with "
            f"--weights or --sigma, or in a {DESCRIPTION}, or leave it out"
        )
    return Input(open_raster(file, band, nodata))


def _cars(folder: Path, band: int, nodata: tuple[float, ...]) -> Roles:
    weights = folder / "weights.tif"
    left = sorted(
        file.name
        for file in folder.iterdir()
        if file.suffix.lower() in SUFFIXES and file.name not in ("dsm.tif", "weights.tif")
    )
    given = Input(
        open_raster(folder / "dsm.tif", band, nodata), weights=open_raster(weights) if weights.is_file() else None
    )
    sentence = f"{folder}: dsm.tif is heights" + (", weights.tif its weights" if given.weights else "")
    return Roles((given,), (sentence + (f"; {', '.join(left)} not used" if left else ""),))


def _described(file: Path, band: int, nodata: tuple[float, ...]) -> Roles:
    rows = JsonObject.of_file(file).content.get("rasters")
    if not isinstance(rows, list) or not rows:
        raise FileError(f'{file} lists no rasters; write {{"rasters": [{{"heights": "a.tif"}}, ..]}}')
    return Roles(tuple(_row(file, row, band, nodata) for row in rows))


def _row(file: Path, row: Any, band: int, nodata: tuple[float, ...]) -> Input:
    if not isinstance(row, dict) or not isinstance(row.get("heights"), str) or set(row) - FIELDS:
        raise FileError(f"{file}: {str(row)[:60]} is not a raster; its fields are {', '.join(sorted(FIELDS))}")
    if "weights" in row and "sigma" in row:
        raise FileError(f"{file}: {row['heights']} has weights and sigma; give one of them")
    if not isinstance(row.get("band", 1), int) or not isinstance(row.get("nodata", 0), int | float):
        raise FileError(f"{file}: band and nodata of {row['heights']} must be numbers")
    unknown = (*nodata, float(row["nodata"])) if "nodata" in row else nodata
    named = {name: path_inside(file.parent, str(row[name]), str(file)) for name in ROLES if name in row}
    extra = {name: open_raster(path) for name, path in named.items() if name != "heights"}
    return Input(open_raster(named["heights"], row.get("band", band), unknown), **extra)
