"""Specifications from paper/*.toml; every key is checked, so that no misspelt one is ignored."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from cfusion.errors import FileError, named_by
from cfusion.experiments.boxes import Box, Regions
from cfusion.experiments.conditions import BoxImage, Condition, KittiBundle, OnTrack
from cfusion.experiments.models import REPOSITORY, Model
from cfusion.experiments.spec import Check, Part, Quick, Row, Spec, Value
from cfusion.io.files import read_bytes
from cfusion.io.json_object import JsonObject

NAMES = ("objects", "urban", "scale-space", "noise", "surfaces", "convergence", "kitti")
RULES = ("within", "at_most", "of_best")


def paper_folder() -> Path:
    """The folder of specifications: the repository's, or the installed ones."""
    installed = Path(__file__).resolve().parents[1] / "paper"
    return installed if installed.is_dir() else REPOSITORY / "paper"


def load(name: str, folder: Path | None = None) -> Spec:
    """The specification of that name, with the catalogue of meshes beside it."""
    place = paper_folder() if folder is None else folder
    if not (place / f"{name}.toml").is_file():
        there = ", ".join(sorted(each.stem for each in place.glob("*.toml") if each.stem != "scenes"))
        raise FileError(f"no specification {name!r} in {place}; choose from {there or 'none'}")
    models = _models(_entry(place / "scenes.toml"))
    entry = _entry(place / f"{name}.toml")
    entry.refuse_unknown("title", "about", "average", "seeds", "quick", "data", "rows", "parts")
    with named_by(f"{place / name}.toml"):
        rows = {each: _row(each, part) for each, part in _named(entry, "rows")}
        average: Any = entry.get("average", str)
        return Spec(
            name=name,
            title=entry.get("title", str),
            about=entry.get("about", str),
            average=average,
            seeds=_wholes(entry, "seeds"),
            data={each: _data(part, models) for each, part in _named(entry, "data")},
            rows=rows,
            parts=tuple(_part(part, tuple(rows)) for part in entry.objects("parts")),
            quick=_quick(entry.object("quick")),
        )


def _entry(file: Path) -> JsonObject:
    try:
        return JsonObject(tomllib.loads(read_bytes(file).decode("utf-8")), str(file))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file} is not TOML: {error}; correct that line") from None


def _named(entry: JsonObject, key: str) -> list[tuple[str, JsonObject]]:
    """The tables inside a table by name, in order."""
    table = entry.object(key)
    return [(name, table.object(name)) for name in table.content]


def _models(entry: JsonObject) -> dict[str, Model]:
    found = {}
    for name in entry.content:
        part = entry.object(name)
        part.refuse_unknown("file", "longest_side", "stand_in", "upright")
        found[name] = Model(
            name=name,
            stand_in=part.get("stand_in", str),
            file=_text(part, "file"),
            upright=bool(part.content.get("upright", False)),
            longest_side=part.scale("longest_side"),
        )
    return found


def _data(entry: JsonObject, models: dict[str, Model]) -> tuple[Condition, ...]:
    match entry.get("kind", str):
        case "meshes":
            return _meshes(entry, models)
        case "boxes":
            entry.refuse_unknown("kind", "shape", "background", "boxes")
            height, width = _wholes(entry, "shape")
            return (BoxImage((height, width), entry.number("background"), tuple(map(_box, entry.objects("boxes")))),)
        case "kitti":
            entry.refuse_unknown("kind", "folder", "bundles", "localisation", "matching")
            folder, how = entry.get("folder", str), (entry.get("localisation", str), entry.get("matching", str))
            return tuple(KittiBundle(folder, number, *how) for number in _wholes(entry, "bundles"))
    raise FileError(f"{entry.where}.kind is {entry.content['kind']!r}; choose 'meshes', 'boxes' or 'kitti'")


def _meshes(entry: JsonObject, models: dict[str, Model]) -> tuple[Condition, ...]:
    entry.refuse_unknown("kind", "scenes", "track", "views", "spacing", "noise", "baseline", "scale")
    noise = entry.object("noise")
    if len(noise.content) != 1:
        raise FileError(f"{noise.where} names {len(noise.content)} noises; give one, such as {{ laplace = 0.6 }}")
    kind = next(iter(noise.content))
    conditions = []
    for name in entry.get("scenes", list):
        if name not in models:
            raise FileError(f"{entry.where}.scenes names {name!r}, which is not in scenes.toml")
        conditions.append(
            OnTrack(
                model=models[name],
                track=entry.get("track", str),
                views=entry.get("views", int),
                spacing=entry.get("spacing", int),
                noise=(kind, noise.number(kind)),
                baseline=entry.number("baseline"),
                scale=entry.scale("scale") or 1.0,
            )
        )
    return tuple(conditions)


