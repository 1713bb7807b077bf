"""The methods of the paper and ours: each is a function of a source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from cfusion.arrays import MOST_RADIUS, is_whole
from cfusion.auto import Auto
from cfusion.confidence import Confidence, Geometric, Uniform, edge_weight
from cfusion.energy import L1, L2, TGV, Energy, Huber, Prior
from cfusion.errors import InputError, UnknownMethod
from cfusion.kernels.contract import Backend
from cfusion.parameters import parameters_of
from cfusion.solvers import ACS, AMA, PDHG, Biconvex, Fused, Pointwise, Report, Solution, Solver, Status, Task, prepare
from cfusion.source import Source, Splat

PLAUSIBLE = 0.3  # least probability of being right, for maps that are scored as a whole or compared again


class Method(Protocol):
    """A way to fuse: called with a source (views with a reference, or maps on one grid), it returns one depth map.

    Examples:
        >>> from cfusion import METHODS
        >>> METHODS["median"].summary
        'pixel-wise median'
        >>> METHODS["l1"].parameters()["tolerance"]
        0.001
    """

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def summary(self) -> str:
        """One line about it."""

    def __call__(self, source: Source, backend: Backend, report: Report | None = None) -> Fused:
        """Fuse the observations of a source."""

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name, with its value."""


@dataclass(frozen=True)
class SinglePass:
    """Splat, weigh, solve: a row of the paper."""

    name: str
    summary: str
    splat: Splat
    confidence: Confidence
    energy: Energy
    solver: Solver
    fill_radius: int = 0  # pixels: unobserved holes up to this width are bridged by the regulariser

    def __post_init__(self) -> None:
        if not is_whole(self.fill_radius, 0, MOST_RADIUS):
            raise InputError(f"fill_radius is {self.fill_radius}; give a whole number of pixels, 0 to {MOST_RADIUS}")

    def __call__(self, source: Source, backend: Backend, report: Report | None = None) -> Fused:
        if self.energy.regulariser is not None:
            kind = self.energy.regulariser.order, self.energy.fidelity.kind
            backend.precompile(source.frame.shape, *kind, posed=source.rereads, adaptive=False)
        task = self.task(source, backend)
        return Fused(task.stack, self.solver(task, report))

    def task(self, source: Source, backend: Backend) -> Task:
        """The task for its solver."""
        weighed = self.confidence(source.first(self.splat, backend), backend=backend)
        return prepare(self.energy, weighed, backend, self.fill_radius)

    def parameters(self) -> dict[str, Any]:
        return parameters_of(self)

    def replace(self, **parts: Any) -> SinglePass:
        """The same method with other parts."""
        return dataclasses.replace(self, **parts)


@dataclass(frozen=True)
class InputMap:
    """The reference view's own depth map, unchanged."""

    name: str = "input"
    summary: str = "the depth map of the reference view, unchanged"

    def __call__(self, source: Source, backend: Backend, report: Report | None = None) -> Fused:
        stack = source.first(Splat(fill=False), backend)
        depth = stack.depths[source.reference].copy()
        known = np.isfinite(depth)
        if not known.any():
            raise InputError("the reference depth map holds no depth; choose another reference")
        return Fused(stack, Solution(depth, known.astype(np.float32), np.zeros_like(depth), Status.closed_form))

    def parameters(self) -> dict[str, Any]:
        return {}


def get(method: str | Method) -> Method:
    """A method by name; a method is returned unchanged."""
    if not isinstance(method, str | type) and callable(method) and hasattr(method, "parameters"):
        return method
    name = ALIASES.get(str(method), method)
    if not isinstance(name, str) or name not in METHODS:
        near = get_close_matches(str(name), METHODS, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"choose one of: {', '.join(METHODS)}"
        raise UnknownMethod(f"there is no method {repr(name)[:60]}; {hint}")
    return METHODS[name]


def keeping_plausible(method: str, given: Mapping[str, object], **usual: object) -> dict[str, Any]:
    """Parameters for a map that is scored as a whole or compared again: plausible depths are kept, unless given.

    `usual` are further defaults, for methods that know this probability.
    """
    knows = "min_confidence" in get(method).parameters()
    return {**({"min_confidence": PLAUSIBLE, **usual} if knows else {}), **given}


def _adaptive(name: str, summary: str, confidence: Confidence, energy: Energy) -> list[Method]:
    """One row per joint solver: alternate convex search under the plain name, others with a suffix."""
    solvers: dict[str, tuple[str, Solver]] = {
        "": ("alternate convex search", ACS()),
        ":ama": ("alternate minimisation", AMA()),
        ":pdhg": ("single-loop biconvex PDHG", Biconvex()),
    }
    return [
        SinglePass(name + suffix, f"{summary}; {how}", Splat(), confidence, energy, solver)
        for suffix, (how, solver) in solvers.items()
    ]


_TABLE: list[Method] = [
    InputMap(),
    SinglePass("mean", "pixel-wise mean", Splat(), Uniform(), Energy(L2()), Pointwise()),
    SinglePass("median", "pixel-wise median", Splat(), Uniform(), Energy(L1()), Pointwise()),
    SinglePass("rof", "total variation with squared errors", Splat(), Uniform(), Energy(L2(), TGV(1)), PDHG()),
    SinglePass("l1", "TGV of order 2 with absolute errors", Splat(), Uniform(), Energy(L1(), TGV(2)), PDHG()),
    SinglePass("tgv-fusion", "TGV of order 2 with Huber's errors", Splat(), Uniform(), Energy(Huber(), TGV(2)), PDHG()),
    SinglePass("l1-heuristic", "l1, weighed by the angle of view", Splat(), Geometric(), Energy(L1(), TGV(2)), PDHG()),
    *_adaptive("rof-adapt", "rof with estimated confidence", Uniform(), Energy(L2(), TGV(1), Prior())),
    *_adaptive("l1-adapt", "l1 with estimated confidence", Uniform(), Energy(L1(), TGV(2), Prior())),
    *_adaptive(
        "adapt-hprior",
        "l1-adapt with the angle of view as a prior of every observation",
        Geometric(),
        Energy(L1(), TGV(2), Prior()),
    ),
    *_adaptive(
        "adapt-hprior-g",
        "adapt-hprior, regularised less across image edges",
        Geometric(),
        Energy(L1(), TGV(2, edge=edge_weight), Prior()),
    ),
    Auto(),
]
METHODS = MappingProxyType({method.name: method for method in _TABLE})
ALIASES = MappingProxyType({"reference": "input"})  # former names, for one release
