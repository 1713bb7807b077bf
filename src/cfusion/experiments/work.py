"""One job: observe, fuse and score; or solve with recording."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion import kernels, methods
from cfusion.confidence import Given
from cfusion.errors import InputError
from cfusion.experiments.boxes import Regions
from cfusion.experiments.conditions import BoxImage, Condition, Observed
from cfusion.experiments.plan import Job
from cfusion.experiments.spec import LITERAL, TRUTH
from cfusion.experiments.store import Store
from cfusion.experiments.watched import Watched
from cfusion.fuse import fuse_source
from cfusion.geometry import Stack
from cfusion.io.cameras import camera_to_json
from cfusion.kernels.contract import Backend, Problem, State
from cfusion.kernels.numpy.literal import NORM_SQUARED, Literal
from cfusion.methods import METHODS, Method, SinglePass
from cfusion.metrics import Scores, evaluate
from cfusion.parameters import refine
from cfusion.result import Result
from cfusion.solvers import Task
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.steps import choose_steps
from cfusion.source import Posed, Registered, Source, Splat

Maps = dict[str, NDArray[Any]]
LITERAL_BLOCK = 25


def work(job: Job, store: Store) -> tuple[dict[str, Any], Maps]:
    """The record of a job, and the maps to show it with."""
    observed = _observed(job.condition, store)
    if job.trace:
        return _trace(job, store), {}
    if job.method == TRUTH:
        return _record(job, observed, observed.truth), {"depth": observed.truth}
    result = _fuse(job, store)
    record = _record(job, observed, result.depth)
    record |= {
        "seconds": result.seconds,  # without the splat, which most rows share
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
    if observed.every is not None:
        record["scores_all"] = asdict(evaluate(depth, observed.every, observed.camera, observed.baseline))
    if isinstance(job.condition, BoxImage):
        record["boxes"] = _boxes(job, job.condition, depth)
    return record


def scores_of(record: Mapping[str, Any], kind: str = "scores") -> Scores:
    """The scores of a record (`scores_all`: including occluded pixels); None becomes NaN."""
    stored: dict[str, Any] = {name: np.nan if value is None else value for name, value in record[kind].items()}
    outliers = tuple(np.nan if value is None else float(value) for value in stored.pop("outliers"))
    return Scores(outliers=outliers, **stored)


def _fuse(job: Job, store: Store) -> Result:
    method = refine(methods.get(job.method), dict(job.parameters))
    backend = kernels.load(job.backend)
    source = _source(job.condition, store, job.backend)
    if job.confidence is not None:
        stack = source.first(Splat(), backend)
        source = Registered(_weighed(stack, job.condition, job.confidence))
        method = replace(_of_parts(method), confidence=Given())
    began = time.perf_counter()
    result = fuse_source(source, method, backend).moved(backend.to_host)
    return replace(result, seconds=time.perf_counter() - began)


def _of_parts(method: Method) -> SinglePass:
    if not isinstance(method, SinglePass):
        raise InputError(f"{method.name} is not a SinglePass; choose a method that is")
    return method


@dataclass(frozen=True, eq=False)
class SplatOnce(Posed):
    """Views with a cached splat, which takes as long as solving and is shared by most rows."""

    kept: dict[Splat, Stack] = field(default_factory=dict)

    def first(self, splat: Splat, backend: Backend) -> Stack:
        if splat not in self.kept:
            self.kept.clear()
            self.kept[splat] = super().first(splat, backend)
        return self.kept[splat]


@lru_cache(1)
def _observed(condition: Condition, store: Store) -> Observed:
    """The observations of a condition; the last one is cached, as jobs on one condition follow one another."""
    return condition.observe(store)


@lru_cache(1)
def _source(condition: Condition, store: Store, backend: str) -> Source:
    """The source of a condition, for all methods."""
    observed = _observed(condition, store)
    if observed.stack is not None:
        return Registered(observed.stack)
    posed = Posed.of(observed.views, observed.reference, kernels.load(backend))
    return SplatOnce(posed.views, posed.reference, posed.uploads)


def _weighed(stack: Stack, condition: Condition, regions: Regions) -> Stack:
    if not isinstance(condition, BoxImage) or regions.box > len(condition.boxes):
        raise InputError(f"confidence by regions needs box {regions.box} in the image")
    inside = condition.boxes[regions.box - 1].mask(condition.shape)
    weights = np.where(inside, regions.inside, regions.elsewhere).astype(np.float32)
    return Stack(stack.depths, weights[None])


def _boxes(job: Job, image: BoxImage, depth: NDArray[Any]) -> list[dict[str, Any]]:
    """The remaining contrast of each box, and whether its size predicts that it survives."""
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
    """Solve with recording, after compiling everything."""
    literal = job.method == LITERAL
    settings = dict(job.parameters)
    method = _of_parts(METHODS["l1"] if literal else refine(methods.get(job.method), settings))
    backend = kernels.load(job.backend)
    task = method.task(_source(job.condition, store, job.backend), backend)
    _warm_up(task)
    watched = Watched(backend)
    if literal:
        watched.watch(task)
        _run_literal(watched, task.problem(fixed_confidence(task)), task.initial_state(), settings)
    else:
        method.solver(watched.watch(task))
    return {"trace": [asdict(point) for point in watched.points], "backend": "numpy" if literal else backend.NAME}


def _warm_up(task: Task) -> None:
    problem, state = task.problem(fixed_confidence(task)), task.initial_state()
    anchored = task.problem(problem.confidence, prox_centre=state.primal[0].copy(), prox_weight=1.0)
    for each in (problem, anchored):
        task.backend.iterate(each, state, choose_steps(each.alpha, task.step_scale), 1)
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
