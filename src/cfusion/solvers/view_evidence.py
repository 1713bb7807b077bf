"""What one view says about the fused surface, and how it fits in with the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ViewEvidence:
    """Maps of the reference's frame, and a record; lengths are in the unit of depth."""

    support: NDArray[np.bool_]  # (H, W) the view measured the surface there
    contradiction: NDArray[np.bool_]  # (H, W) it saw through it, or something floats in front; neither: it is silent
    residual: NDArray[np.float32]  # (H, W) what it measured less the surface, along the reference's ray; NaN: nothing
    noise: float  # scale of its residuals at the middle depth
    bias: float  # their median
    scale_factor: float  # median of measured over fused depth, of a rescaled view before it was moved
    registration: float  # pixels by which it seems misplaced: residuals that grow with the slope
    share_kept: float  # of what it measured that supports the surface
    effect: float  # root mean square change of the surface if it is left out
    turned: float = 0.0  # degrees by which its pose was mended, and
    shifted: float = 0.0  # where the reference looks at the usual depth
    rescaled: bool = False  # that made up for depths that are all too large or too small, by `scale_factor`
    sentence: str = ""  # what is odd about it; empty where nothing is

    def moved(self, move: Callable[[Any], Any]) -> ViewEvidence:
        """The same with its maps where `move` puts an array."""
        maps = ("support", "contradiction", "residual")
        return replace(self, **{name: move(getattr(self, name)) for name in maps})
