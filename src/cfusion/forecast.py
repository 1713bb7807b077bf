"""How far a run is, and how long it will take: a fraction that never falls, from what a solver tells.

A solver tells iterations out of the most it may take, and most often ends long before. What is known beforehand is how
`auto` spends its time (a table), and that the gap falls about as one over the iterations (so that the iterations still
needed follow from the gap).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

# Where the turns of `auto` begin, as shares of its time: start, guess, guess, choose, fit, final; after that, trust.
AUTO_BEGINS = (0.0, 0.07, 0.14, 0.21, 0.56, 0.62)
AUTO_TRUST = 0.80
CHOOSING = "choosing weights"
SOLVING = ("depth", CHOOSING)  # how the stages of a solver are called, or begin
OUTER_STEPS = 2.5  # of alternating solvers, usually
USUAL = 0.1  # of the most iterations that a solve may take: what most take
MOST = 0.99  # before the end
EARLY = 0.02


class Heard(Protocol):
    """What is told: `cfusion.Progress`, or a `Step`."""

    @property
    def stage(self) -> str: ...
    @property
    def done(self) -> float: ...
    @property
    def gap(self) -> float: ...


@dataclass(frozen=True)
class Step:
    """Progress of work that has no gap."""

    stage: str
    done: float  # from 0 to 1
    gap: float = math.nan


class Forecast:
    """Hears events with their time in seconds since the start; tells the fraction done and the seconds left."""

    def __init__(self, method: str = "", tolerance: float = 1e-3) -> None:
        self.method, self.tolerance = method, tolerance
        self.turn, self.ended = 0, False
        self.known, self.at, self.limit = 0.0, 0.0, EARLY  # fraction by the last event, its time, what time may add
        self.shown = 0.0
        self.solving_since: float | None = None  # of a method that is one solve: its end is not foreseen well

    def hear(self, heard: Heard, now: float) -> None:
        """Take note of an event."""
        if not heard.stage.startswith(SOLVING):
            known, limit = heard.done, max(heard.done, MOST)
        elif self.method == "auto":
            known, limit = self._of_auto(heard)
        else:
            known, limit = self._of_solve(heard, now)
        self.known, self.at, self.limit = max(self.known, min(known, 1.0)), now, max(self.limit, min(limit, 1.0))

    def fraction(self, now: float) -> float:
        """From 0 to 1; between events it follows the clock, up to where the next event would bring it."""
        moving = self.known * now / self.at if self.at > 0 else 0.0
        self.shown = max(self.shown, min(max(moving, self.known), self.limit))
        return self.shown

    def left(self, now: float) -> float:
        """Seconds, NaN where nobody can tell: early on, and for one solve of unknown length."""
        done = self.fraction(now)
        told = done > EARLY and self.known > 0 and self.solving_since is None
        return now * (1 - done) / done if told else math.nan

    def _of_auto(self, heard: Heard) -> tuple[float, float]:
        """By the turn it is in: each ends with a solve that is done, or with the choice."""
        begins = (*AUTO_BEGINS, AUTO_TRUST)
        if heard.stage == CHOOSING:
            self.turn, self.ended = max(self.turn + self.ended, 3), False
            return begins[3], begins[4]
        if self.ended or self.turn in (0, 3):
            self.turn, self.ended = self.turn + 1, False
        self.turn = min(self.turn, len(AUTO_BEGINS) - 1)
        begin, end = begins[self.turn], begins[self.turn + 1]
        inside = self._gap_share(heard) if self.turn == len(AUTO_BEGINS) - 1 else 0.5
        self.ended = heard.done >= 1.0
        if self.ended:
            return (AUTO_TRUST, MOST) if self.turn == len(AUTO_BEGINS) - 1 else (begin + 0.5 * (end - begin), end)
        return begin + 0.5 * inside * (end - begin), end

    def _of_solve(self, heard: Heard, now: float) -> tuple[float, float]:
        """By the iterations that the gap asks for."""
        if self.solving_since is None:
            self.solving_since = 0.95 * now  # the first block of iterations is done
        step = heard.stage.rpartition(" ")[2]
        outer = (int(step) if step.isdigit() else 0) - 1
        if heard.done >= 1.0:
            return MOST, MOST
        share = self._gap_share(heard)
        if outer >= 0:
            share = min(0.9, (outer + 0.5) / max(OUTER_STEPS, outer + 1.0))
        spent = now - self.solving_since
        total = self.solving_since + spent / max(share, 1e-3)
        return now / total if total > 0 else share, MOST

    def _gap_share(self, heard: Heard) -> float:
        """Iterations so far over those needed: the gap falls as one over them; while none is known, a usual number."""
        usual = heard.done / (heard.done + USUAL)
        if not math.isfinite(heard.gap):
            return usual
        return min(0.95, max(self.tolerance / max(heard.gap, 1e-12), 0.5 * usual))


def in_words(seconds: float) -> str:
    """A duration that is left, for people; nothing where it is not known."""
    if not math.isfinite(seconds):
        return ""
    if seconds < 90:
        return f"{max(1, round(seconds))} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
