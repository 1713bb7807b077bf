"""The part of `cfusion fuse` that goes through a sequence: window by window, resumed where it was interrupted."""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.errors import InputError

if TYPE_CHECKING:
    from cfusion.cli.forecast import Forecast, Heard
    from cfusion.cli.progress import Listener
    from cfusion.datasets.dataset import Dataset
    from cfusion.io.atomic import Place
    from cfusion.sequence import Window

HEADROOM = 2.0  # of depth.png: a point is farther from one camera than from another


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every how many frames, and how many at a time."""
    add = parser.add_argument_group("sequences").add_argument
    add("--every", type=int, metavar="N", help="fuse into every N-th frame, each result in a folder of its own")
    add("--window", type=int, metavar="FRAMES", help="with --every: frames to fuse at a time (default: 11)")


def require_alone(arguments: argparse.Namespace) -> None:
    """Refuse what makes no sense for a sequence, or without one."""
    if arguments.every is None:
        if arguments.window is not None:
            raise InputError("--window is for sequences; say --every N as well")
        return
    for flag, given in (("--reference", arguments.reference), ("--bundle", arguments.stereo_bundle)):
        if given is not None:
            raise InputError(f"{flag} names one thing to fuse, --every goes through a sequence; leave one out")


def run(
    arguments: argparse.Namespace,
    views: "Dataset",
    formats: tuple[str, ...],
    parameters: Mapping[str, object],
    made_by: Mapping[str, object],
    place: "Place",
) -> int:
    """Fuse and write the windows that are not there yet, or were made of something else."""
    from cfusion.cli.progress import Step, showing
    from cfusion.datasets.fingerprint import contents
    from cfusion.datasets.read_result import settings_of_result
    from cfusion.datasets.write_result import write_result
    from cfusion.io.atomic import require_writable
    from cfusion.io.codecs.png import encoding_of
    from cfusion.sequence import WIDTH, fuse_windows, windows

    began = time.monotonic()
    every = windows(len(views), arguments.every, WIDTH if arguments.window is None else arguments.window)
    with showing("reading", quiet=arguments.quiet) as progress:
        held = contents(views, lambda done: progress(Step(f"{len(views)} frames", done)))
    encoding = encoding_of(0.0, HEADROOM * held.farthest)

    def settings(window: "Window") -> dict[str, object]:
        return {**made_by, "contents": held.of(window.frames), "depth_scale": encoding.scale, **_of(window)}

    def is_there(window: "Window") -> bool:
        return settings_of_result(arguments.output / window.name) == settings(window)

    todo = [window for window in every if not is_there(window)]
    if not arguments.quiet:
        _say_what_is_there(arguments.output, every, todo)
    if not todo:
        return 0
    empty = 0
    try:
        with showing(arguments.method, quiet=arguments.quiet) as progress:
            fused = fuse_windows(
                views,
                todo,
                arguments.method,
                backend=arguments.backend,
                progress=_Teller(progress, len(todo), arguments.method),
                **parameters,
            )
            for window, result in fused:
                if result is None:
                    empty += 1
                    continue
                folder: Path = arguments.output / window.name
                source = str(arguments.bundle)
                place.require_unmoved()
                write_result(
                    result,
                    folder,
                    formats,
                    source=source,
                    unit=views.unit,
                    settings=settings(window),
                    encoding=encoding,
                )
                place = require_writable(arguments.output)  # it stands now
        place.require_unmoved()
    except KeyboardInterrupt:
        done = sum(is_there(window) for window in every)
        if done == 0:
            raise
        told = f"{done} of {len(every)} windows are in {arguments.output}; the same command goes on from there"
        raise KeyboardInterrupt(told) from None
    if not arguments.quiet:
        _summary(arguments, len(todo) - empty, empty, time.monotonic() - began)
    return 0


def _say_what_is_there(output: Path, every: "Sequence[Window]", todo: "Sequence[Window]") -> None:
    if len(todo) < len(every):
        print(f"{len(every) - len(todo)} of {len(every)} windows are there already, made of the same data and settings")
    stale = sum((output / window.name / "result.json").exists() for window in todo)
    if stale:
        print(f"{stale} of {len(every)} windows are there but damaged, or made of other data or code: done again")


class _Teller:
    """Turns the progress of one window into that of all; it never goes back."""

    def __init__(self, listener: "Listener", count: int, method: str) -> None:
        self.listener, self.count, self.method = listener, count, method
        self.number, self.began, self.heard_last = -1, time.monotonic(), time.monotonic()
        self.forecast: Forecast | None = None

    def __call__(self, number: int, heard: "Heard") -> None:
        from cfusion.cli import forecast
        from cfusion.cli.progress import Step

        now = time.monotonic()
        if number != self.number or self.forecast is None:
            self.number, self.began, self.forecast = number, self.heard_last, forecast.Forecast(self.method)
        self.heard_last = now
        self.forecast.hear(heard, now - self.began)
        done = (number + self.forecast.fraction(now - self.began)) / self.count
        self.listener(Step(f"window {number + 1} of {self.count}", done, heard.gap))


def _of(window: "Window") -> dict[str, object]:
    return {"reference": window.reference, "first": window.frames[0], "frames": len(window.frames)}


def _summary(arguments: argparse.Namespace, fused: int, empty: int, seconds: float) -> None:
    each = f", {seconds / fused:.1f} s each" if fused else ""
    print(f"{fused} windows fused with {arguments.method} in {seconds:.1f} s{each}")
    if empty:
        print(f"{empty} windows hold no depth and were left out")
    print(f"written to {arguments.output}, a folder for each frame fused into")
