"""Axes of a fixed size on a sheet, and one style for all plots of the paper."""

import base64
import importlib
import io
from dataclasses import dataclass
from html import escape
from typing import Any

from cfusion.report.figures import LETTERS, UNKNOWN, require_pictures

DPI = 110
OURS = "auto"
# Distinguishable on light and dark, by colour and by marker; the last is ours.
COLOURS = (
    *("#7f7f7f", "#8c564b", "#1f77b4", "#17becf", "#2ca02c", "#9467bd"),
    *("#bcbd22", "#ff7f0e", "#e377c2", "#6f9a37", "#d62728"),
)
MARKERS = "ov^s<>PXDhp"


@dataclass(frozen=True)
class Margins:
    """In inches."""

    left: float
    right: float
    top: float
    bottom: float
    across: float  # between two columns
    down: float  # between two rows


PLOT = Margins(left=0.8, right=1.9, top=0.15, bottom=0.5, across=0.85, down=0.55)
GALLERY = Margins(left=0.3, right=0.05, top=0.3, bottom=0.05, across=0.03, down=0.03)
PANELS = Margins(left=0.05, right=0.05, top=0.3, bottom=0.05, across=0.08, down=0.3)


def sheet(down: int, across: int, size: tuple[float, float], margins: Margins) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row, each of the given size in inches."""
    require_pictures()
    width = margins.left + across * size[0] + (across - 1) * margins.across + margins.right
    height = margins.bottom + down * size[1] + (down - 1) * margins.down + margins.top
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(width, height), dpi=DPI)
    axes = []
    for i in range(down):
        for j in range(across):
            x = margins.left + j * (size[0] + margins.across)
            y = margins.bottom + (down - 1 - i) * (size[1] + margins.down)
            axes.append(figure.add_axes((x / width, y / height, size[0] / width, size[1] / height)))
    return figure, axes


def style(number: int, row: str) -> dict[str, Any]:
    """The line style of a row; ours is thick."""
    place = len(COLOURS) - 1 if row == OURS else number % (len(COLOURS) - 1)
    thick = 2.4 if row == OURS else 1.2
    return {"color": COLOURS[place], "marker": MARKERS[place], "markersize": 3.5, "linewidth": thick}


def label(axes: Any, across: str, up: str) -> None:
    """Name the axes and draw a faint grid."""
    axes.set_xlabel(across, size=8, color=LETTERS)
    axes.set_ylabel(up, size=8, color=LETTERS)
    axes.tick_params(which="both", labelsize=7, colors=LETTERS)
    axes.grid(which="both", color=LETTERS, alpha=0.18, linewidth=0.5)
    for side in axes.spines.values():
        side.set_color(LETTERS)
        side.set_alpha(0.5)
    axes.patch.set_alpha(0)


def legend(axes: Any) -> None:
    """A legend to the right of the axes."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.02), fontsize=7, frameon=False, labelcolor=LETTERS)


def colours(name: str) -> Any:
    """A colour map with neutral grey for unknown values."""
    return importlib.import_module("matplotlib").colormaps[name].with_extremes(bad=UNKNOWN)


def png_of(figure: Any) -> bytes:
    """The figure as PNG with a transparent background."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", transparent=True)
    return stream.getvalue()


def picture(words: str, png: bytes) -> str:
    """A picture embedded in a page."""
    data = base64.b64encode(png).decode("ascii")
    return f'<figure><img alt="{escape(words, quote=True)}" src="data:image/png;base64,{data}"></figure>'
