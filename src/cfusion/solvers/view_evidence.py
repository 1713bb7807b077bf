"""The evidence of one view about the fused surface, and its agreement with the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ViewEvidence:
    """Maps in the reference's frame, and a record; lengths are in the unit of depth."""

    support: NDArray[np.bool_]  # (H, W) the view measured the surface
    contradiction: NDArray[np.bool_]  # (H, W) it saw through it, or an object in front; neither: no evidence
    residual: NDArray[np.float32]  # (H, W) measured minus fused depth, along the reference's ray; NaN if unmeasured
    noise: float  # scale of its residuals at the median depth
    bias: float  # their median
    scale_factor: float  # median of measured over fused depth, for a rescaled view before it was moved
    registration: float  # pixels of apparent misplacement: residuals that grow with the slope
    share_kept: float  # share of its measurements that support the surface
    effect: float  # root mean square change of the surface without it
    turned: float = 0.0  # degrees by which its pose was corrected, and
    shifted: float = 0.0  # distance by which it was, at the median depth of the reference's view
    rescaled: bool = False  # the correction compensates depths that are all too large or too small, by `scale_factor`
    sentence: str = ""  # what is odd about it; empty if nothing

    def moved(self, move: Callable[[Any], Any]) -> ViewEvidence:
        """The same record with each map moved by `move`."""
        maps = ("support", "contradiction", "residual")
        return replace(self, **{name: move(getattr(self, name)) for name in maps})
