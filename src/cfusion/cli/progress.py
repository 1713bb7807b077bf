"""Progress on stderr, with the gap falling: a bar on a terminal, a line now and then elsewhere. It never goes back."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cfusion.forecast import Forecast, Heard, Step, in_words

PATIENCE = 1.0  # seconds without a word
BETWEEN_LINES = 5.0  # seconds


__all__ = ["Listener", "Step", "described", "showing"]
Listener = Callable[[Heard], None]


@contextmanager
def showing(name: str, *, quiet: bool = False) -> Iterator[Listener]:
    """A listener for `fuse(progress=...)` that shows what it hears while the block runs."""
    if quiet:
        yield lambda progress: None
    elif sys.stderr.isatty() and _has_rich():
        with _bar(name) as listener:
            yield listener
    else:
        yield _lines(name)


def described(progress: Heard) -> str:
    """The stage, and the gap where there is one."""
    return f"{progress.stage}, gap {progress.gap:.1e}" if math.isfinite(progress.gap) else progress.stage


def _lines(name: str) -> Listener:
    """Plain lines: none within the first second, then one every few seconds."""
    began = time.monotonic()
    due = began + PATIENCE
    forecast = Forecast(name)

    def listen(progress: Heard) -> None:
        nonlocal due
        now = time.monotonic()
        forecast.hear(progress, now - began)
        if now >= due:
            left = in_words(forecast.left(now - began))
            words = [f"{100 * forecast.fraction(now - began):.0f} %", left, described(progress)]
            print(f"{name}: {', '.join(word for word in words if word)}", file=sys.stderr, flush=True)
            due = now + BETWEEN_LINES

    return listen


@contextmanager
def _bar(name: str) -> Iterator[Listener]:
    """A bar that moves with the clock between events, and vanishes when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    began = time.monotonic()
    forecast = Forecast(name)

    class Share(ProgressColumn):
        """The fraction as it is at this moment; the bar beside it is drawn from the same."""

        max_refresh = None

        def render(self, task: Any) -> Text:
            now = time.monotonic() - began
            done = forecast.fraction(now)
            bar.update(task.id, completed=done)
            return Text(f"{100 * done:3.0f} % {now:4.0f} s {in_words(forecast.left(now)):>12}")

    columns = (
        TextColumn("{task.fields[method]:<14}"),
        Share(),
        BarColumn(bar_width=24),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, method=name)

        def listen(progress: Heard) -> None:
            forecast.hear(progress, time.monotonic() - began)
            bar.update(task, description=described(progress))

        yield listen


def _has_rich() -> bool:
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True
