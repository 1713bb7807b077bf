"""Where tasks are done: in this process, or on the workers of a cluster; the records are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from cfusion.scene.job import Job, Task
from cfusion.scene.record import Record
from cfusion.scene.work import Heard, work


class Runner(Protocol):
    """Does tasks and returns their records as they are done, in any order; a failure is a record too."""

    @property
    def workers(self) -> int:
        """How many tasks are done at a time."""

    def open(self) -> AbstractContextManager[Runner]:
        """The runner, ready for one run after the other."""

    def run(self, job: Job, tasks: Sequence[Task], heard: Heard | None = None) -> Iterator[Record]:
        """Every task once."""


@dataclass(frozen=True)
class Here:
    """In this process, one after the other."""

    workers: int = 1

    def open(self) -> AbstractContextManager[Here]:
        """There is nothing to start."""
        return nullcontext(self)

    def run(self, job: Job, tasks: Sequence[Task], heard: Heard | None = None) -> Iterator[Record]:
        """In order."""
        return work(job, tasks, heard)
