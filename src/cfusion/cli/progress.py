"""Progress on stderr with the falling gap: a bar on a terminal, occasional lines elsewhere; it never goes back."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cfusion.cli.forecast import Forecast, Part, in_words
from cfusion.forecast import ProgressEvent, Step

PATIENCE = 1.0  # seconds before the first line
BETWEEN_LINES = 5.0  # seconds


__all__ = ["ProgressCallback", "ProgressDisplay", "Step", "described", "prefixed", "showing"]
ProgressCallback = Callable[[ProgressEvent], None]


class ProgressDisplay:
    """A callback for `fuse(progress=...)` that shows nothing; `plan` sets the expected parts when these are known."""

    def __init__(self, name: str) -> None:
        self.name, self.began, self.forecast = name, time.monotonic(), Forecast(name)

    def plan(self, parts: Sequence[Part], method: str = "") -> None:
        """Set the parts of the work, in order."""
        self.forecast.plan(parts, method or self.name)

    def __call__(self, event: ProgressEvent) -> None:
        """Update the forecast and show the event."""
        now = time.monotonic()
        self.forecast.update(event, now - self.began)
        self.show(event, now)

    def show(self, event: ProgressEvent, now: float) -> None:
        """Show nothing."""


@contextmanager
def showing(name: str, *, quiet: bool = False) -> Iterator[ProgressDisplay]:
    """A callback that shows progress while the block runs."""
    if quiet:
        yield ProgressDisplay(name)
    elif sys.stderr.isatty() and _has_rich():
        with _bar(name) as callback:
            yield callback
    else:
        yield _Lines(name)


def prefixed(name: str, callback: ProgressCallback) -> ProgressCallback:
    """A callback for one method of several: its name precedes its stages, and it is a part of its own."""

    def listen(event: ProgressEvent) -> None:
        callback(Step(f"{name}: {event.stage}", 0.0, event.gap, event, 1.0, name))

    return listen


def described(progress: ProgressEvent) -> str:
    """The stage, and the gap if there is one."""
    return f"{progress.stage}, gap {progress.gap:.1e}" if math.isfinite(progress.gap) else progress.stage


class _Lines(ProgressDisplay):
    """Plain lines: none in the first second, then one every few seconds."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.due = self.began + PATIENCE

    def show(self, event: ProgressEvent, now: float) -> None:
        """Print a line if one is due."""
        if now >= self.due:
            spent = now - self.began
            words = [f"{100 * self.forecast.fraction(spent):.0f} %", in_words(self.forecast.left(spent))]
            words.append(described(event))
            print(f"{self.name}: {', '.join(word for word in words if word)}", file=sys.stderr, flush=True)
            self.due = now + BETWEEN_LINES


@contextmanager
def _bar(name: str) -> Iterator[ProgressDisplay]:
    """A bar that advances with the clock between events and vanishes at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Share(ProgressColumn):
        """The current fraction, from which the bar is drawn as well."""

        max_refresh = None

        def render(self, task: Any) -> Text:
            now = time.monotonic() - callback.began
            done = callback.forecast.fraction(now)
            bar.update(task.id, completed=done)
            return Text(f"{100 * done:3.0f} % {now:4.0f} s {in_words(callback.forecast.left(now)):>12}")

    class OnBar(ProgressDisplay):
        """Text behind the bar; a new stage is shown at once."""

        stage = ""

        def show(self, event: ProgressEvent, now: float) -> None:
            """Show the current stage."""
            bar.update(task, description=described(event), refresh=event.stage != self.stage)
            self.stage = event.stage

    callback = OnBar(name)
    columns = (
        TextColumn("{task.fields[method]:<14}"),
        Share(),
        BarColumn(bar_width=24),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task("", total=1.0, method=name)
        yield callback


def _has_rich() -> bool:
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True
