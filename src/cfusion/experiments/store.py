"""Results on disk by a hash of their inputs: one JSON file per job, with its maps if they are shown."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cfusion.experiments.matches import Matches
from cfusion.experiments.renders import Renders
from cfusion.experiments.whole_files import write_arrays, write_whole
from cfusion.io.json_object import content_of
from cfusion.io.to_json import to_json

Record = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A folder of results and rendered views."""

    folder: Path

    @property
    def renders(self) -> Renders:
        """Noise-free views of the meshes."""
        return Renders(self.folder / "renders")

    @property
    def matches(self) -> Matches:
        """Matched stereo pairs."""
        return Matches(self.folder / "matches")

    def read(self, key: str) -> Record | None:
        """The record of a key; None if there is none that is complete."""
        record = content_of(self._file("results", key, "json"))
        return record if record is not None and record.get("key") == key else None

    def has(self, key: str, *, maps: bool) -> bool:
        """Whether a result is stored, with its maps if needed."""
        return (not maps or self.maps_file(key).is_file()) and self.read(key) is not None

    def write(self, key: str, record: Record, maps: Mapping[str, NDArray[Any]] | None) -> None:
        """Write the maps first, so that a stored record is always complete."""
        if maps is not None:
            write_arrays(self.maps_file(key), maps)
        text = json.dumps(to_json({"key": key} | record), indent=1)
        write_whole(self._file("results", key, "json"), lambda stream: stream.write(text.encode()))

    def maps_file(self, key: str) -> Path:
        """The maps of a result."""
        return self._file("maps", key, "npz")

    def _file(self, kind: str, key: str, ending: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.{ending}"
