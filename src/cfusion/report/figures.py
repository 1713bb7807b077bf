"""Settings shared by pictures of maps: colour maps, limits, light; unknown pixels are a neutral grey.

Letters are mid-grey, so that a picture reads on a light and on a dark page.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import optional_module

Limits = tuple[float, float]

DEPTH_COLOURS, CONFIDENCE_COLOURS = "viridis", "cividis"
LETTERS = "#7d7d7d"
UNKNOWN = (0.5, 0.5, 0.5, 0.25)
TOWARDS_LIGHT = np.array([-0.45, -0.55, -0.70])  # above the camera's left shoulder (x right, y down, z forward)
AMBIENT = 0.12


def require_pictures() -> None:
    """Raise before any computation if pictures cannot be drawn."""
    _module("matplotlib.figure")


def robust_limits(values: NDArray[np.floating]) -> Limits:
    """The 1st and 99th percentile of the known values, never equal."""
    known = values[np.isfinite(values)]
    if known.size == 0:
        return 0.0, 1.0
    low, high = (float(limit) for limit in np.percentile(known, (1, 99)))
    margin = 1e-3 * max(abs(low), abs(high)) or 1.0
    return (low, high) if high - low > 1e-6 * margin else (low - margin, high + margin)


def _module(name: str) -> Any:
    return optional_module(name, missing="pictures need matplotlib: pip install 'cfusion[report]'")
