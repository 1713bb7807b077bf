"""Work that is needed only sometimes and interrupts other work: compiling kernels."""

PRIOR = 1.0  # seconds at the typical pace, assumed to have passed
LONGEST = 0.5  # of the remaining time after an event, that the clock alone may count down


class Interruption:
    """Progress of an interruption with its own clock: while it runs, the clock of the other work stands still."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.since: float | None = None
        self.done, self.seconds = 0.0, 0.0  # share that is done, of this many expected seconds
        self.last_event = 0.0

    def update(self, done: float, seconds: float, now: float, *, rests: bool) -> None:
        """The share `done`; it runs on, or rests until the next update."""
        self.spent, self.since = self._spent(now), None if rests else now
        self.done, self.seconds, self.last_event = max(self.done, done), seconds, now

    def forget(self) -> None:
        """No more of this work is expected."""
        self.seconds = 0.0

    def clock(self, now: float) -> float:
        """The time without interruptions."""
        return now - self._spent(now)

    def left(self, now: float) -> float:
        """The seconds left at the pace so far."""
        pace = (self._spent(self.last_event) + PRIOR) / (self.done * self.seconds + PRIOR)
        left = pace * (1 - self.done) * self.seconds
        return left - min(now - self.last_event, LONGEST * left) if self.since is not None else left

    def _spent(self, now: float) -> float:
        return self.spent + (0.0 if self.since is None else now - self.since)
