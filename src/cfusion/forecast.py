"""How far one fusion is, from what its solver tells: a fraction that never falls.

A solver tells iterations out of the most it may take, and most often ends long before. What is known beforehand is how
`auto` spends its time, and how many iterations a method usually takes (both measured).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

# Shares of the time of `auto` at which: it first tells of a solve, this ends, weights are chosen, are chosen, the fit
# ends, the last solve begins, ends; after that, how far to trust it.
FIRST, GUESSED, CHOOSE, CHOSEN, FITTED, LAST, SOLVED = 0.23, 0.27, 0.33, 0.63, 0.67, 0.73, 0.85
CHOOSING = "choosing weights"
SOLVING = ("depth", CHOOSING)  # how the stages of a solver are called, or begin
OUTER_STEPS = 2.5  # of alternating solvers, usually
USUAL = {"l1-heuristic": 0.4, "l1": 0.05}  # of the most iterations that a solve may take: what it takes
USUAL_OF_OTHERS = 0.05
LONGER = 1.3  # times what was done: how long a solve takes that takes longer than usual
MOST = 0.99  # before the end


class ProgressEvent(Protocol):
    """What is told: `cfusion.Progress`, or a `Step`."""

    @property
    def stage(self) -> str: ...
    @property
    def done(self) -> float: ...
    @property
    def gap(self) -> float: ...


@dataclass(frozen=True)
class Step:
    """Progress of work that has no gap, or of one task of many: then `inside` is how far that task is."""

    stage: str
    done: float  # from 0 to 1, of the part of the work that the stage belongs to
    gap: float = math.nan
    inside: ProgressEvent | None = None
    share: float = 0.0  # of the part: what the task is of it
    method: str = ""  # that `inside` tells of
    seconds: float = 0.0  # of work in the midst of other work: what it takes on a usual machine
    rests: bool = False  # that work, until it is told of again
    coming: float = 0.0  # the share of that work that will be done when it is told of again, where that is known


class SolveForecast:
    """Hears events with their time in seconds since the start; tells the fraction done."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.known, self.at, self.limit = 0.0, 0.0, FIRST  # by the last event, its time, what the clock may add
        self.shown = 0.0
        self.chosen, self.ended, self.solves = False, False, 0
        self.solving_since: float | None = None

    def update(self, event: ProgressEvent, now: float) -> None:
        """Take note of an event."""
        known, limit = self._of_auto(event) if self.method == "auto" else self._of_one(event, now)
        self.known, self.at, self.limit = max(self.known, known), now, max(self.limit, limit)

    def fraction(self, now: float) -> float:
        """From 0 to 1; between events it follows the clock, up to where the next event would bring it."""
        moving = self.known * now / self.at if self.at > 0 else 0.0
        self.shown = max(self.shown, min(max(moving, self.known), self.limit))
        return self.shown

    def _of_auto(self, event: ProgressEvent) -> tuple[float, float]:
        """By the landmarks that it has passed."""
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
        """By the iterations that its solve usually takes."""
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
