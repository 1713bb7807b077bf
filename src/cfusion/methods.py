"""The paper's rows and ours: named compositions of an association, a confidence, an energy and a solver."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from cfusion.association import Pull, Splat
from cfusion.confidence import Confidence, Geometric, Given, Uniform, edge_weight
from cfusion.energy import L1, L2, TGV, Energy, Huber, Prior
from cfusion.errors import InputError, UnknownMethod
from cfusion.solvers import ACS, AMA, PDHG, Biconvex, OneMap, Pointwise, Solver, Tuned


@dataclass(frozen=True)
class Method:
    """How views become one depth map. Refine with `replace`, or parameters by name with `refined`."""

    name: str
    summary: str
    association: Splat | Pull
    confidence: Confidence
    energy: Energy
    solver: Solver
    fill_radius: int = 0  # gaps this wide that no view saw are bridged by the regulariser

    def __post_init__(self) -> None:
        if self.fill_radius != int(self.fill_radius) or self.fill_radius < 0:
            raise InputError(f"fill_radius is {self.fill_radius}; it is a whole number of pixels, 0 for none")

    def replace(self, **parts: Any) -> Method:
        """The same method with other parts."""
        return dataclasses.replace(self, **parts)

    def refined(self, parameters: dict[str, Any]) -> Method:
        """The same method with parameters of its parts changed by name, such as alpha=(1, 2) or tolerance=1e-4."""
        method = self
        for name, value in parameters.items():
            method = _refine(method, name, value)
        return method

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name, with its value."""
        return {name: read(self) for name, (read, _) in _PARAMETERS.items() if read(self) is not None}


def get(method: str | Method) -> Method:
    """A method by name, or as it is."""
    if isinstance(method, Method):
        return method
    if not isinstance(method, str) or method not in METHODS:
        near = get_close_matches(str(method), METHODS, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"choose one of: {', '.join(METHODS)}"
        raise UnknownMethod(f"there is no method {method!r}; {hint}")
    return METHODS[method]


def _part(owner: str, name: str) -> tuple[Any, Any]:
    """How to read and to change one field of one part of a method."""

    def read(method: Method) -> Any:
        return getattr(getattr(method, owner), name, None)

    def change(method: Method, value: Any) -> Method:
        part = getattr(method, owner)
        if not hasattr(part, name):
            raise InputError(f"method {method.name!r} has no parameter {name!r}")
        return method.replace(**{owner: dataclasses.replace(part, **{name: value})})

    return read, change


def _inside(owner: str, part: str, name: str) -> tuple[Any, Any]:
    """The same one level deeper, as the regulariser of the energy or the inner solver of ACS."""

    def read(method: Method) -> Any:
        return getattr(getattr(getattr(method, owner), part, None), name, None)

    def change(method: Method, value: Any) -> Method:
        whole = getattr(method, owner)
        inner = getattr(whole, part, None)
        if inner is None or not hasattr(inner, name):
            raise InputError(f"method {method.name!r} has no parameter {name!r}")
        return method.replace(
            **{owner: dataclasses.replace(whole, **{part: dataclasses.replace(inner, **{name: value})})}
        )

    return read, change


def _order(method: Method, value: Any) -> Method:
    tgv = method.energy.regulariser
    if tgv is None:
        raise InputError(f"method {method.name!r} has no regulariser, so no order")
    if isinstance(method.solver, Tuned):
        raise InputError(f"method {method.name!r} chooses its weights; give alpha, one per order, instead")
    return method.replace(energy=dataclasses.replace(method.energy, regulariser=TGV(value, (), tgv.edge)))


def _alpha(method: Method, value: Any) -> Method:
    weights = tuple(value) if isinstance(value, tuple | list) else (value,)
    if isinstance(method.solver, Tuned):
        return method.replace(solver=dataclasses.replace(method.solver, alpha=TGV(len(weights), weights).alpha))
    tgv = method.energy.regulariser
    if tgv is None:
        raise InputError(f"method {method.name!r} has no regulariser, so no alpha")
    return method.replace(energy=dataclasses.replace(method.energy, regulariser=TGV(len(weights), weights, tgv.edge)))


def _solver(name: str) -> tuple[Any, Any]:
    """A setting of the solver, or of the convex solver inside it."""
    outer_read, outer = _part("solver", name)
    inner_read, inner = _inside("solver", "inner", name)

    def read(method: Method) -> Any:
        value = inner_read(method)
        return outer_read(method) if value is None else value

    def change(method: Method, value: Any) -> Method:
        refined: Method = (inner if inner_read(method) is not None else outer)(method, value)
        return refined

    return read, change


_PARAMETERS: dict[str, tuple[Any, Any]] = {
    "order": (_inside("energy", "regulariser", "order")[0], _order),
    "alpha": (_inside("energy", "regulariser", "alpha")[0], _alpha),
    "lam": _part("energy", "lam"),
    "delta": _inside("energy", "fidelity", "delta"),
    "shape": _inside("energy", "prior", "shape"),
    "rate": _inside("energy", "prior", "rate"),
    "b": _inside("energy", "prior", "b"),
    "tolerance": _solver("tolerance"),
    "iterations": _solver("iterations"),
    "outer": _part("solver", "outer"),
    "mu": _part("solver", "mu"),
    "nu": _part("solver", "nu"),
    "growth": _part("solver", "growth"),
    "rounds": _part("association", "rounds"),
    "gate": _part("association", "gate"),
    "fill": _part("association", "fill"),
    "radius": _part("association", "radius"),
    "fill_radius": (lambda method: method.fill_radius, lambda method, value: method.replace(fill_radius=value)),
}


def _refine(method: Method, name: str, value: Any) -> Method:
    if name not in _PARAMETERS:
        near = get_close_matches(name, _PARAMETERS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(_PARAMETERS)}"
        raise InputError(f"{name!r} is not a parameter; {hint}")
    try:
        refined = _PARAMETERS[name][1](method, value)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} = {value!r} does not fit: {error}") from error
    assert isinstance(refined, Method)
    return refined


