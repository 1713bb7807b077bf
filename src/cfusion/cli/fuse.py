"""Fuse the views of a data set into one, or a sequence window by window: depth, confidence, points, result.json."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.cli import correction, kitti, mosaic, output, report, sequence, settings, talk

if TYPE_CHECKING:
    from cfusion.datasets.dataset import Dataset

NAME, SUMMARY = "fuse", "fuse depth maps and write the result"
# Written out because importing the table of methods is slow and --help does not need it; a test compares the two.
METHODS = (
    "input, mean, median, rof, l1, tgv-fusion, l1-heuristic, rof-adapt, l1-adapt, adapt-hprior, adapt-hprior-g, auto"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DATA -o OUT and how to fuse."""
    add = parser.add_argument
    add("bundle", type=Path, metavar="DATA", help="folder of a data set in a known format; see `cfusion formats`")
    add("-o", "--output", type=Path, required=True, metavar="OUT", help="folder for the result")
    add("--method", default="auto", help=f"{METHODS} (default: auto; see `cfusion methods`)")
    add("--reference", type=int, metavar="INDEX", help="view to fuse into (default: the data set's, or the middle)")
    add("--backend", default="auto", help="auto, cuda, cpu or numpy (default: auto)")
    settings.add_reading(parser)
    add("--write", default=output.USUAL, metavar="FORMATS", help=f"default: {output.USUAL}")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the method; repeatable")
    report.add_no_report(parser)
    talk.add_arguments(
        parser,
        verbose="also the choices and the parts of the energy",
        json="print the summary as JSON; result.json has every number",
    )
    output.add_arguments(parser)
    correction.add_arguments(parser)
    kitti.add_arguments(parser)
    sequence.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check the output first, then read, fuse, write."""
    from cfusion import kernels, methods
    from cfusion.cli import parts
    from cfusion.cli.compiling import kernels_ready
    from cfusion.cli.progress import Step, showing
    from cfusion.cli.talk import shown
    from cfusion.datasets import read, write_result
    from cfusion.datasets.fingerprint import contents
    from cfusion.datasets.write_result import require_formats
    from cfusion.fuse import fuse
    from cfusion.io.atomic import require_writable
    from cfusion.parameters import refine
    from cfusion.view.sections import sentences

    sequence.check_options(arguments)
    if mosaic.is_height_models(arguments):
        with mosaic.told_by_fuse(arguments):
            return mosaic.fuse_folder(arguments)
    formats = settings.names(arguments.write)
    parameters = settings.parameters(arguments.set)
    command = output.command_of(arguments, formats, parameters)
    place = require_writable(arguments.output)
    output.require_free(arguments.output, arguments.bundle, command, force=arguments.force)
    require_formats(formats)
    refine(methods.get(arguments.method), parameters)
    made_by = {"command": command, **output.made_by(kernels.load(arguments.backend).NAME)}
    options = kitti.options_of(arguments, settings.parameters(arguments.option, "--option"))
    raw_stereo = kitti.raw_bundle(arguments, options)
    if raw_stereo is not None:
        correction.require_none(arguments, "the depth of KITTI's pairs is matched here, in metres")
        parameters = kitti.parameters_of(arguments.method, parameters)
        with showing("stereo", quiet=arguments.quiet) as progress:
            views = kitti.bundle_views(arguments, raw_stereo, progress)
    else:
        views = read(arguments.bundle, format=arguments.format, options=options)
        views = correction.corrected(arguments, views)
        into = None if arguments.every is not None else _into(arguments, views)
        correction.require_plausible(views, correction.chosen(arguments), into, force=arguments.force)
    if views.sentence and not (arguments.quiet or arguments.json):
        print(shown(views.sentence))
    if arguments.every is not None:
        return sequence.run(arguments, views, formats, parameters, made_by, place)
    reference = _into(arguments, views)  # reports a mistake before anything is compiled
    read_once = tuple(views)  # fusion reads them several times
    pixels = float(read_once[reference].depth.size)
    with showing(arguments.method, quiet=arguments.quiet) as progress:
        progress.plan(parts.of_fuse(arguments.method, pixels, len(views), page=not arguments.no_report))
        with kernels_ready([arguments.method], arguments.backend, progress):
            progress(Step("fusing", 0.0))
            recorder = report.Recorder(progress)
            result = fuse(
                read_once,
                arguments.method,
                reference=reference,
                backend=arguments.backend,
                progress=recorder,
                check=False,  # done, or not wanted
                **parameters,
            )
        progress(Step(parts.WRITING, 0.0))
        made = made_by | {"contents": contents(read_once).of(range(len(read_once)))}
        place.require_unmoved()
        source, unit = str(arguments.bundle), views.unit
        write_result(result, arguments.output, formats, source=source, unit=unit, settings=made, overwrite=True)
        if not arguments.no_report:
            progress(Step(parts.PAGE, 0.0))
            report.write_report(arguments.output, result, read_once, events=recorder.events, unit=unit, source=source)
    bundle = None if raw_stereo is None else kitti.opened(arguments, raw_stereo)
    submission = None if bundle is None else kitti.write_submission(bundle, arguments.output, result)
    if arguments.json:
        report.print_json(result, arguments.output, len(views), page=not arguments.no_report)
    elif not arguments.quiet:
        print(f"{len(views)} views fused with {result.method} in {result.seconds:.2f} s on {result.backend}")
        print("\n".join(sentences(result)) if arguments.verbose else result.status.value)
        scored = None if bundle is None else kitti.scores_sentence(bundle, result)
        if scored:
            print(scored)
        print(f"written to {shown(arguments.output)}" + (f", submission {submission}" if submission else ""))
        if not arguments.no_report:
            print(f"open {arguments.output / report.PAGE}")
    return 0


def _into(arguments: argparse.Namespace, views: "Dataset") -> int:
    """The index of the view to fuse into."""
    from cfusion.source import reference_index

    return reference_index(views, views.reference if arguments.reference is None else arguments.reference)
