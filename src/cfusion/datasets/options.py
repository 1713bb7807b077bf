"""Options of a format, given by name and checked against the fields of its frozen `Options`."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from cfusion.errors import InputError, suggestion


def chosen(kind: type | None, given: Mapping[str, object], format: str) -> Any:
    """An instance of a format's options; unknown names and wrong types are refused."""
    if kind is None:
        if given:
            raise InputError(f"format {format!r} has no options; leave out {', '.join(map(repr, given))}")
        return None
    hints = get_type_hints(kind)
    for name, value in given.items():
        if name not in hints:
            raise InputError(f"format {format!r} has no option {name!r}; {suggestion(name, hints)}")
        if not _fits(value, hints[name]):
            raise InputError(f"option {name} is {value!r}; give {spelled(hints[name])}")
    return kind(**given)


def described(kind: type | None) -> list[str]:
    """`name = default` of each option."""
    if kind is None:
        return []
    return [f"{each.name} = {each.default!r}" for each in fields(kind) if each.default is not MISSING]


def spelled(hint: Any) -> str:
    """A type in plain English."""
    if isinstance(hint, UnionType):
        return " or ".join(spelled(part) for part in get_args(hint) if part is not NoneType)
    names = {bool: "True or False", int: "a whole number", float: "a number", str: "text"}
    return names.get(hint, "a tuple of numbers")


def _fits(value: object, hint: Any) -> bool:
    if isinstance(hint, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(each, get_args(hint)[0]) for each in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
