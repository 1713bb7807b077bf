"""The part of `cfusion fuse` that goes through a sequence: window by window, resumed where it was interrupted."""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.errors import InputError

if TYPE_CHECKING:
    from cfusion.cli.progress import Listener
    from cfusion.cli.solve_forecast import Heard
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
    from cfusion.cli import parts, report
    from cfusion.cli.compiling import compile_kernels
    from cfusion.cli.progress import Step, showing
    from cfusion.datasets.fingerprint import contents
    from cfusion.datasets.read_result import settings_of_result
    from cfusion.datasets.write_result import write_result
    from cfusion.io.atomic import require_writable
    from cfusion.io.codecs.png import encoding_of
    from cfusion.sequence import WIDTH, fuse_windows, windows

    began = time.monotonic()
    every = windows(len(views), arguments.every, WIDTH if arguments.window is None else arguments.window)
    quiet, mute = arguments.quiet, arguments.quiet or arguments.json
    todo: list[Window] = []
    fused: list[Window] = []
    with showing(arguments.method, quiet=quiet) as progress:
        pixels = float(views[0].depth.size)
        page = not arguments.no_report
        progress.plan(parts.of_sequence(arguments.method, len(every), len(views), pixels, page=page))
        held = contents(views, lambda done: progress(Step(f"reading {len(views)} frames", done)))
        encoding = encoding_of(0.0, HEADROOM * held.farthest)

        def settings(window: "Window") -> dict[str, object]:
            return {**made_by, "contents": held.of(window.frames), "depth_scale": encoding.scale, **_of(window)}

        def is_there(window: "Window") -> bool:
            return settings_of_result(arguments.output / window.name) == settings(window)

        todo += [window for window in every if not is_there(window)]
        if not mute:
            _say_what_is_there(arguments.output, every, todo)
        if todo:
            compile_kernels([arguments.method], arguments.backend, progress)
        found = fuse_windows(
            views,
            todo,
            arguments.method,
            backend=arguments.backend,
            progress=_Teller(progress, len(todo), arguments.method),
            **parameters,
        )
        try:
            for window, result in found:
                if result is None:
                    continue
                folder: Path = arguments.output / window.name
                source, unit, made = str(arguments.bundle), views.unit, settings(window)
                place.require_unmoved()
                write_result(result, folder, formats, source=source, unit=unit, settings=made, encoding=encoding)
                if page:
                    seen = [views[frame] for frame in window.frames]
                    named = f"{arguments.bundle.name}, frame {window.reference}"
                    report.write_report(folder, result, seen, unit=unit, source=source, title=named)
                fused.append(window)
                place = require_writable(arguments.output)  # it stands now
            place.require_unmoved()
        except KeyboardInterrupt:
            done = sum(is_there(window) for window in every)
            if done == 0:
                raise
            told = f"{done} of {len(every)} windows are in {arguments.output}; the same command goes on from there"
            raise KeyboardInterrupt(told) from None
    seconds = time.monotonic() - began
    if arguments.json:
        _print_json(arguments, every, todo, fused, seconds)
    elif todo and not quiet:
        _summary(arguments, len(fused), len(todo) - len(fused), seconds)
    return 0


def _print_json(
    arguments: argparse.Namespace,
    every: "Sequence[Window]",
    todo: "Sequence[Window]",
    fused: "Sequence[Window]",
    seconds: float,
) -> None:
    """The summary as one JSON object."""
    from cfusion.cli.talk import print_json

    told = {"method": arguments.method, "output": str(arguments.output), "windows": len(every), "seconds": seconds}
    told |= {"there_already": len(every) - len(todo), "fused": [window.name for window in fused]}
    told["without_depth"] = [window.name for window in todo if window not in fused]
    print_json(told)


def _say_what_is_there(output: Path, every: "Sequence[Window]", todo: "Sequence[Window]") -> None:
    if len(todo) < len(every):
        print(f"{len(every) - len(todo)} of {len(every)} windows are there already, made of the same data and settings")
    stale = sum((output / window.name / "result.json").exists() for window in todo)
    if stale:
        print(f"{stale} of {len(every)} windows are there but damaged, or made of other data or code: done again")


class _Teller:
    """Turns the progress of one window into that of all."""

    def __init__(self, listener: "Listener", count: int, method: str) -> None:
        self.listener, self.count, self.method = listener, count, method

    def __call__(self, number: int, heard: "Heard") -> None:
        from cfusion.cli.progress import Step

        stage = f"window {number + 1} of {self.count}"
        self.listener(Step(stage, number / self.count, heard.gap, heard, 1 / self.count, self.method))


def _of(window: "Window") -> dict[str, object]:
    return {"reference": window.reference, "first": window.frames[0], "frames": len(window.frames)}


def _summary(arguments: argparse.Namespace, fused: int, empty: int, seconds: float) -> None:
    each = f", {seconds / fused:.1f} s each" if fused else ""
    print(f"{fused} windows fused with {arguments.method} in {seconds:.1f} s{each}")
    if empty:
        print(f"{empty} windows hold no depth and were left out")
    page = "" if arguments.no_report else ", each with its page; `cfusion view` shows them in 3-D"
    print(f"written to {arguments.output}, a folder for each frame fused into{page}")
    if arguments.verbose:
        print(f"the folders are named after their frames: {arguments.output / '000000'} and so on")
