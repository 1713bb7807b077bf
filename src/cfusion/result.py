"""The result of a fusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, DepthStack, Image, MaskStack, WeightMap, WeightStack
from cfusion.geometry import Camera, Pose, Stack
from cfusion.kernels.contract import Backend
from cfusion.kernels.one_pass import added_up, one_pass
from cfusion.solvers import Fused, Outer, Status, ViewEvidence
from cfusion.source import Frame


@dataclass(frozen=True, eq=False)
class Result:
    """One depth map, its confidence and sigma, and how it was computed.

    Args:
        depth: (H, W) in the unit of the views; NaN where nothing is known.
        confidence: (H, W) `auto`: probability that the depth is right; the paper's methods: lam of the energy. No unit.
        sigma: (H, W) standard deviation of the depth's error, in the unit of depth; NaN where nothing was observed.
        provenance: (H, W) n > 0: observed n times, 0: filled, -1: unknown.
        history: one `Outer` per outer step of the last solve.
        gap: certified: (energy - lower bound) / energy of the last convex solve; NaN if there was none.
        energies: terms of the energy: `fidelity`, `regulariser` and its parts `order_1`, `order_2`, .., `prior` (where
            the confidence is estimated), `total`. Empty for `input`.
        status: the outcome of the solve; its value is a sentence.
        seconds: wall-clock time.
        iterations: iterations of the last solve.
        method: the name of the method.
        parameters: of the method, by name, including the choices of `auto`.
        backend: the name of the backend.
        camera: of the reference view, or None.
        pose: world_from_camera of the reference view, or None.
        image: of the reference view, or None.
        views: for each view a record of support, residuals, noise and pose, if `keep_views=True` (`auto`); else empty.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Stack, fuse_stack
        >>> surveys = np.array([1.0, 1.2, 1.1, 9.0, 1.1])[:, None, None] * np.ones((5, 8, 10))
        >>> result = fuse_stack(Stack(surveys), "median", backend="numpy")
        >>> round(float(result.depth[0, 0]), 3), int(result.provenance[0, 0])
        (1.1, 5)
    """

    depth: DepthMap  # (H, W), NaN where nothing is known
    confidence: WeightMap  # (H, W) `auto`: probability that the depth is right; the paper's: lam. Zero where unknown
    sigma: DepthMap  # (H, W) standard deviation of the depth's error; NaN where nothing was observed
    provenance: NDArray[np.int16]  # (H, W): n > 0 observed n times, 0 filled, -1 unknown
    history: tuple[Outer, ...]  # per outer step of the last solve
    gap: float  # certified relative duality gap of the last convex solve; nan if there was none
    energies: dict[str, float]
    status: Status
    seconds: float
    iterations: int
    method: str
    parameters: dict[str, Any]
    backend: str
    camera: Camera | None = None
    pose: Pose | None = None  # world_from_camera of the reference
    image: Image | None = None
    views: tuple[ViewEvidence, ...] = ()  # per view, in order, if `keep_views`

    @staticmethod
    def of(fused: Fused, frame: Frame, name: str, given: dict[str, Any], backend: Backend) -> Result:
        """The result of a method; `given` are its parameters, to which its choices are added."""
        stack, solution = fused.stack, fused.solution
        provenance = _measured(stack, solution.depth)
        sigma = _standard_error(stack, solution.depth) if fused.sigma is None else fused.sigma
        parameters = {**given, **fused.chosen}
        if "alpha" in parameters:
            parameters["order"] = len(parameters["alpha"])
        return Result(
            depth=solution.depth.astype(np.float32),
            confidence=solution.confidence.astype(np.float32),
            sigma=sigma,
            provenance=provenance,
            history=solution.history,
            gap=solution.gap,
            energies=solution.energies,
            status=solution.status,
            seconds=0.0,
            iterations=solution.iterations,
            method=name,
            parameters=parameters,
            backend=backend.NAME,
            camera=frame.camera,
            pose=frame.world_from_camera,
            image=frame.image,
            views=fused.views,
        )

    def __repr__(self) -> str:
        """One line with the main figures."""
        from cfusion.view.notebook import one_line

        return one_line(self)

    def _repr_html_(self) -> str:
        """A small picture and a table, for notebooks."""
        from cfusion.view.notebook import as_html

        return as_html(self)

    def points(self) -> NDArray[np.float64]:
        """The observed pixels as points (N, 3), row by row, in the unit of depth: in the world if the pose is known,
        else in the camera's frame (x right, y down, z forward).

        Examples:
            >>> import numpy as np
            >>> from cfusion import Orthographic, Stack, fuse_stack
            >>> stack = Stack(np.full((3, 4, 5), 2.0), camera=Orthographic(1.0, 2, 1.5, 5, 4))
            >>> fuse_stack(stack, "median", backend="numpy").points().mean(axis=0).tolist()
            [0.0, 0.0, 2.0]
        """
        from cfusion.view.notebook import points_of

        return points_of(self)

    def save(
        self,
        folder: str | PathLike[str],
        formats: Sequence[str] = ("npy", "png", "pfm", "ply"),
        *,
        unit: str = "metre",
        overwrite: bool = False,
    ) -> None:
        """Write depth, confidence, sigma, provenance, points and result.json to a folder, completely or not at all.

        Args:
            folder: created if it does not exist.
            formats: any of npy, png, pfm, ply.
            unit: of depth, in words, as the files state it.
            overwrite: also replace files of these names that are of no result; those of an older result always are.

        Examples:
            >>> import numpy as np
            >>> from cfusion import Stack, fuse_stack
            >>> fuse_stack(Stack(np.ones((3, 4, 5))), "median", backend="numpy").save("out", formats=("npy",))
            >>> np.load("out/depth.npy").shape
            (4, 5)
        """
        from cfusion.view.notebook import save

        save(self, folder, formats, unit, overwrite=overwrite)

    def report(self, path: str | PathLike[str], **more: Any) -> Path:
        """Write the result's page, one HTML file; `more` as in `cfusion.view.write_page` (views, truth, ...).

        Args:
            path: the file to write.
            more: views and reference, truth, title, unit and so on.

        Examples:
            >>> import numpy as np
            >>> from cfusion import Stack, fuse_stack
            >>> stack = Stack(np.ones((3, 40, 50)))
            >>> fuse_stack(stack, "median", backend="numpy").report("report.html", views=stack).name
            'report.html'
        """
        from cfusion.view import write_page

        return write_page(path, self, **more)

    def plot(self) -> Any:
        """A matplotlib figure of depth, sigma, confidence and provenance.

        Examples:
            >>> import numpy as np
            >>> from cfusion import Stack, fuse_stack
            >>> figure = fuse_stack(Stack(np.ones((3, 4, 5))), "median", backend="numpy").plot()
            >>> figure.savefig("result.png")
        """
        from cfusion.report.plots import plot

        return plot(self)

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` of the maps over row and column, with parameters and outcome as attributes.

        Examples:
            >>> import numpy as np
            >>> from cfusion import Stack, fuse_stack
            >>> data = fuse_stack(Stack(np.ones((3, 4, 5))), "median", backend="numpy").to_xarray()
            >>> dict(data.sizes), data.attrs["method"]
            ({'row': 4, 'column': 5}, 'median')
        """
        from cfusion.view.notebook import as_dataset

        return as_dataset(self)

    def moved(self, move: Callable[[Any], Any]) -> Result:
        """The same result with each map moved by `move`, for example to the host."""
        maps = {name: move(getattr(self, name)) for name in ("depth", "confidence", "sigma", "provenance")}
        return replace(self, **maps, views=tuple(view.moved(move) for view in self.views))


