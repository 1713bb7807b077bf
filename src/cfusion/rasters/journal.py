"""The finished steps of a mosaic, on disk beside its images: an interrupted run continues from there."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cfusion.errors import FileError
from cfusion.io.drafts import alone_in
from cfusion.io.json_object import content_of
from cfusion.rasters.runner import Crew
from cfusion.rasters.scratch import disk_error

FACTS, STEPS = "facts.json", "steps.jsonl"


@contextmanager
def alone_at_work(folder: Path) -> Iterator[None]:
    """Keep a work folder from other runs, which would remove or overwrite its images."""
    with ExitStack() as held:
        try:
            held.enter_context(alone_in(folder))
        except FileError:
            raise
        except OSError as error:
            raise disk_error(folder / FACTS, error, 0) from None
        yield


class Journal:
    """Facts by name, and the results of finished jobs by stage."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.resumed = False
        self._facts: dict[str, Any] = {"key": key}
        self._done: dict[str, dict[int, Any]] = {}
        try:
            self._open(key)
        except OSError as error:
            raise disk_error(folder / FACTS, error, 0) from None

    def _open(self, key: str) -> None:
        facts = content_of(self.folder / FACTS)
        if facts is not None and facts.get("key") == key:
            self._facts, self.resumed = facts, True
            for line in (self.folder / STEPS).read_text().splitlines() if (self.folder / STEPS).exists() else ():
                try:
                    stage, number, result = json.loads(line)
                except ValueError:
                    continue  # the line that was being written when the run was killed
                self._done.setdefault(stage, {})[number] = result
            return
        if self.folder.exists():
            if not (self.folder / FACTS).exists() and any(self.folder.iterdir()):
                raise FileError(
                    f"{self.folder} is not the work folder of a mosaic; remove it, or pass another --scratch"
                )
            for file in self.folder.iterdir():  # not the folder itself, which may be locked
                file.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._save()

    def get(self, name: str) -> Any:
        """A fact; None if not known yet."""
        return self._facts.get(name)

    def put(self, name: str, value: Any) -> Any:
        self._facts[name] = value
        self._save()
        return value

    def _save(self) -> None:
        draft = self.folder / (FACTS + ".draft")
        draft.write_text(json.dumps(self._facts))
        os.replace(draft, self.folder / FACTS)

    def stage(
        self,
        name: str,
        function: Callable[..., Any],
        jobs: Sequence[tuple[Any, ...]],
        crew: Crew,
        progress: Callable[[float], None],
    ) -> list[Any]:
        """Run the unfinished jobs of a stage; return the results of all its jobs, in order."""
        finished = self._done.setdefault(name, {})
        left = [number for number in range(len(jobs)) if number not in finished]
        with (self.folder / STEPS).open("a") as steps:

            def done(place: int, result: Any) -> None:
                finished[left[place]] = result
                steps.write(json.dumps([name, left[place], result]) + "\n")
                steps.flush()
                progress(len(finished) / len(jobs))

            crew.run(function, [jobs[number] for number in left], done)
        return [finished[number] for number in range(len(jobs))]

    def remove(self) -> None:
        """Remove the files when the mosaic is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)
