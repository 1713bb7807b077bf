"""Checks of arguments of the functions that read and write: a path, views, words."""

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from cfusion.errors import FileError, InputError
from cfusion.geometry import View
from cfusion.io.paths import LONGEST_NAME


def path_of(given: object, what: str) -> Path:
    """A path, from text or any path-like object."""
    if not isinstance(given, str | PathLike):
        raise InputError(f"{what} is {type(given).__name__}; give a path, e.g. 'out'")
    path = Path(given)
    if "\0" in str(path) or any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
        raise FileError(f"{what}: {str(path)[:40]!r} cannot name a folder or file; give another path")
    return path


def views_of(given: object, function: str) -> Sequence[View]:
    """A sequence of views; the elements of lazy sequences are checked when they are read."""
    if isinstance(given, str | bytes | PathLike):
        raise InputError(f"{function} needs the views first, then the folder; {str(given)[:40]!r} was given first")
    if not isinstance(given, Sequence):
        raise InputError(f"{function} needs a list of views, not {type(given).__name__}")
    for view in given if type(given).__module__ == "builtins" else ():  # lists, ranges; lazy sequences are not read
        if not isinstance(view, View):
            raise InputError(f"{function} needs cfusion.View, not {type(view).__name__}")
    return given


def word_of(given: object, what: str) -> str:
    """A text argument."""
    if not isinstance(given, str):
        raise InputError(f"{what} is {str(given)[:40]!r} ({type(given).__name__}); give text")
    return given


def words_of(given: object, what: str) -> tuple[str, ...]:
    """A list of words; a single text is refused."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise InputError(f"{what} is {str(given)[:40]!r}; give a list of words, e.g. ['npy']")
    return tuple(given)
