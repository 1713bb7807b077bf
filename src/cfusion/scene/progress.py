"""Progress of many tasks as that of one piece of work."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """How far a stage of the work is, for `cfusion.cli.progress`; `inside` is how far the task of it is that runs."""

    stage: str
    done: float  # from 0 to 1
    gap: float = math.nan
    inside: Any = None
    share: float = 0.0  # of the stage: what one task is of it


Listener = Callable[[Step], None]


class Teller:
    """Turns the progress of single tasks into that of all."""

    def __init__(self, listener: Listener | None, count: int, workers: int, what: str) -> None:
        self.listener, self.count, self.workers, self.what = listener, max(1, count), workers, what
        self.ready = 0

    def solver(self, number: int, progress: Any) -> None:
        """One task is that far."""
        if self.workers == 1:  # of several at a time, only those that are done are counted
            self._say(Step(self._stage(), number / self.count, progress.gap, progress, 1 / self.count))

    def finished(self, seconds: float) -> None:
        """One more task is done."""
        self.ready += 1
        self._say(Step(self._stage(), self.ready / self.count))

    def _stage(self) -> str:
        return f"{self.what} {min(self.ready + 1, self.count)} of {self.count}"

    def _say(self, step: Step) -> None:
        if self.listener is not None:
            self.listener(step)
