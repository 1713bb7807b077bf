"""A matplotlib figure of a result: its maps side by side, with colour bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cfusion.report.figures import CONFIDENCE_COLOURS, DEPTH_COLOURS, UNKNOWN, _module, robust_limits

if TYPE_CHECKING:
    from cfusion.result import Result

COLOURS = {"depth": DEPTH_COLOURS, "sigma": "inferno", "confidence": CONFIDENCE_COLOURS, "provenance": "viridis"}
TITLES = {"provenance": "views"}
SIZE = (11.0, 3.0)  # inches


def plot(result: Result) -> Any:
    """A figure without a window; a notebook shows it, `savefig` writes it."""
    matplotlib = _module("matplotlib")
    figure = _module("matplotlib.figure").Figure(figsize=SIZE, layout="constrained")
    for axes, (name, colours) in zip(figure.subplots(1, len(COLOURS)), COLOURS.items(), strict=True):
        values = np.asarray(getattr(result, name), np.float64)
        unknown = ~np.isfinite(values) | np.isnan(np.asarray(result.depth, np.float64))
        shown = np.ma.masked_where(unknown, values)
        low, high = robust_limits(np.where(unknown, np.nan, values))
        colour_map = matplotlib.colormaps[colours].with_extremes(bad=UNKNOWN)
        picture = axes.imshow(shown, cmap=colour_map, vmin=low, vmax=high)
        axes.set_title(TITLES.get(name, name), fontsize="medium")
        axes.set_axis_off()
        figure.colorbar(picture, ax=axes, location="bottom", shrink=0.8)
    return figure
