"""Checks of a scene's input and output folders, made before any computation."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cfusion.datasets.read import READERS, known, recognised
from cfusion.datasets.write_back import root_of
from cfusion.errors import FileError, InputError
from cfusion.io.atomic import require_writable
from cfusion.io.drafts import locked
from cfusion.io.drafts import sweep as sweep_drafts
from cfusion.scene.job import FOLDER, MARK
from cfusion.scene.placing import placing


def format_of(data: Path, given: str | None) -> str:
    """The format of the data; several formats, or data sets in subfolders, raise an error that lists them."""
    if given is not None:
        return known(given)
    if not data.exists():
        raise FileError(f"{data} does not exist; give the folder of a data set")
    here = _formats(data)
    if len(here) > 1:
        raise InputError(f"{data} holds several data sets in one folder ({', '.join(here)}); choose one with --format")
    if here:
        return here[0]
    below = (
        [folder for folder in sorted(data.iterdir()) if folder.is_dir() and _formats(folder)] if data.is_dir() else []
    )
    if below:
        names = ", ".join(folder.name for folder in below[:5]) + (", ..." if len(below) > 5 else "")
        raise InputError(f"{data} is not a data set, but {len(below)} of its folders are ({names}); give one of them")
    return recognised(data)  # raises, and lists the known formats


def _formats(place: Path) -> list[str]:
    return [name for name, reader in READERS.items() if reader.recognises(place)]


def require_apart(data: Path, output: Path) -> None:
    """Refuse an output inside the data, or data inside the output."""
    root, out = (Path(os.path.realpath(each)) for each in (root_of(data), output))  # realpath also resolves cycles
    if out == root or out.is_relative_to(root):
        raise InputError(f"the output {output} lies inside the data {data}; choose a folder elsewhere")
    if root.is_relative_to(out):
        raise InputError(f"the data {data} lie inside the output {output}; choose a folder elsewhere")


def require_own_output(data: Path, output: Path, *, written: str, force: bool) -> None:
    """Refuse an output folder with other contents than an earlier run on the same data and format, unless forced."""
    require_writable(output)
    if force or not output.exists() or not any(output.iterdir()):
        return
    try:
        mark = json.loads((output / FOLDER / MARK).read_text(encoding="utf-8"))
        of = mark["data"]
    except (OSError, ValueError, KeyError, TypeError):
        raise FileError(
            f"{output} holds files that are not a scene of cfusion; choose an empty folder or pass --force"
        ) from None
    if of != str(data.resolve()):
        raise FileError(f"{output} holds the scene of {of}; choose another folder or pass --force")
    before = mark.get("written", written)
    if before != written:  # one folder would hold both, with the depth maps of either
        raise FileError(f"{output} holds this scene as {before}, not {written}; choose another folder or pass --force")


def write_mark(data: Path, output: Path, content: dict[str, object]) -> None:
    """Write into the output which data it belongs to."""
    with placing(output) as draft:
        (draft / FOLDER).mkdir()
        text = json.dumps({"data": str(data.resolve()), **content}, indent=1)
        (draft / FOLDER / MARK).write_text(text, encoding="utf-8")


@contextmanager
def lock_output(output: Path) -> Iterator[None]:
    """Lock the output against other commands; the lock ends with the process."""
    import fcntl

    (output / FOLDER).mkdir(parents=True, exist_ok=True)
    with (output / FOLDER / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileError(f"another command is working on {output}; wait for it, or choose another folder") from None
        yield


def sweep(output: Path) -> None:
    """Remove drafts left by killed workers; those of running ones stay."""
    with locked(output / FOLDER):
        sweep_drafts(output / FOLDER)
