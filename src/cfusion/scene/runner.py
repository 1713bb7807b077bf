"""Where tasks run: in this process or on the workers of a cluster, with the same records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from cfusion.scene.job import Job, Task
from cfusion.scene.record import Record
from cfusion.scene.work import TaskCallback, work


class Runner(Protocol):
    """Runs tasks and yields their records as they end, in any order; failures are records too."""

    @property
    def workers(self) -> int:
        """Number of tasks that run at the same time."""

    def open(self) -> AbstractContextManager[Runner]:
        """Start the runner; it then serves several runs."""

    def run(self, job: Job, tasks: Sequence[Task], callback: TaskCallback | None = None) -> Iterator[Record]:
        """Run every task once."""


@dataclass(frozen=True)
class InProcess:
    """Runs tasks in this process, one after the other."""

    workers: int = 1

    def open(self) -> AbstractContextManager[InProcess]:
        """Nothing to start."""
        return nullcontext(self)

    def run(self, job: Job, tasks: Sequence[Task], callback: TaskCallback | None = None) -> Iterator[Record]:
        """Run the tasks in order."""
        return work(job, tasks, callback)
