"""Progress of one fusion from the events of its solver: a fraction that never falls.

A solver reports iterations out of its limit, and usually ends long before it. Known beforehand, by measurement, are the
shares of the stages of `auto`, and the iterations that a method usually takes.
"""

import math
from dataclasses import dataclass
from typing import Protocol

# Shares of the time of `auto` at which: the first solve reports, it ends, the choice of weights begins, it ends, the
# fit ends, the last solve begins, it ends; the rest estimates confidence and sigma.
FIRST, GUESSED, CHOOSE, CHOSEN, FITTED, LAST, SOLVED = 0.23, 0.27, 0.33, 0.63, 0.67, 0.73, 0.85
CHOOSING = "choosing weights"
SOLVING = ("depth", CHOOSING)  # stages of a solver, or their first words
OUTER_STEPS = 2.5  # of alternating solvers, typically
USUAL = {"l1-heuristic": 0.4, "l1": 0.05}  # typical share of the iteration limit that a solve takes
USUAL_OF_OTHERS = 0.05
LONGER = 1.3  # expected duration over that so far, for a solve that exceeds the typical one
MOST = 0.99  # until the end


class ProgressEvent(Protocol):
    """A `cfusion.Progress` or a `Step`."""

    @property
    def stage(self) -> str: ...
    @property
    def done(self) -> float: ...
    @property
    def gap(self) -> float: ...


@dataclass(frozen=True)
class Step:
    """Progress of work without a gap, or of one task of many, whose own progress is `inside`."""

    stage: str
    done: float  # from 0 to 1, of the part of the work to which the stage belongs
    gap: float = math.nan
    inside: ProgressEvent | None = None
    share: float = 0.0  # of the part that is this task
    method: str = ""  # of `inside`
    seconds: float = 0.0  # expected duration of work that interrupts other work
    rests: bool = False  # whether that work rests until its next event


class SolveForecast:
    """Takes events with their time in seconds since the start; gives the fraction done."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.known, self.at, self.limit = 0.0, 0.0, FIRST  # fraction and time of the last event, limit of the next
        self.shown = 0.0
        self.chosen, self.ended, self.solves = False, False, 0
        self.solving_since: float | None = None

    def update(self, event: ProgressEvent, now: float) -> None:
        """Account for an event."""
        known, limit = self._of_auto(event) if self.method == "auto" else self._of_one(event, now)
        self.known, self.at, self.limit = max(self.known, known), now, max(self.limit, limit)

    def fraction(self, now: float) -> float:
        """From 0 to 1; between events it advances with the clock up to the limit."""
        moving = self.known * now / self.at if self.at > 0 else 0.0
        self.shown = max(self.shown, min(max(moving, self.known), self.limit))
        return self.shown

    def _of_auto(self, event: ProgressEvent) -> tuple[float, float]:
        """The fraction of `auto`, by the stages it has passed, and its limit."""
        if event.stage == CHOOSING:
            self.chosen, self.solves, self.ended = True, 0, False
            return CHOOSE, CHOSEN
        if self.ended:
            self.solves, self.ended = self.solves + 1, False
        self.ended = event.done >= 1.0
        if not self.chosen:
            return (GUESSED, CHOOSE) if self.ended else (FIRST, GUESSED)
        if self.solves == 0:
            return (FITTED, LAST) if self.ended else (CHOSEN, FITTED)
        return (SOLVED, MOST) if self.ended else (LAST, SOLVED)

    def _of_one(self, event: ProgressEvent, now: float) -> tuple[float, float]:
        """The fraction of a single solve, by its typical iterations, and its limit."""
        if self.solving_since is None:
            self.solving_since = 0.9 * now  # the first block of iterations is done
        if event.done >= 1.0:
            return MOST, MOST
        step = event.stage.rpartition(" ")[2]
        if step.isdigit():
            share = (int(step) - 0.5) / max(OUTER_STEPS, float(step))
        else:
            share = event.done / max(USUAL.get(self.method, USUAL_OF_OTHERS), LONGER * event.done)
        total = self.solving_since + (now - self.solving_since) / max(share, 1e-3)
        known = min(now / total if total > 0 else share, MOST)
        return known, known + 0.5 * (1 - known)
