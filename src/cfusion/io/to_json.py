"""Conversion of any value of a result to JSON types, and a hash of it."""

import enum
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256

import numpy as np


def to_json(value: object) -> object:
    """Dictionaries, lists, text, numbers and None; NaN and inf become None, as JSON lacks them."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.generic | np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        content = {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__} | content
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    return repr(value)


def digest(content: object, letters: int = 32) -> str:
    """A short hash of any value, by its JSON."""
    return sha256(json.dumps(to_json(content), sort_keys=True).encode()).hexdigest()[:letters]
