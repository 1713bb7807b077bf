"""The pipeline: associate, weigh, solve; and again through the surface found, for methods that re-associate."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion import kernels, methods
from cfusion.arrays import DepthMap, Image, WeightMap
from cfusion.association import Batch, Pull, reference_index, upload
from cfusion.errors import InputError, OutOfMemory
from cfusion.geometry import Camera, Pose, Stack, View
from cfusion.kernels.contract import Backend
from cfusion.methods import Method
from cfusion.solvers import OneMap, Outer, Progress, Solution, Solver, Status, Tuned, at_work, solve

LANES = 2  # bundles at a time on a GPU
BYTES_A_PIXEL, BYTES_AN_OBSERVATION = 250, 25  # at the peak of a solve, roughly


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

    def moved(self, move: Callable[[Any], Any]) -> Result:
        """The same result with its maps where `move` puts an array."""
        maps = ("depth", "confidence", "sigma", "provenance")
        return replace(self, **{name: move(getattr(self, name)) for name in maps})


def fuse(
    views: Sequence[View],
    method: str | Method = "auto",
    *,
    reference: int | None = None,
    backend: str = "auto",
    progress: Callable[[Progress], None] | None = None,
    **parameters: Any,
) -> Result:
    """Fuse depth maps into one view (the middle one unless given)."""
    began = time.perf_counter()
    views = _checked(views)
    chosen = methods.get(method).refined(parameters)
    loaded = kernels.load(backend)
    index = reference_index(views, reference)
    if isinstance(chosen.solver, OneMap):
        chosen = chosen.replace(solver=OneMap(index))
    seen = views[index]
    with _room_for(len(views), seen.shape, loaded):
        _foresee(chosen, seen.shape, loaded)
        batches = None if loaded.arrays is np else upload(views, index, loaded)
        stack = chosen.association(views, index, backend=loaded, batches=batches)
        if isinstance(chosen.association, Pull):
            chosen, weighed, solution = _re_associate(chosen, views, index, batches, stack, loaded, progress)
        else:
            weighed, solution = _solve(chosen, stack, loaded, progress)
        result = _result(chosen, weighed, solution, loaded).moved(loaded.to_host)
    seconds = time.perf_counter() - began
    return replace(result, seconds=seconds, pose=seen.pose, camera=seen.camera, image=seen.image)


def fuse_many(
    bundles: Iterable[Sequence[View]],
    method: str | Method = "auto",
    *,
    reference: int | None = None,
    backend: str = "auto",
    **parameters: Any,
) -> Iterator[Result]:
    """Fuse one bundle of views after the other, as `fuse` does each; on a GPU a few at a time, to keep it busy."""
    loaded = kernels.load(backend)

    def one(views: Sequence[View]) -> Result:
        with loaded.lane():
            return fuse(views, method, reference=reference, backend=backend, **parameters)

    with ThreadPoolExecutor(1 if loaded.arrays is np else LANES) as pool:
        waiting: deque[Future[Result]] = deque()
        for views in bundles:
            waiting.append(pool.submit(one, views))
            if len(waiting) > LANES:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def fuse_stack(
    stack: Stack,
    method: str | Method = "auto",
    *,
    backend: str = "auto",
    progress: Callable[[Progress], None] | None = None,
    **parameters: Any,
) -> Result:
    """Fuse depth maps that are registered already; the result lies where they do, on the host or on the GPU."""
    began = time.perf_counter()
    if not isinstance(stack, Stack):
        raise InputError(f"fuse_stack takes a cfusion.Stack, not {_named(stack)}; make one with Stack(depths)")
    chosen = methods.get(method).refined(parameters)
    loaded = kernels.load(backend)
    with _room_for(stack.views, stack.shape, loaded):
        _foresee(chosen, stack.shape, loaded)
        weighed, solution = _solve(chosen, at_work(stack, loaded), loaded, progress)
        result = _result(chosen, weighed, solution, loaded)
        if stack.on_host:
            result = result.moved(loaded.to_host)
    return replace(result, seconds=time.perf_counter() - began)


def _foresee(chosen: Method, shape: tuple[int, int], backend: Backend) -> None:
    """Let the backend get ready for the solves that will come."""
    if chosen.energy.regulariser is not None:
        backend.foresee(shape, chosen.energy.regulariser.order, chosen.energy.fidelity.kind)


@contextmanager
def _room_for(views: int, shape: tuple[int, int], backend: Backend) -> Iterator[None]:
    """Turn running out of memory into one sentence; the process goes on."""
    try:
        yield
    except MemoryError as error:
        if isinstance(error, OutOfMemory):
            raise
        needed = (BYTES_A_PIXEL + BYTES_AN_OBSERVATION * views) * shape[0] * shape[1] / 1e9
        raise OutOfMemory(
            f"{views} maps of {shape[1]} x {shape[0]} pixels need about {needed:.2g} GB in the memory of backend "
            f"{backend.NAME!r}, and less is free; crop or shrink them, give fewer, or pass another backend"
        ) from error


def _re_associate(
    chosen: Method,
    views: Sequence[View],
    index: int,
    batches: Sequence[Batch] | None,
    stack: Stack,
    backend: Backend,
    progress: Callable[[Progress], None] | None,
) -> tuple[Method, Stack, Solution]:
    """Pull every view through the surface and solve again, a few times.

    The first surfaces are guesses; a tuned solver makes its choices on the last pull but one, when the surface is
    nearly right; only the last answer is certified.
    """
    association, solver = chosen.association, chosen.solver
    assert isinstance(association, Pull)
    to_choose = isinstance(solver, Tuned) and solver.alpha is None
    weighed, solution = _solve(chosen.replace(solver=_first_guess(solver, stack, backend)), stack, backend, progress)
    surface = solution.depth
    for left in reversed(range(association.rounds)):
        stack = association.again(views, index, surface, backend=backend, batches=batches)
        now = solver
        if to_choose and left > 1:
            now = _first_guess(solver, stack, backend)
        elif isinstance(solver, Tuned) and left > 0:
            now = solver.rough()
        weighed, solution = _solve(chosen.replace(solver=now), stack, backend, progress)
        if isinstance(solver, Tuned) and left == 1:
            solver = replace(solver, **solution.chosen, start=solution.footing)
        damping = 1.0 if left + 1 == association.rounds else association.damping
        surface = backend.blend(surface, solution.depth, damping)
    return chosen.replace(solver=solver), weighed, solution


def _first_guess(solver: Solver, stack: Stack, backend: Backend) -> Solver:
    """What to solve with before a tuned solver has made its choices."""
    return solver.guess(stack, backend) if isinstance(solver, Tuned) and solver.alpha is None else solver


def _solve(
    chosen: Method, stack: Stack, backend: Backend, progress: Callable[[Progress], None] | None
) -> tuple[Stack, Solution]:
    weighed = chosen.confidence(stack, backend=backend)
    solution = solve(
        chosen.energy, weighed, chosen.solver, backend=backend, fill_radius=chosen.fill_radius, report=progress
    )
    return weighed, solution


def _result(chosen: Method, stack: Stack, solution: Solution, backend: Backend) -> Result:
    provenance, sigma = backend.account(stack.depths, stack.weights, stack.filled, solution.depth)
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
        method=chosen.name,
        parameters=_parameters(chosen, solution),
        backend=backend.NAME,
        camera=stack.camera,
        image=stack.image,
    )


def _parameters(chosen: Method, solution: Solution) -> dict[str, Any]:
    """What the method was given, and what it chose by itself."""
    parameters = {**chosen.parameters(), **solution.chosen}
    return {**parameters, "order": len(parameters["alpha"])} if "alpha" in parameters else parameters


def _checked(views: Iterable[View]) -> Sequence[View]:
    if isinstance(views, Stack):
        raise InputError("fuse takes views; for depth maps that are registered already use fuse_stack(stack)")
    if isinstance(views, View) or not isinstance(views, Iterable):
        raise InputError(f"fuse takes a list of views, not {_named(views)}")
    if not isinstance(views, Sequence):
        views = list(views)
    if len(views) == 0:
        raise InputError("there are no views; give at least one")
    for view in views:
        if not isinstance(view, View):
            raise InputError(f"views are cfusion.View, not {_named(view)}; for arrays use fuse_stack(Stack(depths))")
    if all(_knows_nothing(view.depth) for view in views):
        raise InputError("every depth in every view is NaN; nothing was observed, so nothing can be fused")
    return views


def _knows_nothing(depth: DepthMap) -> bool:
    """Whether it is all NaN; one row in sixteen tells most often."""
    return bool(np.isnan(depth[::16]).all() and np.isnan(depth).all())


def _named(given: object) -> str:
    """What a message calls something that is not what was asked for."""
    return "None" if given is None else type(given).__name__
