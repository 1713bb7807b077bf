"""The part of `cfusion fuse` that goes through a sequence: window by window, resumed where it was interrupted."""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.errors import InputError

if TYPE_CHECKING:
    from cfusion.cli.progress import Heard, Listener
    from cfusion.datasets.dataset import Dataset
    from cfusion.sequence import Window


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
    arguments: argparse.Namespace, views: "Dataset", formats: tuple[str, ...], parameters: Mapping[str, object]
) -> int:
    """Fuse and write the windows that are not there yet."""
    from cfusion.cli.progress import showing
    from cfusion.datasets.write_result import write_result
    from cfusion.sequence import WIDTH, fuse_windows, windows

    began = time.monotonic()
    every = windows(len(views), arguments.every, WIDTH if arguments.window is None else arguments.window)
    settings = _settings(arguments, formats, parameters)
    todo = [window for window in every if not _is_there(arguments.output / window.name, window, settings)]
    if len(todo) < len(every) and not arguments.quiet:
        print(f"{len(every) - len(todo)} of {len(every)} windows are there already, made with the same settings")
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
                progress=_Teller(progress, len(todo)),
                **parameters,
            )
            for window, result in fused:
                if result is None:
                    empty += 1
                    continue
                folder: Path = arguments.output / window.name
                source = str(arguments.bundle)
                write_result(result, folder, formats, source=source, unit=views.unit, settings=settings | _of(window))
    except KeyboardInterrupt:
        done = sum(_is_there(arguments.output / window.name, window, settings) for window in every)
        if done == 0:
            raise
        told = f"{done} of {len(every)} windows are in {arguments.output}; the same command goes on from there"
        raise KeyboardInterrupt(told) from None
    if not arguments.quiet:
        _summary(arguments, len(todo) - empty, empty, time.monotonic() - began)
    return 0


class _Teller:
    """Turns the progress of one window into that of all; it never goes back."""

    def __init__(self, listener: "Listener", count: int) -> None:
        self.listener, self.count, self.furthest = listener, count, 0.0
        self.began = time.monotonic()

    def __call__(self, number: int, heard: "Heard") -> None:
        from cfusion.cli.progress import Step
        from cfusion.experiments.eta import in_words

        self.furthest = max(self.furthest, (number + heard.done) / self.count)
        stage = f"window {number + 1} of {self.count}"
        if number > 0:
            spent = time.monotonic() - self.began
            stage += f", {in_words(spent * (1 - self.furthest) / self.furthest)}"
        self.listener(Step(stage, self.furthest, heard.gap))


def _settings(
    arguments: argparse.Namespace, formats: tuple[str, ...], parameters: Mapping[str, object]
) -> dict[str, object]:
    """What decides the result of a window, beyond the window itself."""
    from cfusion import __version__, kernels
    from cfusion.io.to_json import to_json

    return {
        "version": __version__,
        "input": str(arguments.bundle.resolve()),
        "format": arguments.format,
        "options": sorted(arguments.option),
        "method": arguments.method,
        "parameters": to_json(parameters),
        "backend": kernels.load(arguments.backend).NAME,
        "written": list(formats),
    }


def _of(window: "Window") -> dict[str, object]:
    return {"reference": window.reference, "first": window.frames[0], "frames": len(window.frames)}


def _is_there(folder: Path, window: "Window", settings: Mapping[str, object]) -> bool:
    """Whether a whole result of this window, made with these settings, is in a folder."""
    from cfusion.datasets.read_result import settings_of_result

    return settings_of_result(folder) == {**settings, **_of(window)}


def _summary(arguments: argparse.Namespace, fused: int, empty: int, seconds: float) -> None:
    each = f", {seconds / fused:.1f} s each" if fused else ""
    print(f"{fused} windows fused with {arguments.method} in {seconds:.1f} s{each}")
    if empty:
        print(f"{empty} windows hold no depth and were left out")
    print(f"written to {arguments.output}, a folder for each frame fused into")
