"""The part of `cfusion fuse` for sequences: scenes whose neighbours are those in time.

Every N-th frame is fused into, each result in its own folder; an interrupted run is continued.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.cli.talk import print_json
from cfusion.errors import CFusionError, InputError

if TYPE_CHECKING:
    from cfusion.datasets.dataset import Dataset
    from cfusion.geometry import View
    from cfusion.io.atomic import Place

WIDTH = 11  # frames of a window
FAILED = 1  # exit code: some windows failed
HEADROOM = 2.0  # range of depth.png over the largest depth: a point is further from one camera than from another


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The distance between fused frames, and the size of windows."""
    add = parser.add_argument_group("sequences").add_argument
    add("--every", type=int, metavar="N", help="fuse into every N-th frame, each result in a folder of its own")
    add("--window", type=int, metavar="FRAMES", help="with --every: frames to fuse at a time (default: 11)")


def check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that contradict a sequence, or need one."""
    if arguments.every is None:
        if arguments.window is not None:
            raise InputError("--window is for sequences; pass --every N as well")
        return
    for flag, given in (("--reference", arguments.reference), ("--bundle", arguments.stereo_bundle)):
        if given is not None:
            raise InputError(f"{flag} is for one result, --every for a sequence; give only one of them")


def run(
    arguments: argparse.Namespace,
    views: "Dataset",
    formats: tuple[str, ...],
    parameters: Mapping[str, object],
    made_by: Mapping[str, object],
    place: "Place",
) -> int:
    """Fuse and write the windows that do not exist yet or have other inputs."""
    from cfusion import kernels, methods
    from cfusion.cli import parts, report
    from cfusion.cli.compiling import compile_kernels
    from cfusion.cli.progress import Step, showing
    from cfusion.datasets.fingerprint import contents
    from cfusion.datasets.read_result import settings_of_result
    from cfusion.datasets.write_result import write_result
    from cfusion.fuse import fuse_each
    from cfusion.io.atomic import require_writable
    from cfusion.io.codecs.png import encoding_of
    from cfusion.parameters import refine
    from cfusion.scene.graph import in_time
    from cfusion.scene.progress import TaskProgress
    from cfusion.scene.view_cache import ViewCache

    if arguments.every < 1:
        raise InputError(f"--every is {arguments.every}; give at least 1 frame")
    began = time.monotonic()
    graph = in_time(len(views), WIDTH if arguments.window is None else arguments.window)
    references = range(0, len(views), arguments.every)
    todo: list[int] = []
    failed: dict[int, Exception] = {}
    with showing(arguments.method, quiet=arguments.quiet) as progress:
        pixels, page = float(views[0].depth.size), not arguments.no_report
        progress.plan(parts.of_sequence(arguments.method, len(references), len(views), pixels, page=page))
        held = contents(views, lambda done: progress(Step(f"reading {len(views)} frames", done)))
        encoding, kept = encoding_of(0.0, HEADROOM * held.farthest), ViewCache.of(views)

        def settings(reference: int) -> dict[str, object]:
            frames = sorted(graph.bundle(reference))
            of = {"reference": reference, "first": frames[0], "frames": len(frames)}
            return {**made_by, "contents": held.of(frames), "depth_scale": encoding.scale, **of}

        def is_there(reference: int) -> bool:
            return settings_of_result(_folder(arguments.output, reference)) == settings(reference)

        def bundle(reference: int) -> "Sequence[View]":
            return _with_depth([kept[frame] for frame in graph.bundle(reference)])

        todo += [reference for reference in references if not is_there(reference)]
        if not (arguments.quiet or arguments.json):
            _print_existing(arguments.output, len(references), todo)
        if todo:
            compile_kernels([arguments.method], arguments.backend, progress)
        windows = TaskProgress(progress, len(todo), "window", arguments.method)
        method, backend = refine(methods.get(arguments.method), parameters), kernels.load(arguments.backend)
        source, unit = str(arguments.bundle), views.unit
        try:
            for reference, outcome in fuse_each(todo, bundle, method, backend, progress=windows.solver):
                if isinstance(outcome, Exception):
                    windows.finished()
                    if not isinstance(outcome, CFusionError):
                        raise outcome
                    failed[reference] = outcome
                    continue
                folder, made = _folder(arguments.output, reference), settings(reference)
                place.require_unmoved()
                write_result(
                    outcome,
                    folder,
                    formats,
                    source=source,
                    unit=unit,
                    settings=made,
                    encoding=encoding,
                    overwrite=True,
                )
                if page:
                    title = f"{arguments.bundle.name}, frame {reference}"
                    report.write_report(folder, outcome, bundle(reference), unit=unit, source=source, title=title)
                windows.finished()
                place = require_writable(arguments.output)  # the folder exists now
            place.require_unmoved()
        except KeyboardInterrupt:
            done = sum(is_there(reference) for reference in references)
            if done == 0:
                raise
            words = (
                f"{done} of {len(references)} windows are in {arguments.output}; run the same command again to continue"
            )
            raise KeyboardInterrupt(words) from None
    seconds = time.monotonic() - began
    if arguments.json:
        _print_json(arguments, len(references), todo, failed, seconds)
    return _print_summary(arguments, len(todo), failed, seconds)


def _print_json(
    arguments: argparse.Namespace, count: int, todo: Sequence[int], failed: Mapping[int, Exception], seconds: float
) -> None:
    """The summary as one JSON object."""
    summary: dict[str, object] = {"method": arguments.method, "output": str(arguments.output), "seconds": seconds}
    summary |= {"windows": count, "there_already": count - len(todo)}
    summary["fused"] = [_folder(arguments.output, each).name for each in todo if each not in failed]
    summary["left_out"] = {_folder(arguments.output, each).name: str(error) for each, error in failed.items()}
    print_json(summary)


class _NoDepth(InputError):
    """No frame of a window holds a depth."""


def _with_depth(frames: "Sequence[View]") -> "Sequence[View]":
    """The frames; raises if none holds a depth."""
    import numpy as np

    if all(np.isnan(frame.depth).all() for frame in frames):
        raise _NoDepth("no frame holds a depth")
    return frames


def _folder(output: Path, reference: int) -> Path:
    return output / f"{reference:06d}"


def _print_existing(output: Path, count: int, todo: "Sequence[int]") -> None:
    if len(todo) < count:
        print(f"{count - len(todo)} of {count} windows exist already for the same data and settings")
    stale = sum((_folder(output, reference) / "result.json").exists() for reference in todo)
    if stale:
        print(f"{stale} of {count} windows are damaged or of other data or code, and are fused again")


def _print_summary(arguments: argparse.Namespace, tried: int, failed: Mapping[int, Exception], seconds: float) -> int:
    """Print what was fused, omitted and failed; return the exit code."""
    bad = {reference: error for reference, error in failed.items() if not isinstance(error, _NoDepth)}
    if tried and not (arguments.quiet or arguments.json):
        fused, empty = tried - len(failed), len(failed) - len(bad)
        each = f", {seconds / fused:.1f} s each" if fused else ""
        print(f"{fused} windows fused with {arguments.method} in {seconds:.1f} s{each}")
        if empty:
            print(f"{empty} windows hold no depth and were left out")
        page = "" if arguments.no_report else ", each with its page; `cfusion view` shows them in 3-D"
        print(f"written to {arguments.output}, a folder for each frame fused into{page}")
        if arguments.verbose:
            print(f"the folders are named after their frames, as {_folder(arguments.output, 0).name}")
    for reference, error in bad.items():
        print(f"cfusion: window {reference:06d} failed: {error}", file=sys.stderr)
    if bad:
        print(f"cfusion: {len(bad)} windows failed; run the same command to try them again", file=sys.stderr)
    return FAILED if bad else 0
