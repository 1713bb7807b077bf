"""The formats that can be written back: the files that are kept, and the module that writes the new ones."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType

from cfusion.datasets.write_back.fused import FusedMap


@dataclass(frozen=True)
class Layout:
    """How a format is written back.

    The module has `replaced(data, source)`, the files below `data` that a view's new files replace, and
    `write(data, source, files, fused, options)`, which writes the new ones.
    """

    new: str  # what is written, for the user
    kept: tuple[str, ...]  # patterns of the files that are kept byte for byte
    module: str

    def load(self) -> ModuleType:
        """Import the module of this format."""
        return importlib.import_module(f"cfusion.datasets.write_back.{self.module}")

    def write(self, data: Path, source: Path, draft: Path, fused: FusedMap, options: object) -> None:
        """Write a view's new files below `draft`, under the names of those that they replace."""
        files = [draft / inside for inside in self.load().replaced(data, source)]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
        self.load().write(data, source, files, fused, options)


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "bundle": Layout("depth maps in their own encoding", ("**/*",), "bundle"),
        "nerfstudio": Layout("depth maps, PNG by the file's factor or npy", ("**/*",), "nerfstudio"),
        "colmap": Layout(
            "stereo/depth_maps and stereo/normal_maps of the kind that was read",
            ("images/**/*", "sparse/**/*", "stereo/*.cfg", "stereo/depth_maps/**/*", "stereo/normal_maps/**/*"),
            "colmap",
        ),
        "openmvs": Layout("*.dmap with confidence", ("**/*",), "openmvs"),
        "mvsnet": Layout("PFM depth, and confidence where there was one", ("**/*",), "mvsnet"),
        "7-scenes": Layout("depth PNG in millimetres", ("**/*",), "png_depth"),
        "icl-nuim": Layout("depth PNG, 5000 counts per metre", ("**/*",), "png_depth"),
        "tum": Layout("depth PNG, 5000 counts per metre", ("**/*",), "png_depth"),
        "replica": Layout("depth PNG by the scene's own scale", ("**/*",), "png_depth"),
        "scannet": Layout("depth PNG in millimetres", ("**/*",), "png_depth"),
        "open3d": Layout("depth PNG in millimetres", ("**/*",), "png_depth"),
    }
)


def root_of(data: Path) -> Path:
    """The folder of a data set that may be given by its main file."""
    return data if data.is_dir() else data.parent
