"""Checked values of a JSON file; errors name their position and what is expected."""

import json
import math
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from cfusion.arrays import Matrix
from cfusion.errors import FileError
from cfusion.io.files import read_bytes
from cfusion.io.paths import path_inside

LONGEST_JSON = 1 << 27  # bytes
Kind = TypeVar("Kind", bound=object)
KIND_NAMES = {str: "text", int: "a whole number", float: "a number", list: "a list", dict: "an object"}
KIND_NAMES |= {bool: "true or false"}
LIST_NAMES = {str: "a list of names", int: "whole numbers", float: "numbers"}


@dataclass(frozen=True)
class JsonObject:
    """An object of a JSON file, and its position (`bundle.json: views[3].camera`)."""

    content: dict[str, object]
    where: str

    @classmethod
    def of_file(cls, file: Path) -> "JsonObject":
        """The object at the top of a file."""
        try:
            content = json.loads(read_bytes(file, LONGEST_JSON).decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise FileError(f"{file} is not text in UTF-8; write it again") from None
        except json.JSONDecodeError as error:
            raise FileError(f"{file} is not JSON: {error.msg}, line {error.lineno}; correct that line") from None
        except RecursionError:
            raise FileError(f"{file} is nested too deeply for a file of cfusion; write it again") from None
        except ValueError:  # Python refuses integers of thousands of digits
            raise FileError(f"{file} holds a number of thousands of digits; write it again") from None
        if not isinstance(content, dict):
            raise FileError(f"{file} holds {type(content).__name__}; write an object in braces")
        return cls(content, str(file))

    def __contains__(self, key: str) -> bool:
        return self.content.get(key) is not None

    def refuse_unknown(self, *known: str) -> None:
        """Refuse unknown keys, which would otherwise be ignored."""
        strange = sorted(set(self.content) - set(known))
        if strange:
            raise FileError(f"{self.where} has an unknown key {strange[0]!r}; the keys are: {', '.join(known)}")

    def get(self, key: str, kind: type[Kind]) -> Kind:
        """A required value of the given kind."""
        value = self.content.get(key)
        if value is None:
            raise FileError(f"{self.where} has no {key!r}; add {KIND_NAMES[kind]}")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise FileError(f"{self.where}.{key} is {_shortened(value)}, expected {KIND_NAMES[kind]}")
        return value

    def number(self, key: str) -> float:
        """A finite number, possibly whole."""
        value = self.content.get(key)
        number = float(value) if isinstance(value, int) and abs(value) < 1e300 else self.get(key, float)
        if not math.isfinite(number) or isinstance(value, bool):
            raise FileError(f"{self.where}.{key} is {_shortened(value)}, expected a finite number")
        return number

    def scale(self, key: str) -> float | None:
        """A positive number, or None if the key is missing."""
        if key not in self:
            return None
        scale = self.number(key)
        if scale <= 0:
            raise FileError(f"{self.where}.{key} is {scale:g}; give a positive scale in units of depth per count")
        return scale

    def object(self, key: str) -> "JsonObject":
        """An object inside this one."""
        return JsonObject(self.get(key, dict), f"{self.where}.{key}")

    def objects(self, key: str) -> list["JsonObject"]:
        """A list of objects inside this one."""
        items = self.get(key, list)
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                raise FileError(f"{self.where}.{key}[{index}] is {_shortened(item)}, expected an object")
        return [JsonObject(item, f"{self.where}: {key}[{index}]") for index, item in enumerate(items)]

    def built(self, kind: type[Kind], *beside: str, **given: Any) -> Kind:
        """A dataclass whose fields are keys of this object, by their types; `beside` are keys that it does not have.

        Fields that are `given` are no keys.
        """
        own = [each for each in fields(kind) if each.name not in given]  # type: ignore[arg-type]
        self.refuse_unknown(*beside, *(each.name for each in own))
        stated = [each.name for each in own if each.default is MISSING or each.name in self]
        hints = get_type_hints(kind)
        return kind(**given, **{name: self._of_type(name, hints[name]) for name in stated})

    def several(self, key: str, kind: type[Kind]) -> tuple[Kind, ...]:
        """A list of texts (at least one), of numbers or of dataclasses."""
        if is_dataclass(kind):
            return tuple(each.built(kind) for each in self.objects(key))
        values = self.get(key, list)
        allowed = (int, float) if kind is float else kind
        fits = all(isinstance(each, allowed) and not isinstance(each, bool) for each in values)
        if not fits or (kind is str and not values):
            raise FileError(f"{self.where}.{key} is {_shortened(values)}; give {LIST_NAMES[kind]}")
        return tuple(map(kind, values))

    def _of_type(self, key: str, hint: Any) -> Any:
        """A value of an annotated type: text, a number, a choice of words, or a tuple; or None."""
        kind = next(each for each in get_args(hint) if each is not NoneType) if isinstance(hint, UnionType) else hint
        if get_origin(kind) is tuple:
            return self.several(key, get_args(kind)[0])
        return self.number(key) if kind is float else self.get(key, kind if isinstance(kind, type) else str)

    def matrix(self, key: str) -> Matrix:
        """A matrix as a list of rows."""
        try:
            return np.array(self.get(key, list), dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            raise FileError(f"{self.where}.{key} is not a matrix; give 4 rows of 4 numbers") from None

    def path_inside(self, key: str, folder: Path) -> Path:
        """A file below the folder; a path that leads out of it, also by links, is refused."""
        return path_inside(folder, self.get(key, str), f"{self.where}.{key}")


def content_of(file: Path) -> dict[str, Any] | None:
    """The object at the top of a file that an earlier run wrote; None if it is missing or damaged."""
    try:
        return JsonObject.of_file(file).content
    except FileError:
        return None


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
