"""cfusion: fuse noisy depth maps of one place into one depth map to trust, and say how far."""

from typing import TYPE_CHECKING, Any

from cfusion.errors import CFusionError
from cfusion.fuse import fuse, fuse_many, fuse_stack
from cfusion.geometry import BrownConrady, Camera, Orthographic, Pinhole, Pose, Stack, View, normals
from cfusion.methods import METHODS, Method
from cfusion.metrics import Scores, evaluate
from cfusion.result import Result
from cfusion.solvers import Outer, Progress, Status

if TYPE_CHECKING:
    from cfusion.datasets import read
    from cfusion.rasters import fuse_rasters
    from cfusion.scene import fuse_every

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


def __getattr__(name: str) -> Any:
    """`read` comes with its codecs, `fuse_every` with scenes, when first asked for."""
    if name == "read":
        from cfusion.datasets import read

        return read
    if name == "fuse_every":
        from cfusion.scene import fuse_every

        return fuse_every
    if name == "fuse_rasters":
        from cfusion.rasters import fuse_rasters

        return fuse_rasters
    raise AttributeError(f"module 'cfusion' has no attribute {name!r}")
