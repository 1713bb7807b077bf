"""The two scenes of the benchmarks: a smooth object (Laplace 0.6 at distance 3) and a planar city (Laplace 6 at
300)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cfusion import METHODS, Stack, View, kernels
from cfusion.arrays import DepthMap
from cfusion.kernels.contract import Problem, State
from cfusion.solvers.steps import StepBalancer
from cfusion.synthetic import (
    PAPER_CAMERA,
    Laplace,
    blob,
    city_bundle,
    load_mesh,
    object_bundle,
)

KINDS = ("object", "city")


def bundle(kind: str, seed: int = 0, scale: float = 1.0) -> tuple[list[View], DepthMap]:
    """Eleven views and the true depth of the middle one."""
    rng, camera = np.random.default_rng(seed), PAPER_CAMERA.scaled(scale)
    if kind == "object":
        return object_bundle(blob(), Laplace(0.6), rng, camera=camera)
    if kind == "bunny":
        return object_bundle(bunny(), Laplace(0.6), rng, camera=camera)
    return city_bundle(None, Laplace(6.0), rng, camera=camera)


def splatted(views: Sequence[View], unit: float = 1.0) -> Stack:
    """The stack of the paper's association, in another unit of depth if asked for."""
    stack = METHODS["l1"].splat(views, backend=kernels.load("cpu"))
    return Stack(stack.depths * np.float32(unit))


def iterate(balancer: StepBalancer, problem: Problem, state: State, count: int) -> None:
    """Run iterations in place with self-correcting steps, as the solver does."""
    balancer.run_and(problem, state, count, lambda kept, every: balancer.backend.measure(problem, state, kept, every))


def bunny():  # type: ignore[no-untyped-def]
    """The Stanford bunny, where the data folder is at hand."""
    return load_mesh(data_folder() / "stanford" / "bunny.ply").centred().scaled_to(2.0)


def data_folder() -> Path:
    return Path(os.environ.get("CFUSION_DATA", Path(__file__).parents[2] / "shared" / "data"))
