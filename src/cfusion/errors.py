"""Every mistake a user can make ends in one of these; the message says what was given and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 800  # characters of a message


def suggestion(given: object, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known: the one most like it, else all there are."""
    names = list(known)
    near = get_close_matches(str(given), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(names)}"


class CFusionError(Exception):
    """The parent of every error raised on purpose by this package; its message is one line, whatever it quotes.

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
    """What works, but not as it usually does; the message says why."""


class InputError(CFusionError, ValueError):
    """An argument has a value that makes no sense."""


class ShapeError(InputError):
    """Arrays that belong together disagree in shape."""


class PoseError(InputError):
    """A pose is not a rigid motion."""


class CameraError(InputError):
    """Intrinsics that no camera has."""


class UnknownMethod(InputError):
    """A method was asked for by a name that is not in the table."""


class FileError(CFusionError, OSError):
    """A file is truncated, not what its name says, or cannot be written."""


class MissingDependency(CFusionError, ImportError):
    """An optional library is needed and not installed; the message names the extra."""


class BackendUnavailable(CFusionError):
    """A compute backend was asked for that cannot run here."""


class OutOfMemory(CFusionError, MemoryError):
    """A problem is too large for the memory of its backend; the message says how much it needs."""
