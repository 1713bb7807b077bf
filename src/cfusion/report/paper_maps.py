"""Galleries of the paper: shaded surfaces by method and scene, and depth maps side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap
from cfusion.geometry import Camera, normals
from cfusion.report.figures import AMBIENT, DEPTH_COLOURS, LETTERS, TOWARDS_LIGHT
from cfusion.report.paper_axes import GALLERY, PANELS, colours, png_of, sheet
from cfusion.report.paper_checks import Exhibit

BESIDE = {"ha": "right", "va": "center"}
MARGIN = 0.04  # of the image, around the known pixels


@dataclass(frozen=True)
class Frame:
    """The part of the image that is shown: the known pixels of the truth, with a margin."""

    rows: slice
    columns: slice
    camera: Camera  # of the part

    @classmethod
    def around(cls, truth: DepthMap, camera: Camera) -> "Frame":
        """The known pixels of the truth with a margin of 4 % of the image."""
        known = np.isfinite(truth)
        rows, columns = _extent(known, axis=0), _extent(known, axis=1)
        size = {"width": columns.stop - columns.start, "height": rows.stop - rows.start}
        return cls(rows, columns, replace(camera, cx=camera.cx - columns.start, cy=camera.cy - rows.start, **size))

    def of(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The part of a map (H, W)."""
        return values[self.rows, self.columns]


def _extent(known: NDArray[np.bool_], axis: int) -> slice:
    """From the first to the last row (axis 0) or column (axis 1) with a known pixel, with a margin."""
    length = known.shape[axis]
    places = np.nonzero(known)[axis]
    if places.size == 0:
        return slice(0, length)
    margin = round(MARGIN * length)
    return slice(max(0, int(places.min()) - margin), min(length, int(places.max()) + 1 + margin))


@dataclass(frozen=True, eq=False)
class Panel:
    """A map with a title."""

    title: str
    depth: DepthMap
    camera: Camera | None = None


@dataclass(frozen=True, eq=False)
class Gallery(Exhibit):
    """Shaded surfaces in the paper's layout: methods down, scenes across."""

    scenes: tuple[str, ...]
    rows: Mapping[str, Sequence[Panel | None]]  # by method, one per scene

    def png(self) -> bytes:
        """One grey picture per method and scene, cropped to the known pixels."""
        figure, axes = sheet(len(self.rows), len(self.scenes), (1.9, 1.6), GALLERY)
        first = next(iter(self.rows.values()))
        frames = [_frame(panel) for panel in first]
        for place, (name, panels) in enumerate(self.rows.items()):
            for column, panel in enumerate(panels):
                where = axes[place * len(self.scenes) + column]
                where.set_axis_off()
                if panel is not None and panel.camera is not None:
                    frame = frames[column] or Frame.around(panel.depth, panel.camera)
                    shade = shaded(frame.of(panel.depth), frame.camera)
                    where.imshow(np.ma.masked_invalid(shade), cmap=colours("gray"), vmin=0, vmax=1)
                if place == 0:
                    where.set_title(self.scenes[column], size=8, color=LETTERS)
                if column == 0:
                    where.text(
                        -0.04, 0.5, name, rotation=90, size=7, color=LETTERS, **BESIDE, transform=where.transAxes
                    )
        return png_of(figure)


@dataclass(frozen=True, eq=False)
class Panels(Exhibit):
    """Depth maps side by side on one colour scale."""

    panels: tuple[Panel, ...]
    layout: tuple[int, ...] = ()  # panels per line; default four

    def places(self) -> list[tuple[int, int]]:
        """Line and column of every panel."""
        count = len(self.panels)
        layout = self.layout if sum(self.layout) == count else (4,) * math.ceil(count / 4)
        return [(line, column) for line, wide in enumerate(layout) for column in range(wide)][:count]

    def png(self) -> bytes:
        """The panels; the first one sets the scale."""
        places = self.places()
        down, across = (1 + max(place[side] for place in places) for side in (0, 1))
        height, width = self.panels[0].depth.shape
        figure, axes = sheet(down, across, (2.3, 2.3 * height / width), PANELS)
        low, high = float(np.nanmin(self.panels[0].depth)), float(np.nanmax(self.panels[0].depth))
        for where in axes:
            where.set_axis_off()
        for (line, column), panel in zip(places, self.panels, strict=True):
            where = axes[line * across + column]
            where.imshow(np.ma.masked_invalid(panel.depth), cmap=colours(DEPTH_COLOURS), vmin=low, vmax=high)
            where.set_title(panel.title, size=8, color=LETTERS)
        return png_of(figure)


def shaded(depth: DepthMap, camera: Camera) -> NDArray[Any]:
    """The surface (H, W) in [0, 1], lit from above the camera's left shoulder."""
    light = TOWARDS_LIGHT / np.linalg.norm(TOWARDS_LIGHT)
    return np.asarray(AMBIENT + (1 - AMBIENT) * np.maximum(normals(depth, camera) @ light, 0.0))


def _frame(panel: Panel | None) -> Frame | None:
    return None if panel is None or panel.camera is None else Frame.around(panel.depth, panel.camera)