def _box(entry: JsonObject) -> Box:
    entry.refuse_unknown("side", "row", "column", "contrast")
    return Box(entry.get("side", int), entry.get("row", int), entry.get("column", int), entry.number("contrast"))


def _row(name: str, entry: JsonObject) -> Row:
    entry.refuse_unknown("method", "parameters", "grid", "oracle", "confidence")
    regions = None
    if "confidence" in entry:
        part = entry.object("confidence")
        part.refuse_unknown("box", "inside", "elsewhere")
        regions = Regions(part.get("box", int), part.number("inside"), part.number("elsewhere"))
    parameters = entry.object("parameters").content if "parameters" in entry else {}
    grid = entry.object("grid").content if "grid" in entry else {}
    return Row(
        name=name,
        method=entry.get("method", str),
        parameters=tuple((key, _value(value)) for key, value in parameters.items()),
        grid=tuple((key, tuple(_value(each) for each in _list(entry, key, value))) for key, value in grid.items()),
        oracle=_text(entry, "oracle"),
        confidence=regions,
    )


def _part(entry: JsonObject, rows: tuple[str, ...]) -> Part:
    known = ("name", "kind", "caption", "data", "rows", "columns", "over", "values", "champion", "published")
    entry.refuse_unknown(*known, "checks", "layout", "when")
    if entry.content.get("when", "full") != "full":
        raise FileError(f"{entry.where}.when is {entry.content['when']!r}; leave it out, or write 'full'")
    published = None
    if "published" in entry:
        table = entry.object("published")
        published = {row: tuple(float(each) for each in table.get(row, list)) for row in table.content}
    return Part(
        name=entry.get("name", str),
        kind=entry.get("kind", str),
        caption=entry.get("caption", str),
        data=_words(entry, "data"),
        rows=_words(entry, "rows") if "rows" in entry else rows,
        columns=_words(entry, "columns") if "columns" in entry else (),
        over=_text(entry, "over"),
        values=tuple(float(each) for each in entry.get("values", list)) if "values" in entry else (),
        champion=_text(entry, "champion"),
        published=published,
        checks=tuple(_check(each) for each in entry.objects("checks")) if "checks" in entry else (),
        layout=_wholes(entry, "layout") if "layout" in entry else (),
        full="when" in entry,
    )


def _check(entry: JsonObject) -> Check:
    entry.refuse_unknown("says", "rows", "columns", *RULES)
    given = [rule for rule in RULES if rule in entry]
    if len(given) != 1:
        raise FileError(f"{entry.where} has {len(given)} rules; give one of {', '.join(RULES)}")
    rule: Any = given[0]
    return Check(entry.get("says", str), _words(entry, "rows"), _words(entry, "columns"), rule, entry.number(rule))


def _quick(entry: JsonObject) -> Quick:
    entry.refuse_unknown("parts", "scenes", "scale", "values", "leave_out")
    return Quick(
        parts=_words(entry, "parts"),
        scenes=_words(entry, "scenes") if "scenes" in entry else (),
        scale=entry.scale("scale") or 1.0,
        values=tuple(float(each) for each in entry.get("values", list)) if "values" in entry else (),
        leave_out=_words(entry, "leave_out") if "leave_out" in entry else (),
    )


def _words(entry: JsonObject, key: str) -> tuple[str, ...]:
    words = entry.get(key, list)
    if not words or not all(isinstance(word, str) for word in words):
        raise FileError(f"{entry.where}.{key} is {words!r}; give a list of names")
    return tuple(words)


def _text(entry: JsonObject, key: str) -> str | None:
    return entry.get(key, str) if key in entry else None


def _wholes(entry: JsonObject, key: str) -> tuple[int, ...]:
    numbers = entry.get(key, list)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise FileError(f"{entry.where}.{key} is {numbers!r}; give whole numbers")
    return tuple(numbers)


def _list(entry: JsonObject, key: str, value: object) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise FileError(f"{entry.where}.grid.{key} is {value!r}; give a list of values to try")
    return value


def _value(value: Any) -> Value:
    """Lists as tuples, which can be hashed."""
    return tuple(float(each) for each in value) if isinstance(value, list) else value
