"""Sparse points for a COLMAP model built from depth maps, which tell COLMAP which images overlap."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.geometry import View

PER_VIEW = 200
AGREEMENT = 0.02  # relative difference of depth within which two views see the same point


@dataclass(frozen=True, eq=False)
class Tracks:
    """N points, and where each of K views sees them."""

    points: Points  # (N, 3)
    u: NDArray[np.float64]  # (K, N), NaN where a view does not see the point
    v: NDArray[np.float64]  # (K, N)

    def image_line(self, view: int) -> str:
        """`X Y POINT3D_ID` of the points that a view sees."""
        seen = np.flatnonzero(np.isfinite(self.u[view]))
        return " ".join(f"{self.u[view, n]:.6f} {self.v[view, n]:.6f} {n + 1}" for n in seen)

    def point_lines(self) -> list[str]:
        """`POINT3D_ID X Y Z R G B ERROR`, then `IMAGE_ID POINT2D_IDX` of each view that sees the point."""
        seen = np.isfinite(self.u)
        place = np.cumsum(seen, axis=1) - 1
        lines = []
        for n, point in enumerate(self.points):
            track = " ".join(f"{view + 1} {place[view, n]}" for view in np.flatnonzero(seen[:, n]))
            lines.append(f"{n + 1} {' '.join(repr(float(value)) for value in point)} 128 128 128 1 {track}")
        return lines


def tracks(views: Sequence[View]) -> Tracks:
    """Some points of each view, and the views whose depth agrees there; points seen once are omitted."""
    points = np.concatenate([_sampled(view) for view in views])
    u, v = np.full((len(views), len(points)), np.nan), np.full((len(views), len(points)), np.nan)
    for number, view in enumerate(views):  # each view is read once
        across, down, depth = view.camera.project(view.pose.inverse().apply(points))
        with np.errstate(invalid="ignore"):
            inside = (across >= 0) & (down >= 0) & (across <= view.shape[1] - 1) & (down <= view.shape[0] - 1)
        row, column = (np.rint(np.where(inside, value, 0)).astype(np.int64) for value in (down, across))
        with np.errstate(invalid="ignore"):
            agrees = inside & (np.abs(view.depth[row, column] / depth - 1) < AGREEMENT)
        u[number], v[number] = np.where(agrees, across, np.nan), np.where(agrees, down, np.nan)
    kept = np.isfinite(u).sum(axis=0) >= 2
    return Tracks(points[kept], u[:, kept], v[:, kept])


def _sampled(view: View) -> Points:
    """(N, 3) points in the world, from known pixels spread evenly over the map."""
    known = np.flatnonzero(np.isfinite(view.depth))
    chosen = known[np.linspace(0, known.size - 1, min(PER_VIEW, known.size)).astype(np.int64)]
    return view.pose.apply(view.camera.back_project(view.depth).reshape(-1, 3)[chosen])
