"""Progress of many tasks as that of one piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable

from cfusion.forecast import Forecast, Heard, Step

Listener = Callable[[Step], None]


class Teller:
    """Turns the progress of single tasks into that of all; it never goes back."""

    def __init__(self, listener: Listener | None, count: int, what: str, method: str = "") -> None:
        self.listener, self.count, self.what, self.method = listener, max(1, count), what, method
        self.ready, self.furthest = 0, 0.0
        self.running: dict[int, tuple[float, Forecast]] = {}  # since when, by the number of the task

    def solver(self, number: int, heard: Heard) -> None:
        """One task is that far."""
        began, forecast = self.running.setdefault(number, (time.monotonic(), Forecast(self.method)))
        forecast.hear(heard, time.monotonic() - began)
        self._say(heard.gap)

    def finished(self) -> None:
        """One more task is done: of those in this process, the first."""
        self.ready += 1
        if self.running:
            del self.running[min(self.running)]
        self._say()

    def _say(self, gap: float = float("nan")) -> None:
        if self.listener is None:
            return
        now = time.monotonic()
        within = sum(forecast.fraction(now - began) for began, forecast in self.running.values())
        self.furthest = min(1.0, max(self.furthest, (self.ready + within) / self.count))
        self.listener(Step(f"{self.what} {min(self.ready + 1, self.count)} of {self.count}", self.furthest, gap))
