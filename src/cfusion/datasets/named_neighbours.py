"""Neighbours listed in the data: COLMAP's patch-match.cfg and sparse points, MVSNet's pair.txt, OpenMVS' ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.readers import colmap, mvsnet, openmvs
from cfusion.io.codecs.colmap_model import read_observations
from cfusion.io.text_tables import read_text

PAIRS = ("pair.txt", "cams/pair.txt", "pairs.txt")
PLAN = "stereo/patch-match.cfg"
Key = TypeVar("Key", str, int)
FEWEST_SHARED = 5  # sparse points that two images must have in common


@dataclass(frozen=True)
class Named:
    """Indices of the neighbours of each view, best first, and where they are listed."""

    neighbours: tuple[tuple[int, ...], ...]
    source: str


def named_neighbours(data: Path, format: str, views: Dataset) -> Named | None:
    """The neighbours listed in the data; None if there are none (they are then found from the depth maps)."""
    if format == "colmap":
        return _colmap(data, views)
    if format == "mvsnet":
        return _mvsnet(data, views)
    return _openmvs(views) if format == "openmvs" else None


def _colmap(data: Path, views: Dataset) -> Named | None:
    """Sources listed in patch-match.cfg; for `__auto__` and `__all__`, views ordered by common sparse points."""
    maps = data / "stereo" / "depth_maps"
    names = [str(file.relative_to(maps)).rsplit(".", 2)[0] for file in views.files]
    number = {name: place for place, name in enumerate(names)}
    planned = read_plan(data / PLAN)
    shared = None
    found: list[tuple[int, ...]] = []
    by_points = by_plan = 0
    for place, name in enumerate(names):
        sources = planned.get(name, ("__auto__",))
        if sources and not sources[0].startswith("__"):
            by_plan += 1
            found.append(_others(sources, number, place))
            continue
        if shared is None:
            folder = colmap.model_folder(data)
            shared = _Shared.of(names, {} if folder is None else read_observations(folder))
        by_points += 1
        found.append(shared.ranked(place))
    if not any(found):
        return None
    counts = ((PLAN, by_plan), ("shared sparse points", by_points))
    return Named(tuple(found), ", ".join(f"{source} ({count} views)" for source, count in counts if count))


def read_plan(file: Path) -> dict[str, tuple[str, ...]]:
    """patch-match.cfg: lines with an image's name, each followed by its sources; empty if there is no file."""
    if not file.is_file():
        return {}
    lines = [line.strip() for line in read_text(file).splitlines() if line.strip() and not line.startswith("#")]
    return {
        name: tuple(source.strip() for source in sources.split(",") if source.strip())
        for name, sources in zip(lines[::2], lines[1::2], strict=False)
    }


@dataclass(frozen=True)
class _Shared:
    """The views that see each sparse point, and the points that each view sees."""

    points_of: Sequence[Sequence[int]]
    views_of: dict[int, list[int]]

    @classmethod
    def of(cls, names: Sequence[str], observed: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]) -> _Shared:
        points_of = [np.unique(observed[name]).tolist() if name in observed else [] for name in names]
        views_of: dict[int, list[int]] = {}
        for view, points in enumerate(points_of):
            for point in points:
                views_of.setdefault(point, []).append(view)
        return cls(points_of, views_of)

    def ranked(self, view: int) -> tuple[int, ...]:
        """The other views, ordered by the number of common points."""
        count = Counter(other for point in self.points_of[view] for other in self.views_of[point] if other != view)
        useful = [(shared, other) for other, shared in count.items() if shared >= FEWEST_SHARED]
        return tuple(other for _, other in sorted(useful, key=lambda each: (-each[0], each[1])))


def _mvsnet(data: Path, views: Dataset) -> Named | None:
    file = next((data / name for name in PAIRS if (data / name).is_file()), None)
    if file is None:
        return None
    number = {_digits(depth): place for place, depth in enumerate(views.files)}
    pairs = mvsnet.read_pairs(file)
    found = tuple(_others(pairs.get(_digits(depth), ()), number, place) for place, depth in enumerate(views.files))
    return Named(found, str(file.relative_to(data))) if any(found) else None


def _others(names: Iterable[Key], number: Mapping[Key, int], view: int) -> tuple[int, ...]:
    """The views of these names, each once, without those that do not exist and the view itself."""
    return tuple(dict.fromkeys(number[name] for name in names if number.get(name, view) != view))


def _digits(file: Path) -> int:
    digits = file.stem.split("_")[0]
    return int(digits) if digits.isdigit() else -1


def _openmvs(views: Dataset) -> Named | None:
    ids = [openmvs.read_header(file).view_ids for file in views.files]
    number = {each[0]: place for place, each in enumerate(ids) if each}
    found = tuple(_others(each[1:], number, place) for place, each in enumerate(ids))
    return Named(found, "view ids of the .dmap files") if any(found) else None
