"""Specifications from paper/*.toml; every key is checked, so that no misspelt one is ignored."""

import tomllib
from pathlib import Path
from typing import Any

from cfusion.errors import FileError, named_by
from cfusion.experiments.boxes import Regions
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
    with named_by(f"{place / name}.toml"):
        rows = {each: _row(each, part) for each, part in _named(entry.object("rows"))}
        return entry.built(
            Spec,
            *("data", "rows", "parts", "quick"),
            name=name,
            data={each: _data(part, models) for each, part in _named(entry.object("data"))},
            rows=rows,
            parts=tuple(_part(part, tuple(rows)) for part in entry.objects("parts")),
            quick=entry.object("quick").built(Quick),
        )


def _entry(file: Path) -> JsonObject:
    try:
        return JsonObject(tomllib.loads(read_bytes(file).decode("utf-8")), str(file))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file} is not TOML: {error}; correct that line") from None


def _named(table: JsonObject) -> list[tuple[str, JsonObject]]:
    """The tables inside a table by name, in order."""
    return [(name, table.object(name)) for name in table.content]


def _models(entry: JsonObject) -> dict[str, Model]:
    return {name: part.built(Model, name=name) for name, part in _named(entry)}


def _data(entry: JsonObject, models: dict[str, Model]) -> tuple[Condition, ...]:
    match entry.get("kind", str):
        case "meshes":
            return _meshes(entry, models)
        case "boxes":
            return (entry.built(BoxImage, "kind", scene="boxes", seed=0),)
        case "kitti":
            numbers = entry.several("bundles", int)
            return tuple(entry.built(KittiBundle, "kind", "bundles", number=each, seed=0) for each in numbers)
    raise FileError(f"{entry.where}.kind is {entry.content['kind']!r}; choose 'meshes', 'boxes' or 'kitti'")


def _meshes(entry: JsonObject, models: dict[str, Model]) -> tuple[Condition, ...]:
    noise = entry.object("noise")
    if len(noise.content) != 1:
        raise FileError(f"{noise.where} names {len(noise.content)} noises; give one, such as {{ laplace = 0.6 }}")
    kind = next(iter(noise.content))
    scenes = entry.get("scenes", list)
    for name in scenes:
        if name not in models:
            raise FileError(f"{entry.where}.scenes names {name!r}, which is not in scenes.toml")
    own = ("kind", "scenes", "noise")
    return tuple(
        entry.built(OnTrack, *own, model=models[name], noise=(kind, noise.number(kind)), seed=0) for name in scenes
    )


def _row(name: str, entry: JsonObject) -> Row:
    parameters = entry.object("parameters").content if "parameters" in entry else {}
    grid = entry.object("grid").content if "grid" in entry else {}
    return entry.built(
        Row,
        *("parameters", "grid", "confidence"),
        name=name,
        parameters=tuple((key, _value(value)) for key, value in parameters.items()),
        grid=tuple((key, tuple(_value(each) for each in _list(entry, key, value))) for key, value in grid.items()),
        confidence=entry.object("confidence").built(Regions) if "confidence" in entry else None,
    )


def _part(entry: JsonObject, rows: tuple[str, ...]) -> Part:
    if entry.content.get("when", "full") != "full":
        raise FileError(f"{entry.where}.when is {entry.content['when']!r}; leave it out, or write 'full'")
    published = None
    if "published" in entry:
        table = entry.object("published")
        published = {row: table.several(row, float) for row in table.content}
    return entry.built(
        Part,
        *("published", "checks", "when"),
        published=published,
        checks=tuple(_check(each) for each in entry.objects("checks")) if "checks" in entry else (),
        full="when" in entry,
        **({} if "rows" in entry else {"rows": rows}),
    )


def _check(entry: JsonObject) -> Check:
    given = [rule for rule in RULES if rule in entry]
    if len(given) != 1:
        raise FileError(f"{entry.where} has {len(given)} rules; give one of {', '.join(RULES)}")
    return entry.built(Check, *RULES, rule=given[0], factor=entry.number(given[0]))


def _list(entry: JsonObject, key: str, value: object) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise FileError(f"{entry.where}.grid.{key} is {value!r}; give a list of values to try")
    return value


def _value(value: Any) -> Value:
    """Lists as tuples, which can be hashed."""
    return tuple(float(each) for each in value) if isinstance(value, list) else value
