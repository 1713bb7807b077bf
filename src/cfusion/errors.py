"""Every mistake a user can make ends in one of these; the message says what was given and what to do."""

LONGEST = 800  # characters of a message


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