def _measured(stack: Stack, depth: DepthMap) -> NDArray[np.int16]:
    """How often each pixel (H, W) was measured, not counting filled values; -1 where depth is unknown."""
    (count,) = added_up(_seen, stack.depths, stack.weights, stack.filled)
    return _provenance(count, depth)


def _seen(depths: DepthStack, weights: WeightStack | None, filled: MaskStack | None) -> tuple[NDArray[np.int32]]:
    seen = ~np.isnan(depths) if weights is None else weights > 0
    return ((seen if filled is None else seen & ~filled).astype(np.int32),)


@one_pass
def _provenance(count: NDArray[np.int32], depth: DepthMap) -> NDArray[np.int16]:
    most = np.iinfo(np.int16).max
    return np.where(np.isnan(depth), -1, np.minimum(count, most)).astype(np.int16)


def _standard_error(stack: Stack, depth: DepthMap) -> DepthMap:
    """sqrt(2) mean |d - depth| / sqrt(n), (H, W), over the n known depths of a pixel; NaN without any."""
    return _of_mean(*added_up(_errors, stack.depths, depth))


def _errors(depths: DepthStack, depth: DepthMap) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    away = np.abs(depths - depth)
    there = ~np.isnan(away)
    return np.where(there, away, 0).astype(np.float64), there.astype(np.int32)


@one_pass
def _of_mean(total: NDArray[np.float64], known: NDArray[np.int32]) -> DepthMap:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known > 0, np.sqrt(2) * total / known**1.5, np.nan).astype(np.float32)
