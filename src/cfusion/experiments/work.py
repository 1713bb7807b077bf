"""One job: observe, fuse, judge; or solve under observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion import kernels, methods
from cfusion.association import Pull, Splat, upload
from cfusion.confidence import Given
from cfusion.errors import InputError
from cfusion.experiments.boxes import Regions
from cfusion.experiments.conditions import BoxImage, Condition, Observed
from cfusion.experiments.plan import Job
from cfusion.experiments.spec import LITERAL, TRUTH
from cfusion.experiments.store import Store
from cfusion.experiments.watched import Watched
from cfusion.fuse import Result, fuse, fuse_stack
from cfusion.geometry import Stack
from cfusion.io.cameras import camera_to_json
from cfusion.kernels.contract import Problem, State
from cfusion.kernels.reference.literal import NORM_SQUARED, Literal
from cfusion.methods import METHODS, Method
from cfusion.metrics import Scores, evaluate
from cfusion.solvers import AMA, OneMap, Task, prepare
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.steps import choose_steps

Maps = dict[str, NDArray[Any]]
LITERAL_BLOCK = 25


def work(job: Job, store: Store) -> tuple[dict[str, Any], Maps]:
    """What came out, as a record, and the maps to show it with."""
    observed = _observed(job.condition, store)
    if job.trace:
        return _trace(job, store), {}
    if job.method == TRUTH:
        return _record(job, observed, observed.truth), {"depth": observed.truth}
    result = _fuse(job, store, observed)
    record = _record(job, observed, result.depth)
    record |= {
        "seconds": result.seconds,  # the splat, which most rows share, is not part of it
        "solver": {
            "status": result.status,
            "iterations": result.iterations,
            "gap": result.gap,
            "energies": result.energies,
            "parameters": result.parameters,
            "backend": result.backend,
        },
    }
    return record, {"depth": result.depth, "confidence": result.confidence}


def _record(job: Job, observed: Observed, depth: NDArray[Any]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "scores": asdict(evaluate(depth, observed.truth, observed.camera, observed.baseline)),
        "camera": None if observed.camera is None else camera_to_json(observed.camera),
    }
    if isinstance(job.condition, BoxImage):
        record["boxes"] = _boxes(job, job.condition, depth)
    return record


def scores_of(record: Mapping[str, Any]) -> Scores:
    """The scores of a record; what JSON could not hold is NaN."""
    stored: dict[str, Any] = {name: np.nan if value is None else value for name, value in record["scores"].items()}
    outliers = tuple(np.nan if value is None else float(value) for value in stored.pop("outliers"))
    return Scores(outliers=outliers, **stored)


def _fuse(job: Job, store: Store, observed: Observed) -> Result:
    method = methods.get(job.method).refined(dict(job.parameters))
    alone = isinstance(method.association, Pull) or isinstance(method.solver, OneMap)
    if observed.stack is None and alone:  # it needs the views themselves, or to know which one is the reference
        return fuse(observed.views, method, reference=observed.reference, backend=job.backend)
    stack = _stack(job, store, observed, method)
    if job.confidence is not None:
        stack, method = _weighed(stack, job.condition, job.confidence), method.replace(confidence=Given())
    return fuse_stack(stack, method, backend=job.backend)


def _stack(job: Job, store: Store, observed: Observed, method: Method) -> Stack:
    if observed.stack is not None:
        return observed.stack
    if not isinstance(method.association, Splat):
        raise InputError(f"{job.method} does not splat, so it cannot be taken apart here")
    return _splatted(job.condition, store, method.association, job.backend)


@lru_cache(1)
def _observed(condition: Condition, store: Store) -> Observed:
    """Jobs on the same condition follow one another: the last one is kept."""
    return condition.observe(store)


@lru_cache(2)
def _splatted(condition: Condition, store: Store, association: Splat, backend: str) -> Stack:
    """Splatting costs as much as solving, and most rows share it."""
    observed, loaded = _observed(condition, store), kernels.load(backend)
    if loaded.arrays is np:
        return association(observed.views, observed.reference, backend=loaded)
    batches = upload(observed.views, observed.reference, loaded)
    return association(observed.views, observed.reference, backend=loaded, batches=batches).moved(loaded.to_host)


def _weighed(stack: Stack, condition: Condition, regions: Regions) -> Stack:
    if not isinstance(condition, BoxImage) or regions.box > len(condition.boxes):
        raise InputError(f"confidence by regions needs box {regions.box} in the image")
    inside = condition.boxes[regions.box - 1].mask(condition.shape)
    weights = np.where(inside, regions.inside, regions.elsewhere).astype(np.float32)
    return Stack(stack.depths, weights[None])


def _boxes(job: Job, image: BoxImage, depth: NDArray[Any]) -> list[dict[str, Any]]:
    """What is left of each box, and what its size says should be left."""
    everywhere = dict(job.parameters).get("lam", 1.0)
    assert isinstance(everywhere, int | float)
    found = []
    for number, box in enumerate(image.boxes, start=1):
        confidence = everywhere if job.confidence is None else job.confidence.at(number)
        found.append(
            {
                "side": box.side,
                "contrast": box.contrast,
                "confidence": confidence,
                "retained": box.retained(depth, image.background),
                "predicted": job.method == TRUTH or box.should_survive(confidence),
            }
        )
    return found


def _trace(job: Job, store: Store) -> dict[str, Any]:
    """Solve under observation, with everything compiled before the clock starts."""
    literal = job.method == LITERAL
    settings = dict(job.parameters)
    method = METHODS["l1"] if literal else methods.get(job.method).refined(settings)
    stack = method.confidence(_stack(job, store, _observed(job.condition, store), method))
    backend = kernels.load(job.backend)
    task = prepare(method.energy, stack, backend, method.fill_radius)
    _warm_up(task, anchored=isinstance(method.solver, AMA))
    watched = Watched(backend)
    if literal:
        watched.watch(task)
        _run_literal(watched, task.problem(fixed_confidence(task)), task.initial_state(), settings)
    else:
        method.solver(watched.watch(task))
    return {"trace": [asdict(point) for point in watched.points], "backend": "reference" if literal else backend.NAME}


def _warm_up(task: Task, *, anchored: bool) -> None:
    problem, state = task.problem(fixed_confidence(task)), task.initial_state()
    if anchored:
        problem = task.problem(problem.confidence, anchor=state.primal[0].copy(), pull=1.0)
    task.backend.iterate(problem, state, choose_steps(problem.alpha, task.noise), 1)
    task.backend.energy(problem, state)
    task.backend.misfit(problem, state.primal[0])
    task.backend.bound(task.problem(problem.confidence), state, task.box, 1)


def _run_literal(watched: Watched, problem: Problem, state: State, settings: Mapping[str, Any]) -> None:
    """The paper's iteration with its primal step: tau^2 = ratio / (|K|^2 (K + 1))."""
    views = len(problem.observations.values)
    ratio = settings["tau"] ** 2 * NORM_SQUARED[problem.order] * (views + 1)
    literal = Literal(problem, state, ratio)
    watched.look(problem, state)
    for _ in range(0, settings["iterations"], LITERAL_BLOCK):
        literal.iterate(LITERAL_BLOCK)
        watched.count(LITERAL_BLOCK, problem, state)
