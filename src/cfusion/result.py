"""What fusing gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Image, WeightMap, pieces
from cfusion.geometry import Camera, Pose, Stack
from cfusion.kernels.contract import Backend
from cfusion.solvers import Fused, Outer, Status
from cfusion.source import Frame


@dataclass(frozen=True, eq=False)
class Result:
    """One depth map, how far to trust it, and how it came about."""

    depth: DepthMap  # (H, W), NaN where nothing is known
    confidence: WeightMap  # (H, W) the estimated lam, zero where unknown
    sigma: DepthMap  # (H, W) standard error of the pixel's own observations; NaN where nothing was observed
    provenance: NDArray[np.int16]  # (H, W): n > 0 observed n times, 0 filled, -1 unknown
    history: tuple[Outer, ...]  # per outer step of the last solve
    gap: float  # certified relative duality gap of the last convex solve; nan where there was none
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

    @staticmethod
    def of(fused: Fused, frame: Frame, name: str, given: dict[str, Any], backend: Backend) -> Result:
        """The result of a method; `given` are its parameters, to which it adds what it chose."""
        stack, solution = fused.stack, fused.solution
        provenance, sigma = _measured(stack, solution.depth), _standard_error(stack, solution.depth)
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
        )

    def moved(self, move: Callable[[Any], Any]) -> Result:
        """The same result with its maps where `move` puts an array."""
        maps = ("depth", "confidence", "sigma", "provenance")
        return replace(self, **{name: move(getattr(self, name)) for name in maps})


def _measured(stack: Stack, depth: DepthMap) -> NDArray[np.int16]:
    """(H, W) how often each pixel was measured (what was filled is not), -1 where depth is unknown."""
    count = np.zeros_like(depth, np.int32)
    filled = [None] * stack.views if stack.filled is None else pieces(stack.filled)
    for seen, interpolated in zip(stack.seen(), filled, strict=False):
        count += (seen if interpolated is None else seen & ~interpolated).sum(axis=0)
    most = np.iinfo(np.int16).max
    return np.where(np.isnan(depth), -1, np.minimum(count, most)).astype(np.int16)


def _standard_error(stack: Stack, depth: DepthMap) -> DepthMap:
    """(H, W) sqrt(2) mean |d - depth| / sqrt(n) over the n known depths of a pixel; NaN without any."""
    total, known = np.zeros_like(depth, np.float64), np.zeros_like(depth, np.int32)
    for depths in pieces(stack.depths):
        away = np.abs(depths - depth)
        there = ~np.isnan(away)
        total += np.where(there, away, 0).sum(axis=0)
        known += there.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known > 0, np.sqrt(2) * total / known**1.5, np.nan).astype(np.float32)
