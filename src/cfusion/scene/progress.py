"""Progress of many tasks as that of one piece of work, with the time that is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """How far a stage of the work is, for `cfusion.cli.progress`."""

    stage: str
    done: float  # from 0 to 1
    gap: float = math.nan


Listener = Callable[[Step], None]


class Teller:
    """Turns the progress of single tasks into that of all, with the time left."""

    def __init__(self, listener: Listener | None, count: int, workers: int, what: str) -> None:
        self.listener, self.count, self.workers, self.what = listener, max(1, count), workers, what
        self.began, self.ready, self.furthest = time.monotonic(), 0, 0.0

    def solver(self, number: int, progress: Any) -> None:
        """One task is that far."""
        self._say((number + progress.done) / self.count, progress.gap)

    def finished(self, seconds: float) -> None:
        """One more task is done."""
        self.ready += 1
        self._say(self.ready / self.count, math.nan)

    def _say(self, done: float, gap: float) -> None:
        if self.listener is None:
            return
        self.furthest = min(1.0, max(self.furthest, done))
        stage = f"{self.what} {min(self.ready + 1, self.count)} of {self.count}"
        if self.ready > 0:
            spent = time.monotonic() - self.began
            stage += f", {_in_words(spent * (1 - self.furthest) / self.furthest)}"
        self.listener(Step(stage, self.furthest, gap))


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
