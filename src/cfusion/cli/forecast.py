"""Progress and remaining time of a command, from its parts in order with their expected durations.

The fraction shown never falls. The remaining time follows from the pace of the running part, so that a slow machine is
recognised soon, and from the pace of parts of the same kind: a machine may be fast with all threads and slow with one.
Compiling kernels is an interruption: it counts from when it begins, has its own clock, and does not affect the pace of
the other parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cfusion.cli.interruption import Interruption
from cfusion.forecast import MOST, SOLVING, ProgressEvent, SolveForecast

SURE = 0.15  # share of a part from which only its own pace counts, no longer that of the parts before it
PRIOR = 2.5  # seconds at the typical pace, assumed to have passed
PRIOR_OF_A_KIND = 1.0  # the same, at the pace of all parts together
LINGERING = 0.25  # remaining time of a part without events that takes longer than expected, over the time spent in it


@dataclass(frozen=True)
class Part:
    """A part of the work: the first words of its stages, expected seconds on a typical machine, kind."""

    stages: str | tuple[str, ...]
    seconds: float
    kind: str = ""  # parts of a kind share their pace; "": the pace of all


class Forecast:
    """Takes events with their time in seconds since the start; gives the fraction done and the seconds left."""

    def __init__(self, method: str = "", parts: Sequence[Part] = ()) -> None:
        self.method, self.parts = method, tuple(parts) or (Part("", 1.0),)
        self.place, self.began, self.last_event = 0, 0.0, 0.0
        self.known = 0.0  # share of the running part that is done, by its last event
        self.solve: tuple[float, float, SolveForecast] | None = None  # the running one: start, share of the part
        self.begun: set[int] = set()  # indices of parts
        self.spent: dict[int, float] = {}  # seconds of finished parts, by index
        self.break_ = Interruption()
        self.shown = 0.0

    def plan(self, parts: Sequence[Part], method: str) -> None:
        """Replace the expected parts when more is known; the running part continues."""
        running = self.parts[self.place].stages
        places = {part.stages: place for place, part in enumerate(parts)}
        kept = {each: places[part.stages] for each, part in enumerate(self.parts) if part.stages in places}
        self.begun = {kept[each] for each in self.begun if each in kept}
        self.spent = {kept[each]: spent for each, spent in self.spent.items() if each in kept}
        self.parts, self.method, self.place = tuple(parts), method, places.get(running, 0)

    def update(self, event: ProgressEvent, now: float) -> None:
        """Account for an event."""
        seconds = getattr(event, "seconds", 0.0)
        if seconds > 0:
            self.break_.update(event.done, seconds, now, rests=getattr(event, "rests", False))
            return
        self._update(event, self.break_.clock(now))

    def fraction(self, now: float) -> float:
        """The share of all work that is done, 0 to 1; it never falls."""
        if now > 0:
            self.shown = max(self.shown, min(now / (now + self.left(now)), MOST))
        return self.shown

    def left(self, now: float) -> float:
        """The seconds left."""
        return self.break_.left(now) + self._left(self.break_.clock(now))

    def _update(self, event: ProgressEvent, now: float) -> None:
        inside, share = getattr(event, "inside", None), getattr(event, "share", 0.0)
        base = event.done
        if inside is None and event.stage.startswith(SOLVING):
            inside, share, base = event, 1.0, 0.0
        place = self._place_of(event.stage)
        if place < self.place and self.begun:  # of a finished part
            return
        self._move_to(place, now if inside is None else self.last_event)
        if inside is None:
            self.solve, self.known = None, min(base, 1.0)
        else:
            if self.solve is None or base > self.known + 1e-9:
                self.known = max(self.known, base)
                method = getattr(event, "method", "") or self.method
                self.solve = (self.last_event if self.solve or base else self.began, share, SolveForecast(method))
            since, _, forecast = self.solve
            forecast.update(inside, now - since)
        self.last_event = now

    def _left(self, now: float) -> float:
        """The seconds left, without interruptions."""
        part, inside = self.parts[self.place], self._inside(now)
        spent, expected = now - self.began, self._pace(part.kind) * part.seconds
        if inside > 0:
            sure = min(1.0, inside / SURE)
            expected += sure * (spent / inside - expected)
        own = expected * (1 - inside) if inside > 0 else max(expected - spent, LINGERING * spent)
        running = max(expected, spent)
        after = self.parts[self.place + 1 :]
        return own + sum(self._pace(each.kind, running) * each.seconds for each in after)

    def _pace(self, kind: str, running: float | None = None) -> float:
        """Seconds here per second on a typical machine, from the finished parts and the `running` one."""
        of_all = self.began + (running or 0.0) + PRIOR
        pace = of_all / (PRIOR + sum(self._seconds(place) for place in self._paced(running)))
        if not kind:
            return pace
        alike = [place for place in self._paced(running) if self.parts[place].kind == kind]
        times = self.spent if running is None else self.spent | {self.place: running}
        spent = sum(times.get(place, 0.0) for place in alike)
        usual = sum(self._seconds(place) for place in alike)
        return (spent + PRIOR_OF_A_KIND * pace) / (usual + PRIOR_OF_A_KIND)

    def _paced(self, running: float | None) -> range:
        """Indices of the parts from which the pace is estimated."""
        return range(self.place if running is None else self.place + 1)

    def _inside(self, now: float) -> float:
        """The share of the running part that is done; between events it advances a little with the clock."""
        if self.solve is not None:
            since, share, forecast = self.solve
            return min(MOST, self.known + share * forecast.fraction(now - since))
        until_event = self.last_event - self.began
        if self.known <= 0 or until_event <= 0 or self.known >= 1:
            return min(self.known, MOST)
        return min(self.known * (now - self.began) / until_event, self.known + 0.5 * (1 - self.known))

    def _seconds(self, place: int) -> float:
        """Expected seconds of a part; 0 if it was skipped."""
        return 0.0 if place < self.place and place not in self.begun else self.parts[place].seconds

    def _move_to(self, place: int, began: float) -> None:
        """Go to a later part, or to an earlier one if none has begun."""
        if place > self.place or (place < self.place and not self.begun):
            if self.begun:
                self.spent[self.place] = began - self.began
            self.place, self.began, self.known, self.solve = place, began, 0.0, None
            self.break_.forget()
        self.begun.add(place)

    def _place_of(self, stage: str) -> int:
        """The part of a stage: the one whose words it begins with, else the one without words."""
        for place, part in enumerate(self.parts):
            if part.stages and stage.startswith(part.stages):
                return place
        unnamed = [place for place, part in enumerate(self.parts) if not part.stages]
        return unnamed[0] if unnamed else self.place


def in_words(seconds: float) -> str:
    """A remaining duration as text; empty if unknown."""
    if not math.isfinite(seconds):
        return ""
    if seconds < 90:
        return f"{max(1, round(seconds))} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
