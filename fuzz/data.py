"""Sound data sets in memory, their damaged kin from the corpus, and the folder in which one of them lies for a case."""

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fuzz.seeds import make_seeds

CORPUS = Path(__file__).parent / "corpus"
Files = dict[str, bytes | None]  # contents by name; None: no such file


@dataclass(frozen=True)
class Data:
    """One sound data set and, as changes of it, damaged ones that reach other lines of the readers."""

    name: str
    sound: dict[str, bytes]
    kin: tuple[Files, ...] = ()


def load_data(place: Path) -> dict[str, Data]:
    """Every seed with what the corpus has of it; seeds are made in a folder and read back."""
    found = {}
    for name, folder in make_seeds(place).items():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        sound = {str(path.relative_to(folder)): path.read_bytes() for path in files}
        found[name] = Data(name, sound, tuple(read_kin(name)))
    return found


def read_kin(name: str) -> list[Files]:
    """The stored changes of one seed."""
    file = CORPUS / f"{name}.json"
    if not file.is_file():
        return []
    return [{path: _decoded(text) for path, text in each.items()} for each in json.loads(file.read_text())]


def write_kin(name: str, kin: list[Files]) -> int:
    """Store changes of one seed; the bytes it took."""
    CORPUS.mkdir(exist_ok=True)
    coded = [{path: _coded(data) for path, data in each.items()} for each in kin]
    return (CORPUS / f"{name}.json").write_text(json.dumps(coded, indent=0, ensure_ascii=True) + "\n")


def _coded(data: bytes | None) -> str | None:
    """Text as it is, other bytes in base 64."""
    if data is None:
        return None
    try:
        return "text:" + data.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    if text is None:
        return None
    kind, _, body = text.partition(":")
    return body.encode() if kind == "text" else base64.b64decode(body)


class Place:
    """Folders of sound data, each laid down once; a case changes some files, and takes its changes back."""

    def __init__(self, root: Path, data: dict[str, Data]) -> None:
        """An empty place."""
        shutil.rmtree(root, ignore_errors=True)
        self.root, self.data = root, data
        self.kinds: dict[str, list[tuple[str, str]]] = {}  # files by their ending
        for name, each in data.items():
            for path in each.sound:
                self.kinds.setdefault(os.path.splitext(path)[1], []).append((name, path))

    def folder(self, name: str) -> Path:
        """Where a sound data set lies."""
        folder = self.root / name
        if not folder.exists():
            for path, content in self.data[name].sound.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
        return folder

    @contextmanager
    def changed(self, name: str, changes: Files) -> Iterator[Path]:
        """The folder with some files changed, until the block ends; others may be put in their place meanwhile."""
        folder = self.folder(name)
        try:
            for path, content in changes.items():
                if content is None:
                    (folder / path).unlink()
                else:
                    (folder / path).write_bytes(content)
            yield folder
        finally:
            for path in changes:
                _remove(folder / path)
                (folder / path).write_bytes(self.data[name].sound[path])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
