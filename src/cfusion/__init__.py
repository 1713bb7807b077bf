"""cfusion: fuse noisy depth maps of one place into one reliable depth map, with its confidence."""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfusion.datasets import read
    from cfusion.errors import CFusionError
    from cfusion.fuse import fuse, fuse_many, fuse_stack
    from cfusion.geometry import BrownConrady, Camera, Orthographic, Pinhole, Pose, Stack, View, normals
    from cfusion.methods import METHODS, Method
    from cfusion.metrics import Scores, evaluate
    from cfusion.rasters.mosaic import fuse_rasters
    from cfusion.result import Result
    from cfusion.scene import fuse_every
    from cfusion.solvers import Outer, Progress, Status

__version__ = "0.2.0.dev0"

__all__ = [
    "METHODS",
    "BrownConrady",
    "CFusionError",
    "Camera",
    "Method",
    "Orthographic",
    "Outer",
    "Pinhole",
    "Pose",
    "Progress",
    "Result",
    "Scores",
    "Stack",
    "Status",
    "View",
    "__version__",
    "evaluate",
    "fuse",
    "fuse_every",
    "fuse_many",
    "fuse_rasters",
    "fuse_stack",
    "normals",
    "read",
]

# The module of each public name, imported when first used. A test compares this with the imports above.
_HOME = {
    "cfusion.datasets": ("read",),
    "cfusion.errors": ("CFusionError",),
    "cfusion.fuse": ("fuse", "fuse_many", "fuse_stack"),
    "cfusion.geometry": ("BrownConrady", "Camera", "Orthographic", "Pinhole", "Pose", "Stack", "View", "normals"),
    "cfusion.methods": ("METHODS", "Method"),
    "cfusion.metrics": ("Scores", "evaluate"),
    "cfusion.rasters.mosaic": ("fuse_rasters",),
    "cfusion.result": ("Result",),
    "cfusion.scene": ("fuse_every",),
    "cfusion.solvers": ("Outer", "Progress", "Status"),
}


class _Package(ModuleType):
    """A package whose public names take precedence over modules of the same name, such as `fuse`."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    """A public name or submodule, imported when first used."""
    for home, names in _HOME.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(home), name)
            return found
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Package
