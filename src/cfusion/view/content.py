"""The contents of a page as data: results, the views they were fused from, the truth if it is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, median_of
from cfusion.errors import ShapeError
from cfusion.geometry import Camera, Pose, Stack, View
from cfusion.view.readings import Residuals, names_of, residuals_of_stack, residuals_of_view
from cfusion.view.view_figures import ViewFigures, recorded, view_figures

MOST_PIXELS = 1_300_000  # of a map on a page; larger ones are subsampled
MOST_VIEWS = 32  # whose residuals a page stores per pixel


@dataclass(frozen=True)
class Event:
    """An event of a running solve."""

    seconds: float
    stage: str
    gap: float
    energy: float


@dataclass(frozen=True, eq=False)
class Content:
    """Everything on one page; maps are (H, W), or None."""

    title: str
    results: Sequence[Any]  # the page opens with the first
    unit: str = "metre"
    heights: bool = False  # the maps are heights: up is towards the viewer
    views: Sequence[View] | Stack | None = None
    reference: int | None = None
    truth: DepthMap | None = None
    scores: Sequence[Mapping[str, float | int | str | None]] = ()
    traces: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    source: str = ""
    command: str = ""
    figures: Sequence[ViewFigures] = ()  # of every view, if its residuals are not available

    def __post_init__(self) -> None:
        for result in self.results:
            if result.depth.shape != self.shape:
                raise ShapeError(f"the results of a page must have one shape; {result.depth.shape} is not {self.shape}")
        if self.truth is not None and self.truth.shape != self.shape:
            raise ShapeError(f"the truth is {self.truth.shape}, the depth is {self.shape}; give the same shape")

    @property
    def first(self) -> Any:
        """The result that the page opens with."""
        return self.results[0]

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W)."""
        rows, columns = self.results[0].depth.shape
        return int(rows), int(columns)

    @property
    def stride(self) -> int:
        """The stride in pixels at which maps are shown."""
        return max(1, int(np.ceil(np.sqrt(self.shape[0] * self.shape[1] / MOST_PIXELS))))

    @property
    def camera(self) -> Camera | None:
        """The camera of the result."""
        return getattr(self.first, "camera", None)

    def names(self) -> list[str]:
        """The names of the views."""
        if self.views is not None:
            return names_of(self.views)
        return [f"view {k}" for k in range(len(getattr(self.first, "views", None) or ()))]

    def residuals(self) -> Callable[[int], Residuals] | None:
        """The residuals of view k against the fused surface, as a function of k; None without views."""
        views, surface, own = self.views, np.asarray(self.first.depth, np.float32), self._own_views()
        if own:
            return lambda k: np.asarray(own[k].residual, np.float32)
        if views is None:
            return None
        if isinstance(views, Stack):
            return lambda k: residuals_of_stack(views, surface, k)
        camera, pose = self.camera, self._pose(views)
        if camera is None or pose is None:
            return None
        return lambda k: residuals_of_view(views[k], surface, camera, pose)

    def input_depth(self) -> DepthMap | None:
        """The reference view's own map, if it lies on the grid of the result."""
        if self.views is None or self.reference is None:
            return None
        views = self.views
        depth = views.depths[self.reference] if isinstance(views, Stack) else views[self.reference].depth
        return np.asarray(depth) if depth.shape == self.shape else None

    def view_records(self, residuals: Callable[[int], Residuals] | None) -> Sequence[ViewFigures]:
        """The result's own record of its views if it has one, else figures computed from the residuals."""
        names, own = self.names(), self._own_views()
        if self.figures:
            return self.figures
        if own:
            return [recorded(each, name) for each, name in zip(own, names, strict=True)]
        return () if residuals is None else view_figures(names, residuals, np.asarray(self.first.depth))

    def _own_views(self) -> Sequence[Any]:
        """The result's own record of its views, one each; empty if it has none."""
        own = tuple(getattr(self.first, "views", None) or ())
        return own if len(own) == len(self.names()) else ()

    def _pose(self, views: Sequence[View]) -> Pose | None:
        pose: Pose | None = getattr(self.first, "pose", None)
        return views[self.reference].pose if pose is None and self.reference is not None else pose


def shown_views(count: int) -> list[int]:
    """The views whose residuals a page stores: all, or evenly spaced ones."""
    if count <= MOST_VIEWS:
        return list(range(count))
    return sorted({round(k) for k in np.linspace(0, count - 1, MOST_VIEWS)})


def median_of_views(depth: DepthMap, residuals: Sequence[Residuals]) -> NDArray[np.float32] | None:
    """The median (H, W) of the views' measurements at the surface."""
    if not residuals:
        return None
    return np.asarray(depth + median_of(np.array(residuals, np.float32)), dtype=np.float32)
