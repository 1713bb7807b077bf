"""Work that only sometimes has to be done, in the midst of another: kernels that are compiled."""

from __future__ import annotations

PRIOR = 1.0  # seconds that a usual machine is taken to have worked at it already
LONGEST = 0.5  # of what is left after an event: so much the clock alone may take away, unless it is known how much


class Interruption:
    """Its own clock: while it runs, that of the rest stands still."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.since: float | None = None
        self.done, self.seconds = 0.0, 0.0  # the share that is done, of so many seconds on a usual machine
        self.last_event, self.coming = 0.0, 0.0

    def update(self, done: float, seconds: float, now: float, *, rests: bool, coming: float = 0.0) -> None:
        """It is that far, and goes on, to the share that is `coming`, or rests until it is heard of again."""
        self.spent, self.since = self._spent(now), None if rests else now
        self.done, self.seconds, self.last_event = max(self.done, done), seconds, now
        self.coming = max(0.0, min(coming, 1.0) - self.done)

    def forget(self) -> None:
        """No more of it is expected."""
        self.seconds = 0.0

    def clock(self, now: float) -> float:
        """The time without it."""
        return now - self._spent(now)

    def left(self, now: float) -> float:
        """Seconds, at the pace so far."""
        pace = (self._spent(self.last_event) + PRIOR) / (self.done * self.seconds + PRIOR)
        left = pace * (1 - self.done) * self.seconds
        most = pace * self.coming * self.seconds if self.coming > 0 else LONGEST * left
        return left - min(now - self.last_event, most) if self.since is not None else left

    def _spent(self, now: float) -> float:
        return self.spent + (0.0 if self.since is None else now - self.since)
