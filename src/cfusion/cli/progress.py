"""Progress on stderr, with the gap falling: a bar on a terminal, a line now and then elsewhere."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

PATIENCE = 1.0  # seconds without a word
BETWEEN_LINES = 5.0  # seconds


class Heard(Protocol):
    """What a listener hears: `cfusion.fuse.Progress`, or a `Step`."""

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
    due = time.monotonic() + PATIENCE

    def listen(progress: Heard) -> None:
        nonlocal due
        if time.monotonic() >= due:
            print(f"{name}: {100 * progress.done:.0f} %, {described(progress)}", file=sys.stderr, flush=True)
            due = time.monotonic() + BETWEEN_LINES

    return listen


@contextmanager
def _bar(name: str) -> Iterator[Listener]:
    """A bar that vanishes when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.fields[method]:<20}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, method=name)
        yield lambda progress: bar.update(task, completed=progress.done, description=described(progress))


def _has_rich() -> bool:
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True
