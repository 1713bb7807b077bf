"""Parameters by name: the field of a method's part that each one sets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import numpy as np

from cfusion.arrays import is_whole
from cfusion.errors import InputError


class Named(Protocol):
    """Anything with parameters: a frozen dataclass with a name."""

    @property
    def name(self) -> str: ...


LARGEST = 1e30
WHOLE = ("order", "iterations", "outer", "rounds", "radius", "fill_radius")  # integers
AnyMethod = TypeVar("AnyMethod", bound=Named)


def _set(part: Any, field: str, value: Any) -> Any:
    return replace(part, **{field: value})


def _set_alpha(part: Any, field: str, value: Any) -> Any:
    """Set one weight per order, which determines the order; a single number is valid for order 1 only."""
    if isinstance(value, tuple | list):
        alpha = tuple(value)
    elif value is None:
        return replace(part, alpha=None)
    elif getattr(part, "order", 2) == 1:
        alpha = (value,)
    else:
        raise InputError(
            f"alpha is {str(value)[:40]}, a single weight; give one per order: alpha=(alpha_1, alpha_2), "
            "or alpha=(alpha_1,) for order 1"
        )
    return replace(part, alpha=alpha, order=len(alpha)) if hasattr(part, "order") else replace(part, alpha=alpha)


def _set_order(part: Any, field: str, value: Any) -> Any:
    """Set the order and the paper's weights for it."""
    return replace(part, order=value, alpha=())


@dataclass(frozen=True)
class Parameter:
    """A field of the first of these parts that a method has; a part is an attribute path, "" the method itself."""

    parts: tuple[str, ...]
    set: Callable[[Any, str, Any], Any] = _set


_REGULARISER, _FIDELITY, _PRIOR = "energy.regulariser", "energy.fidelity", "energy.prior"
PARAMETERS = MappingProxyType(
    {
        "order": Parameter((_REGULARISER,), _set_order),
        "alpha": Parameter((_REGULARISER, "settings"), _set_alpha),
        "lam": Parameter(("energy", "settings")),
        "delta": Parameter((_FIDELITY,)),
        "shape": Parameter((_PRIOR,)),
        "rate": Parameter((_PRIOR,)),
        "b": Parameter((_PRIOR,)),
        "tolerance": Parameter(("solver.inner", "solver")),
        "iterations": Parameter(("solver.inner", "solver")),
        "outer": Parameter(("solver",)),
        "mu": Parameter(("solver",)),
        "nu": Parameter(("solver",)),
        "growth": Parameter(("solver",)),
        "rounds": Parameter(("settings",)),
        "gate": Parameter(("settings",)),
        "min_confidence": Parameter(("settings",)),
        "refine_poses": Parameter(("settings",)),
        "keep_views": Parameter(("settings",)),
        "fill": Parameter(("splat",)),
        "radius": Parameter(("splat",)),
        "fill_radius": Parameter(("", "settings")),
    }
)


def parameters_of(method: Named) -> dict[str, Any]:
    """Every parameter of a method by name with its value, omitting None."""
    found = {name: getattr(_part(method, name), name, None) for name in PARAMETERS}
    return {name: value for name, value in found.items() if value is not None}


def refine(method: AnyMethod, given: Mapping[str, Any]) -> AnyMethod:
    """The same method with parameters of its parts changed by name, such as alpha=(1, 2) or tolerance=1e-4."""
    alpha, order = given.get("alpha"), given.get("order")
    if isinstance(alpha, tuple | list) and is_whole(order, 1, 9) and len(alpha) != order:
        raise InputError(f"alpha has {len(alpha)} weights and order is {order}; give one weight per order")
    for name in sorted(given, key=lambda name: name != "order"):  # order first, as it resets the weights
        method = _refined(method, name, given[name])
    return method


def _refined(method: AnyMethod, name: str, value: Any) -> AnyMethod:
    part = _part(method, name) if name in PARAMETERS else None
    if part is None:
        has = [parameter for parameter in PARAMETERS if _part(method, parameter) is not None]
        near = "".join(f"did you mean {each!r}? " for each in get_close_matches(str(name), has, n=1))
        names = ", ".join(has) or "none"
        raise InputError(f"method {method.name!r} has no parameter {str(name)[:60]!r}; {near}it has: {names}")
    _require_number(name, value)
    path = next(path for path in PARAMETERS[name].parts if _at(method, path) is part)
    try:
        refined: AnyMethod = _put(method, path, PARAMETERS[name].set(part, name, value))
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} = {value!r} does not fit: {error}") from error
    return refined


def _require_number(name: str, value: Any) -> None:
    """Require one or a few numbers that floating point can represent; the parts check the rest."""
    if name in WHOLE and value is not None and not is_whole(value, -int(LARGEST), int(LARGEST)):
        raise InputError(f"{name} is {str(value)[:60]}; give a whole number, without point and exponent")
    for each in value if isinstance(value, tuple | list) else (value,):
        size = abs(float(each)) if isinstance(each, float | np.floating) else 0.0
        if size and np.isfinite(size) and not 1 / LARGEST < size < LARGEST:
            raise InputError(
                f"{name} = {str(value)[:60]} does not fit: numbers lie between {1 / LARGEST:g} and {LARGEST:g}"
            )
        if each is None or isinstance(each, bool | float | np.floating):
            continue
        if not isinstance(each, int | np.integer) or not -LARGEST < each < LARGEST:
            given = repr(value)[:60]
            raise InputError(f"{name} = {given} does not fit: give a number, or a few, below {LARGEST:g}")


def _part(method: Any, name: str) -> Any:
    """The part of a method that has this parameter; None if no part has."""
    parts = (_at(method, path) for path in PARAMETERS[name].parts)
    return next((part for part in parts if hasattr(part, name)), None)


def _at(owner: Any, path: str) -> Any:
    """The object at the end of an attribute path; None if the path breaks off."""
    for step in filter(None, path.split(".")):
        owner = getattr(owner, step, None)
    return owner


def _put(owner: Any, path: str, part: Any) -> Any:
    """The owner with another part at the end of the path."""
    if not path:
        return part
    first, _, rest = path.partition(".")
    return replace(owner, **{first: _put(getattr(owner, first), rest, part)})