def _adaptive(name: str, summary: str, confidence: Confidence, energy: Energy) -> list[Method]:
    """One row per joint solver: alternate convex search under the plain name, the others behind a colon."""
    solvers: dict[str, tuple[str, Solver]] = {
        "": ("alternate convex search", ACS()),
        ":ama": ("alternate minimisation", AMA()),
        ":pdhg": ("single-loop biconvex PDHG", Biconvex()),
    }
    return [
        Method(name + suffix, f"{summary}; {how}", Splat(), confidence, energy, solver)
        for suffix, (how, solver) in solvers.items()
    ]


_TABLE = [
    Method("reference", "the reference depth map as it came", Splat(fill=False), Uniform(), Energy(L1()), OneMap()),
    Method("mean", "pixel-wise mean", Splat(), Uniform(), Energy(L2()), Pointwise()),
    Method("median", "pixel-wise median", Splat(), Uniform(), Energy(L1()), Pointwise()),
    Method("rof", "total variation with squared errors", Splat(), Uniform(), Energy(L2(), TGV(1)), PDHG()),
    Method("l1", "TGV of order 2 with absolute errors", Splat(), Uniform(), Energy(L1(), TGV(2)), PDHG()),
    Method("tgv-fusion", "TGV of order 2 with Huber's errors", Splat(), Uniform(), Energy(Huber(), TGV(2)), PDHG()),
    Method("l1-heuristic", "l1, weighed by the angle of view", Splat(), Geometric(), Energy(L1(), TGV(2)), PDHG()),
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
    Method(
        "auto",
        "ours, nothing to tune: re-association, weights chosen by leaving views out",
        Pull(),
        Given(),
        Energy(L1(), TGV(2)),
        Tuned(),
        fill_radius=5,
    ),
]
METHODS = MappingProxyType({method.name: method for method in _TABLE})
