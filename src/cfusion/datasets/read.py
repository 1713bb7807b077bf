"""Read posed depth maps in any known format."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

from cfusion.datasets.views import Views
from cfusion.errors import FileError, InputError


class ReaderModule(Protocol):
    """What the module of a format offers."""

    def recognises(self, path: Path) -> bool:
        """Whether the path looks like this format, judged without reading it all."""
        ...

    def read(self, path: Path) -> Views:
        """The views found there."""
        ...


@dataclass(frozen=True)
class Reader:
    """A format: one line for people, and the module that reads it, loaded when needed."""

    summary: str
    module: str

    def load(self) -> ReaderModule:
        """Import the module of this format."""
        return cast(ReaderModule, importlib.import_module(self.module))


READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "bundle": Reader("folder with bundle.json and npy, png or pfm depth maps", "cfusion.datasets.bundle"),
    }
)


def read(path: str | PathLike[str], format: str | None = None) -> Views:
    """Views found at a path; the format is recognised, or named (a key of `READERS`)."""
    place = Path(path)
    if format is not None:
        return _reader(format).load().read(place)
    if not place.exists():
        raise FileError(f"{place} does not exist; give the folder of a data set")
    for reader in READERS.values():
        module = reader.load()
        if module.recognises(place):
            return module.read(place)
    known = "; ".join(f"{name}: {reader.summary}" for name, reader in READERS.items())
    raise FileError(f"{place} is in no format known here ({known})")


def _reader(name: str) -> Reader:
    if name not in READERS:
        near = get_close_matches(name, READERS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(READERS)}"
        raise InputError(f"unknown format {name!r}; {hint}")
    return READERS[name]
