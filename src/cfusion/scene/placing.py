"""Files that many workers write into one output: each appears complete, and a record after the files it describes.

`cfusion.io.atomic.filling` exchanges a whole folder, which suits one result with one writer; here the
folder is shared, so files are renamed into it one by one.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cfusion.errors import FileError
from cfusion.io.atomic import reason, sync
from cfusion.io.drafts import draft_in
from cfusion.scene.job import FOLDER


@contextmanager
def placing(output: Path) -> Iterator[Path]:
    """A draft folder whose files move to the same names below `output` if the block succeeds, .json files last."""
    try:
        home = output / FOLDER
        home.mkdir(parents=True, exist_ok=True)
        with draft_in(home) as draft:
            yield draft
            files = [path for path in draft.rglob("*") if path.is_file()]
            files.sort(key=lambda path: (path.suffix == ".json", path))
            for path in files:
                sync(path)
            for record in _records(files):  # if we die while moving files, no old record may describe new files
                (output / record.relative_to(draft)).unlink(missing_ok=True)
            for path in files:
                target = output / path.relative_to(draft)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write to {output}: {reason(error, output)}; run the command again") from error


def _records(files: Sequence[Path]) -> list[Path]:
    """The .json files that describe other files; files that are all .json describe nothing else."""
    records = [path for path in files if path.suffix == ".json"]
    return records if len(records) < len(files) else []
