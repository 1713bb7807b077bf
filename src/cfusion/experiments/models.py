"""The meshes of the experiments: file, orientation, and the built-in scene that replaces a missing file."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from cfusion.errors import FileError, InputError
from cfusion.io.files import read_bytes
from cfusion.synthetic import Scene, blob, city, load_mesh

BUILT_IN: Mapping[str, Callable[[], Scene]] = MappingProxyType({"blob": blob, "city": city})
REPOSITORY = Path(__file__).resolve().parents[3]


def data_folder() -> Path | None:
    """The folder of meshes: CFUSION_DATA, or ../shared/data beside the repository; None if neither exists."""
    given = os.environ.get("CFUSION_DATA")
    folder = Path(given) if given else REPOSITORY.parent / "shared" / "data"
    return folder if folder.is_dir() else None


@dataclass(frozen=True)
class Model:
    """One mesh; without a file, the built-in scene `stand_in`."""

    name: str
    stand_in: str
    file: str | None = None  # below the data folder
    upright: bool = False  # turn the longest axis vertical
    longest_side: float | None = None  # in model units; None: unchanged

    def __post_init__(self) -> None:
        if self.stand_in not in BUILT_IN:
            raise InputError(f"{self.name}: stand_in is {self.stand_in!r}; built in are {', '.join(BUILT_IN)}")
        if self.longest_side is not None and not self.longest_side > 0:
            raise InputError(f"{self.name}: longest_side is {self.longest_side}; give a positive length")

    @property
    def path(self) -> Path | None:
        """The mesh file; None if it is missing."""
        folder = data_folder()
        if self.file is None or folder is None or not (folder / self.file).is_file():
            return None
        return folder / self.file

    @property
    def replaced(self) -> bool:
        """Whether the built-in scene replaces a missing file."""
        return self.file is not None and self.path is None

    def checksum(self) -> str:
        """SHA-256 of the mesh file; a built-in scene is identified by its name and the code that makes it."""
        return f"built-in {self.stand_in}" if self.path is None else file_checksum(self.path)

    def require(self) -> None:
        """Raise if the file is missing."""
        if self.replaced:
            raise FileError(
                f"the mesh {self.file} is missing; set CFUSION_DATA to the folder that holds it, or use --quick"
            )

    def load(self) -> Scene:
        """The mesh in the orientation that the camera track expects."""
        if self.path is None:
            return BUILT_IN[self.stand_in]()
        scene = load_mesh(self.path)
        if self.longest_side is None:
            return scene
        scene = scene.centred().scaled_to(self.longest_side)
        return scene.upright() if self.upright else scene


def file_checksum(path: Path) -> str:
    """SHA-256 of a file, cached while its size and time stay the same."""
    status = path.stat()
    return _checksum(path, status.st_size, status.st_mtime_ns)


@lru_cache(256)
def _checksum(path: Path, size: int, time: int) -> str:
    return sha256(read_bytes(path)).hexdigest()
