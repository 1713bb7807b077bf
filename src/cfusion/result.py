"""What fusing gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Image, WeightMap
from cfusion.geometry import Camera, Pose
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
        provenance, sigma = backend.account(stack.depths, stack.weights, stack.filled, solution.depth)
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
