"""A short record per view: its outcome, and the inputs and settings that led to it."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from cfusion.errors import FileError
from cfusion.io.to_json import to_json

FILE = "record.json"
FILES = "files"  # entry of a record: size, time and hash of the files it describes
DEPTH = 3  # levels from a view's folder up to the output


@dataclass(frozen=True)
class Record:
    """The outcome of one view's task; `failure` says why there is none."""

    view: int
    name: str
    key: str  # digest of inputs and settings
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
    elsewhere: bool = False  # the failure is the machine's: another worker may succeed
    worker: str = ""
    camera: dict[str, Any] | None = None
    pose: list[list[float]] | None = None


def folder_of(root: Path, view: int) -> Path:
    """The folder of a view's maps and record; a thousand views per parent folder."""
    return root / "views" / f"{view // 1000:03d}" / f"{view:06d}"


def write_record(folder: Path, record: Record, name: str = FILE) -> None:
    """Write a record into a draft; moved last, it makes the other files valid.

    The record lists size, time and hash of every file of the draft.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = asdict(record) | {FILES: _written(folder.parents[DEPTH])}
    (folder / name).write_text(json.dumps(to_json(content), indent=1, allow_nan=False), encoding="utf-8")


def read_record(folder: Path, key: str | None = None, name: str = FILE) -> Record | None:
    """The record in a folder; None if missing, of another key, or if its files have changed since."""
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        files = content.pop(FILES)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return None
    if key is not None and not _are_as_written(folder.parents[DEPTH], files):
        return None
    if not isinstance(content, dict) or set(content) != {field.name for field in fields(Record)}:
        return None
    for field in ("neighbours", "left_out"):
        content[field] = tuple(content[field])
    record = Record(**content)
    return record if key is None or record.key == key else None


def _written(draft: Path) -> dict[str, list[object]]:
    """Size, modification time and hash of a draft's files, by name."""
    files = (path for path in sorted(draft.rglob("*")) if path.is_file() and path.suffix != ".json")
    return {str(path.relative_to(draft)): [*_size_and_time(path), _hash(path)] for path in files}


def _are_as_written(output: Path, files: object) -> bool:
    """Whether all files exist with the recorded size and time, or else the recorded contents."""
    try:
        return isinstance(files, dict) and all(_is_as_written(output / name, *found) for name, found in files.items())
    except (OSError, TypeError, ValueError):
        return False


def _is_as_written(file: Path, size: int, changed: int, contents: str) -> bool:
    found = _size_and_time(file)
    return found[0] == size and (found[1] == changed or _hash(file) == contents)


def _size_and_time(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require_record(folder: Path) -> Record:
    """The record of a view; raises if there is none."""
    record = read_record(folder)
    if record is None:
        raise FileError(f"{folder} holds no fused view; run the same command again")
    return record
