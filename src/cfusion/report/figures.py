"""Pictures of maps as PNG files in memory: fixed colour maps, colour bars, unknown pixels in a neutral grey.

Backgrounds are transparent and letters mid-grey, so that a picture reads on a light and on a dark page.
"""

import importlib
import io
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, WeightMap
from cfusion.errors import MissingDependency
from cfusion.geometry import Camera, normals

Limits = tuple[float, float]

DEPTH_COLOURS, CONFIDENCE_COLOURS, ERROR_COLOURS, SURFACE_COLOURS = "viridis", "cividis", "RdBu_r", "gray"
LETTERS = "#7d7d7d"
UNKNOWN = (0.5, 0.5, 0.5, 0.25)
WIDTH = 360  # pixels of the map in the picture; noise does not compress, and a page holds many
BAR = 46  # pixels below it, for the colour bar
DPI = 100
TOWARDS_LIGHT = np.array([-0.45, -0.55, -0.70])  # above the camera's left shoulder (x right, y down, z forward)
AMBIENT = 0.12


def require_pictures() -> None:
    """Find out before computing whether pictures can be drawn."""
    _module("matplotlib.figure")


def depth_picture(depth: DepthMap, limits: Limits | None = None) -> bytes:
    """Depth, dark = near."""
    return _picture(depth, DEPTH_COLOURS, limits or robust_limits(depth), "depth")


def confidence_picture(confidence: WeightMap, limits: Limits | None = None) -> bytes:
    """Confidence, bright = trusted; unknown where it is zero. The scale starts at 0: even trust looks even."""
    known = np.where(confidence > 0, confidence, np.nan)
    return _picture(known, CONFIDENCE_COLOURS, limits or (0.0, robust_limits(known)[1]), "confidence")


def error_picture(depth: DepthMap, truth: DepthMap, largest: float) -> bytes:
    """Depth minus truth: blue = too near, red = too far, from -largest to largest."""
    return _picture(depth - truth, ERROR_COLOURS, (-largest, largest), "depth - truth")


def surface_picture(depth: DepthMap, camera: Camera) -> bytes:
    """The surface under a light above the camera's left shoulder: normals as the eye sees them."""
    light = TOWARDS_LIGHT / np.linalg.norm(TOWARDS_LIGHT)
    shade = AMBIENT + (1 - AMBIENT) * np.maximum(normals(depth, camera) @ light, 0.0)
    return _picture(shade, SURFACE_COLOURS, (0.0, 1.0), "light")


def robust_limits(values: NDArray[np.floating]) -> Limits:
    """The 1st and 99th percentile of the known values, never equal."""
    known = values[np.isfinite(values)]
    if known.size == 0:
        return 0.0, 1.0
    low, high = (float(limit) for limit in np.percentile(known, (1, 99)))
    margin = 1e-3 * max(abs(low), abs(high)) or 1.0
    return (low, high) if high - low > 1e-6 * margin else (low - margin, high + margin)


def _picture(values: NDArray[np.floating], colours: str, limits: Limits, label: str) -> bytes:
    """Figures are made without pyplot: no global state, no window system."""
    matplotlib = _module("matplotlib")
    height = max(24, round(WIDTH * values.shape[0] / values.shape[1]))
    figure = _module("matplotlib.figure").Figure(figsize=(WIDTH / DPI, (height + BAR) / DPI), dpi=DPI)
    below = BAR / (height + BAR)
    axes = figure.add_axes((0.0, below, 1.0, 1.0 - below))
    axes.set_axis_off()
    shown = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=matplotlib.colormaps[colours].with_extremes(bad=UNKNOWN),
        vmin=limits[0],
        vmax=limits[1],
        aspect="auto",
    )
    bar = figure.colorbar(shown, cax=figure.add_axes((0.04, 0.66 * below, 0.6, 0.2 * below)), orientation="horizontal")
    bar.outline.set_visible(False)
    bar.locator = _module("matplotlib.ticker").MaxNLocator(4)
    bar.ax.tick_params(labelsize=8, color=LETTERS, labelcolor=LETTERS, length=2, pad=1)
    figure.text(0.98, 0.6 * below, label, ha="right", va="center", size=8, color=LETTERS)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", transparent=True)
    return stream.getvalue()


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingDependency("pictures need matplotlib: pip install 'cfusion[report]'") from None
