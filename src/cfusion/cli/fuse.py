"""Fuse the views of a data set into one, or a sequence window by window: depth, confidence, points, result.json."""

import argparse
import sys
from pathlib import Path

from cfusion.cli import kitti, sequence

NAME, SUMMARY = "fuse", "fuse depth maps and write the result"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DATA -o OUT and how to fuse."""
    add = parser.add_argument
    add("bundle", type=Path, metavar="DATA", help="folder of a data set in a known format; see `cfusion formats`")
    add("-o", "--output", type=Path, required=True, metavar="OUT", help="folder for the result")
    add("--method", default="auto", help="see `cfusion methods` (default: auto)")
    add(
        "--reference",
        type=int,
        metavar="INDEX",
        help="view to fuse into (default: the bundle's, or the middle)",
    )
    add("--backend", default="auto", help="auto, cuda, cpu or numpy (default: auto)")
    add("--format", help="format of the input (default: recognised)")
    add(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the format; see `cfusion formats --options`",
    )
    add("--write", default="npy,png,pfm,ply", metavar="FORMATS", help="default: npy,png,pfm,ply")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the method; repeatable",
    )
    add("--quiet", action="store_true", help="no progress, no summary")
    kitti.add_arguments(parser)
    sequence.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check the way out first, then read, fuse, write."""
    from cfusion import kernels, methods
    from cfusion.cli import settings
    from cfusion.cli.progress import showing
    from cfusion.datasets import read, write_result
    from cfusion.datasets.check import warning
    from cfusion.datasets.write_result import require_formats
    from cfusion.fuse import fuse
    from cfusion.io.atomic import require_writable
    from cfusion.parameters import refine

    sequence.require_alone(arguments)
    formats = settings.names(arguments.write)
    parameters = settings.parameters(arguments.set)
    require_writable(arguments.output)
    require_formats(formats)
    refine(methods.get(arguments.method), parameters)
    kernels.load(arguments.backend)
    raw_stereo = arguments.stereo_bundle is not None
    if raw_stereo:
        with showing("stereo", quiet=arguments.quiet) as progress:
            views = kitti.bundle_views(arguments, progress)
    else:
        options = settings.parameters(arguments.option, "--option")
        views = read(arguments.bundle, format=arguments.format, options=options)
        caution = warning(views)
        if caution:
            print(f"cfusion: {caution}", file=sys.stderr)
    if views.sentence and not arguments.quiet:
        print(views.sentence)
    if arguments.every is not None:
        return sequence.run(arguments, views, formats, parameters)
    reference = views.reference if arguments.reference is None else arguments.reference
    with showing(arguments.method, quiet=arguments.quiet) as progress:
        result = fuse(
            tuple(views),  # read once: fusing goes through them several times
            arguments.method,
            reference=reference,
            backend=arguments.backend,
            progress=progress,
            **parameters,
        )
    write_result(result, arguments.output, formats, source=str(arguments.bundle), unit=views.unit)
    submission = kitti.write_submission(arguments, result) if raw_stereo else None
    if not arguments.quiet:
        print(f"{len(views)} views fused with {result.method} in {result.seconds:.2f} s on {result.backend}")
        print(result.status.value)
        scored = kitti.scores_sentence(arguments, result) if raw_stereo else None
        if scored:
            print(scored)
        print(f"written to {arguments.output}" + (f", submission {submission}" if submission else ""))
    return 0
