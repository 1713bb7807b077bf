"""Test which convention a data set fits, the stated one or a common mistake, and print the evidence."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.cli import correction, settings, talk

if TYPE_CHECKING:
    from cfusion.datasets.check import Scales

NAME, SUMMARY = "check", "test which conventions a data set fits (poses, axes, scale, ...)"
ANOTHER_FITS = 1  # exit code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DATA and options for reading it."""
    parser.add_argument("data", type=Path, metavar="DATA", help="folder or file of a data set; see `cfusion formats`")
    settings.add_reading(parser)
    correction.add_arguments(parser)
    talk.add_arguments(
        parser,
        quiet="the sentence at the end only",
        verbose="also the views and conventions compared, and the table where views are too close",
        json="print JSON instead of a table",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read, check, print; exit code 1 if another convention fits better, or scales are far apart."""
    from cfusion.cli.progress import Step, showing
    from cfusion.cli.talk import shown
    from cfusion.datasets import read
    from cfusion.datasets.check import Correction, check
    from cfusion.report.columns import Column
    from cfusion.report.tables import Table

    options = settings.parameters(arguments.option, "--option")
    with showing("check", quiet=arguments.quiet) as progress:
        progress(Step("reading", 0.0))
        views = read(arguments.data, format=arguments.format, options=options)
        views = correction.corrected(arguments, views)
        progress(Step(f"comparing {len(views)} views under every convention", 0.0))
        found = check(views)
    columns = (
        Column("name", "hypothesis"),
        Column("residual", "residual [%]", ".3g", "lowest"),
        Column("overlap", "overlap [%]", ".1f"),
        Column("votes", "votes [%]", ".1f"),
        Column("telling", "of [%]", ".1f"),
    )
    rows: list[dict[str, float | int | str | None]] = [
        {
            "name": fit.hypothesis.name,
            "residual": 100 * fit.residual,
            "overlap": 100 * fit.overlap,
            "votes": None if fit is found.stated else 100 * fit.votes,
            "telling": None if fit is found.stated else 100 * fit.telling,
        }
        for fit in found.fits
    ]
    if arguments.json:
        best = found.best.hypothesis.name
        talk.print_json({"read": views.sentence, "rows": rows, "best": best, "sentence": found.sentence})
    elif arguments.quiet:
        print(found.sentence)
    else:
        print(shown(views.sentence))
        if arguments.verbose:
            sizes = sorted({f"{view.shape[1]} x {view.shape[0]}" for view in views})
            print(f"{len(views)} views of {', '.join(sizes)} pixels; {len(found.fits)} conventions compared")
        if found.too_close:
            print(found.sentence)
        if arguments.verbose or not found.too_close:
            print(Table(rows, columns).text())
            print("residual: median relative difference of depth; overlap: samples that hit a known depth; votes: of")
            print("the samples that tell the two apart (last column, of all), those that fit better than as stated")
        if found.scales is not None:
            print(_of_each_view(found.scales))
        if not found.too_close:
            print(found.sentence)
        fix = None if found.fits_as_stated else Correction.of(found.best.hypothesis)
        if fix is not None:
            print(f"To read it this way, {correction.advice(correction.chosen(arguments), fix)}")
    sound = found.fits_as_stated and found.misplaced is None and not found.is_sure
    return 0 if sound else ANOTHER_FITS


def _of_each_view(scales: "Scales") -> str:
    """The factor of each view, or a and b of the formula that the sentence states."""
    if scales.shifts:
        maps = zip(scales.views, scales.factors, scales.shifts, strict=True)
        return "a and b of each view: " + ", ".join(f"{number}: {a:.4g} and {b:.4g}" for number, a, b in maps)
    factors = zip(scales.views, scales.factors, strict=True)
    return "factor of each view: " + ", ".join(f"{number}: {factor:.4f}" for number, factor in factors)
