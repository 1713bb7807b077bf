"""A short record of each view: what became of it, and by which inputs and settings."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from cfusion.errors import FileError
from cfusion.io.to_json import to_json

FILE = "record.json"


@dataclass(frozen=True)
class Record:
    """How one view came about, or why it did not (`failure`)."""

    view: int
    name: str
    key: str  # of inputs and settings: a record of another key is of something else
    neighbours: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()  # neighbours that could not be read, and why
    density_before: float = 0.0  # share of pixels with a depth
    density_after: float = 0.0
    noise: float | None = None  # median sigma, in the unit of depth
    gap: float | None = None
    status: str = ""
    seconds: float = 0.0
    backend: str = ""
    points: int = 0  # of its piece of the cloud
    failure: str = ""
    elsewhere: bool = False  # whether the failure is the machine's: another worker may do better
    worker: str = ""
    camera: dict[str, Any] | None = None
    pose: list[list[float]] | None = None


def folder_of(root: Path, view: int) -> Path:
    """Where the maps and the record of a view are; a thousand to a folder."""
    return root / "views" / f"{view // 1000:03d}" / f"{view:06d}"


def write_record(folder: Path, record: Record, name: str = FILE) -> None:
    """Into a folder of drafts: the record comes last, and makes the rest count."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(to_json(asdict(record)), indent=1, allow_nan=False), encoding="utf-8")


def read_record(folder: Path, key: str | None = None, name: str = FILE) -> Record | None:
    """The record in a folder; None where there is none, or one of another key."""
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or set(content) != {field.name for field in fields(Record)}:
        return None
    for field in ("neighbours", "left_out"):
        content[field] = tuple(content[field])
    record = Record(**content)
    return record if key is None or record.key == key else None


def require_record(folder: Path) -> Record:
    """The record of a view that has to be there."""
    record = read_record(folder)
    if record is None:
        raise FileError(f"{folder} holds no fused view; give the same command again")
    return record
