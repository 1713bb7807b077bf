"""Progress of many tasks as that of one piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable

from cfusion.forecast import Heard, SolveForecast, Step

Listener = Callable[[Step], None]


class Teller:
    """Turns the progress of single tasks into that of all."""

    def __init__(self, listener: Listener | None, count: int, what: str, method: str = "") -> None:
        self.listener, self.count, self.what, self.method = listener, max(1, count), what, method
        self.ready = 0
        self.running: dict[int, tuple[float, SolveForecast]] = {}  # since when, by the number of the task

    def solver(self, number: int, heard: Heard) -> None:
        """One task is that far: where it runs alone, it is passed on for who forecasts; several are summed here."""
        began, forecast = self.running.setdefault(number, (time.monotonic(), SolveForecast(self.method)))
        forecast.hear(heard, time.monotonic() - began)
        done = self.ready / self.count
        if len(self.running) == 1:
            self._say(Step(self._stage(), done, heard.gap, heard, 1 / self.count, self.method))
            return
        now = time.monotonic()
        within = sum(forecast.fraction(now - began) for began, forecast in self.running.values())
        self._say(Step(self._stage(), min(1.0, done + within / self.count), heard.gap))

    def finished(self) -> None:
        """One more task is done: of those in this process, the first."""
        self.ready += 1
        if self.running:
            del self.running[min(self.running)]
        self._say(Step(self._stage(), min(1.0, self.ready / self.count)))

    def _stage(self) -> str:
        return f"{self.what} {min(self.ready + 1, self.count)} of {self.count}"

    def _say(self, step: Step) -> None:
        if self.listener is not None:
            self.listener(step)
