"""Run the paper's experiments; write tables, figures and a page with the published numbers beside ours."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.cli import talk
from cfusion.errors import InputError

if TYPE_CHECKING:
    from cfusion.cli.progress import ProgressCallback
    from cfusion.experiments import Level, Spec, Store
    from cfusion.experiments.publish import Findings
    from cfusion.report.paper_page import Chapter

NAME, SUMMARY = "reproduce", "run the paper's experiments and compare with the published numbers"
PUBLISHING = "tables and figures"
EXPERIMENTS = ("objects", "urban", "scale-space", "noise", "surfaces", "convergence", "kitti")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment, its extent, and the output."""
    add = parser.add_argument
    add("experiment", choices=(*EXPERIMENTS, "all"), help="a table or figure of the paper, or all of them")
    much = parser.add_mutually_exclusive_group()
    much.add_argument("--quick", action="store_true", help="one scene, reduced, about a minute")
    much.add_argument("--full", action="store_true", help="the sweeps as well (default: tables and figures)")
    add("-o", "--output", type=Path, default=Path("reproduce-out"), metavar="OUT", help="default: reproduce-out")
    add("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    add("--cache", type=Path, metavar="FOLDER", help="stored results, which a run continues (default: OUT/cache)")
    add("--disparity", type=Path, metavar="FOLDER", help="disparity maps for kitti, 000027_10.png and so on")
    add("--backend", default="auto", help="auto, cuda, cpu or numpy (default: auto)")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--run-only", action="store_true", help="store results, but make no tables and figures")
    part.add_argument("--report-only", action="store_true", help="run nothing, make tables and figures from OUT")
    part.add_argument(
        "--so-far", action="store_true", help="run nothing, make tables and figures from --cache, complete or not"
    )
    talk.add_arguments(
        parser,
        quiet="no progress, no tables",
        verbose="also where the results of every run are stored",
        json="print the checks, and the folders of the results, as JSON",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run or read, summarise, print, write."""
    from cfusion.cli.forecast import Part
    from cfusion.cli.progress import Step, showing
    from cfusion.experiments import Level, Store, load
    from cfusion.experiments.publish import publish
    from cfusion.io.atomic import require_writable
    from cfusion.report.figures import require_pictures

    if arguments.jobs is not None and arguments.jobs < 1:
        raise InputError(f"--jobs is {arguments.jobs}; give at least 1")
    require_writable(arguments.output)
    if not arguments.run_only:
        require_pictures()
    level = Level.quick if arguments.quick else Level.full if arguments.full else Level.tables
    store = Store(arguments.cache or arguments.output / "cache")
    names = EXPERIMENTS if arguments.experiment == "all" else (arguments.experiment,)
    chapters: list[tuple[Findings, Chapter]] = []
    with showing("reproduce", quiet=arguments.quiet) as progress:
        progress.plan([*(Part(f"{name},", 1.0) for name in names), Part(PUBLISHING, 0.1 * len(names))])
        for name in names:
            findings = _findings(arguments, load(name), level, store, progress)
            if not arguments.run_only:
                chapters.append((findings, findings.chapter(store)))
        if not arguments.run_only:
            progress(Step(PUBLISHING, 0.0))
            publish(chapters, arguments.output, f"cfusion {' '.join(sys.argv[1:])}")
    if arguments.json:
        _print_json(arguments, store, chapters)
    elif arguments.run_only and not arguments.quiet:
        print(f"results are in {store.folder}; pass --so-far to make tables and figures of them")
    elif not arguments.quiet:
        for _, chapter in chapters:
            _print_chapter(chapter)
        if arguments.verbose:
            print(f"\nresults are in {store.folder}")
        print(f"\nopen {arguments.output / 'index.html'}")
    return 0


def _print_json(arguments: argparse.Namespace, store: "Store", chapters: "list[tuple[Findings, Chapter]]") -> None:
    """Print the locations and the checks against the paper as one JSON object."""
    summary: dict[str, object] = {"results": str(store.folder)}
    if not arguments.run_only:
        summary["page"] = str(arguments.output / "index.html")
        summary["checks"] = {
            chapter.title: [verdict.sentence() for exhibit in chapter.exhibits for verdict in exhibit.verdicts]
            for _, chapter in chapters
        }
    talk.print_json(summary)


def _findings(
    arguments: argparse.Namespace, spec: "Spec", level: "Level", store: "Store", progress: "ProgressCallback"
) -> "Findings":
    from cfusion import kernels
    from cfusion.experiments import plan, run, so_far
    from cfusion.experiments.publish import Findings

    if arguments.report_only:
        return Findings.read(spec, arguments.output / spec.name)
    spec = _with_disparity(spec, arguments.disparity)
    if arguments.so_far:  # under the name of a backend that need not be installed here
        name = arguments.backend if arguments.backend in kernels.BACKENDS else kernels.load(arguments.backend).NAME
        chosen = plan(spec, level, name)
        lines, note = so_far(chosen, store)
        if not lines:
            raise InputError(f"{store.folder} has no results of {spec.name} by backend {name!r} and this code; run it")
        return Findings(spec, level, lines, (*chosen.notes, *([note] if note else [])))
    chosen = plan(spec, level, kernels.load(arguments.backend).NAME)
    lines = run(chosen, store, workers=arguments.jobs, report=progress)
    return Findings(spec, level, lines, chosen.notes)


def _with_disparity(spec: "Spec", folder: Path | None) -> "Spec":
    """The same experiment with another folder of disparity maps."""
    from dataclasses import replace

    from cfusion.experiments.conditions import KittiBundle

    if folder is None:
        return spec
    place = str(folder.resolve())
    data = {
        name: tuple(replace(each, matching=place) if isinstance(each, KittiBundle) else each for each in conditions)
        for name, conditions in spec.data.items()
    }
    return replace(spec, data=data)


def _print_chapter(chapter: "Chapter") -> None:
    """Print tables and checks to the terminal."""
    print(f"\n{chapter.title}")
    for note in chapter.notes:
        print(f"  {note}")
    for exhibit in chapter.exhibits:
        text = exhibit.text()
        if text:
            print(f"\n{exhibit.caption}\n{text}")
        for verdict in exhibit.verdicts:
            print(f"  {verdict.sentence()}")
