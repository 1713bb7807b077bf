"""The progress of many tasks, combined."""

import time
from collections.abc import Callable

from cfusion.forecast import ProgressEvent, SolveForecast, Step

ProgressCallback = Callable[[Step], None]


class TaskProgress:
    """Combines the progress of single tasks into that of the whole."""

    def __init__(self, callback: ProgressCallback | None, count: int, what: str, method: str = "") -> None:
        self.callback, self.count, self.what, self.method = callback, max(1, count), what, method
        self.ready = 0
        self.running: dict[int, tuple[float, SolveForecast]] = {}  # by task: when it began, and its forecast

    def solver(self, number: int, event: ProgressEvent) -> None:
        """Progress of one task; passed on unchanged if it runs alone, else the running tasks are summed."""
        began, forecast = self.running.setdefault(number, (time.monotonic(), SolveForecast(self.method)))
        forecast.update(event, time.monotonic() - began)
        done = self.ready / self.count
        if len(self.running) == 1:
            self._say(Step(self._stage(), done, event.gap, event, 1 / self.count, self.method))
            return
        now = time.monotonic()
        within = sum(forecast.fraction(now - began) for began, forecast in self.running.values())
        self._say(Step(self._stage(), min(1.0, done + within / self.count), event.gap))

    def finished(self) -> None:
        """One more task is done: the first of those running."""
        self.ready += 1
        if self.running:
            del self.running[min(self.running)]
        self._say(Step(self._stage(), min(1.0, self.ready / self.count)))

    def _stage(self) -> str:
        return f"{self.what} {min(self.ready + 1, self.count)} of {self.count}"

    def _say(self, step: Step) -> None:
        if self.callback is not None:
            self.callback(step)
