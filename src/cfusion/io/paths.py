"""Names that a data set's files give to other files of it."""

from pathlib import Path

from cfusion.errors import FileError


def path_inside(folder: Path, name: str, where: str) -> Path:
    """A file below the folder; a name that leads out of it is refused, links included."""
    try:
        inside = (folder / name).resolve().is_relative_to(folder.resolve())
    except (ValueError, OSError, RuntimeError):  # no name a disk can have, or links in a circle
        inside = False
    if not inside:
        short = name if len(name) <= 40 else name[:37] + "..."
        raise FileError(f"{where} names {short!r}, which leads out of {folder}; move it inside")
    return folder / name
