"""The report of every command that fuses: a page, and coloured pictures of depth and sigma."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfusion.cli import talk

if TYPE_CHECKING:
    from cfusion.cli.progress import ProgressCallback
    from cfusion.forecast import ProgressEvent
    from cfusion.view.content import Event

PAGE = "report.html"


def add_no_report(parser: argparse.ArgumentParser) -> None:
    """--no-report."""
    parser.add_argument("--no-report", action="store_true", help=f"do not write the page {PAGE}")


def command_line() -> str:
    """The command as it was typed."""
    return " ".join(["cfusion", *(shlex.quote(word) for word in sys.argv[1:])])


class Recorder:
    """A callback that passes events on and records them for the page."""

    def __init__(self, callback: ProgressCallback) -> None:
        self.callback = callback
        self.events: list[Event] = []
        self.began = time.monotonic()

    def __call__(self, event: ProgressEvent) -> None:
        from cfusion.view.content import Event

        energy = float(getattr(event, "energy", float("nan")))
        self.events.append(Event(time.monotonic() - self.began, event.stage, event.gap, energy))
        self.callback(event)


def write_report(
    folder: Path,
    result: Any,
    views: Sequence[Any],  # empty if there is nothing to compare the result with
    *,
    events: Sequence[Event] = (),
    unit: str,
    source: str,
    title: str = "",
) -> Path:
    """Write the page of one result into its folder."""
    from cfusion.view import write_page

    return write_page(
        folder / PAGE,
        result,
        views=views or None,
        reference=reference_of(result, views) if views else None,
        traces={result.method: events},
        title=title or f"{Path(source).name or source}, fused" if source else title,
        unit=unit,
        source=source,
        command=command_line(),
    )


def print_json(result: Any, folder: Path, views: int, *, page: bool) -> None:
    """The summary of a run as one JSON object."""
    summary = {name: getattr(result, name) for name in ("method", "backend", "seconds", "iterations", "gap", "status")}
    summary |= {"views": views, "output": str(folder), "report": str(folder / PAGE) if page else None}
    talk.print_json(summary)


def reference_of(result: Any, views: Sequence[Any]) -> int:
    """The index of the view that has the result's pose, else of the middle one."""
    same = [k for k, view in enumerate(views) if view.pose is result.pose]
    return same[0] if same else len(views) // 2
