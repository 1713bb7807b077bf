"""Every mistake of a user raises one of these errors; the message says what was given and what to do."""

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

LONGEST = 800  # characters of a message


def suggestion(given: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar name, else all of them."""
    names = list(known)
    near = get_close_matches(str(given), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(names)}"


class CFusionError(Exception):
    """The parent of every error raised on purpose by this package; its message is one line.

    Examples:
        >>> import cfusion
        >>> try:
        ...     cfusion.fuse([])
        ... except cfusion.CFusionError as error:
        ...     print(error)
        there are no views; give at least one
    """

    def __str__(self) -> str:
        line = super().__str__().replace("\r", "\\r").replace("\n", "\\n")
        return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


class CFusionWarning(UserWarning):
    """A warning about something that works, but unusually; the message says why."""


class InputError(CFusionError, ValueError):
    """An argument has an invalid value."""


class ShapeError(InputError):
    """Shapes of arrays disagree."""


class PoseError(InputError):
    """A pose is not a rigid motion."""


class CameraError(InputError):
    """Impossible intrinsics of a camera."""


class UnknownMethod(InputError):
    """Unknown name of a method."""


class FileError(CFusionError, OSError):
    """A file is truncated, of another format, or cannot be written."""


class MissingDependency(CFusionError, ImportError):
    """An optional library is needed and not installed; the message names the extra."""


class BackendUnavailable(CFusionError):
    """A backend cannot run here."""


class OutOfMemory(CFusionError, MemoryError):
    """A problem is too large for the memory of its backend; the message states the required amount."""


def first_line(error: BaseException) -> str:
    """The beginning of another library's message; its type if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0][:100]


@contextmanager
def named_by(where: object) -> Iterator[None]:
    """Errors about a value begin with the file or line that states it."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{where}: {error}") from None


def optional_module(name: str, *, missing: str) -> Any:
    """A module of an optional library, imported when it is needed; `missing` says what needs it and what to install."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingDependency(missing) from None
