"""Say which convention a data set fits: as stated, or one of the usual confusions, with the evidence."""

import argparse
from pathlib import Path

from cfusion.cli import mending

NAME, SUMMARY = "check", "which convention a data set fits (poses, axes, scale, ...)"
ANOTHER_FITS = 1  # exit code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DATA and how to read it."""
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="folder or file of a data set; see `cfusion formats`")
    add("--format", help="format of the input (default: recognised)")
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the format; repeatable")
    mending.add_arguments(parser)
    add("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Read, check, print; exit code 1 where another convention fits better."""
    import json

    from cfusion.cli import settings
    from cfusion.cli.text import shown
    from cfusion.datasets import read
    from cfusion.datasets.check import Mending, check
    from cfusion.io.to_json import to_json
    from cfusion.report.columns import Column
    from cfusion.report.tables import Table

    options = settings.parameters(arguments.option, "--option")
    views = read(arguments.data, format=arguments.format, options=options)
    views = mending.mended(arguments, views)
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
        print(json.dumps(to_json({"read": views.sentence, "rows": rows, "best": best, "sentence": found.sentence})))
    else:
        print(shown(views.sentence))
        print(Table(rows, columns).text())
        print("residual: median relative difference of depth; overlap: samples that hit a known depth; votes: for this")
        print("and not as stated, of those samples (last column) that can tell")
        if found.scales is not None:
            factors = zip(found.scales.views, found.scales.factors, strict=True)
            print("factor of each view: " + ", ".join(f"{number}: {factor:.4f}" for number, factor in factors))
        print(found.sentence)
        mend = None if found.fits_as_stated else Mending.of(found.best.hypothesis)
        if mend is not None:
            print(f"To read it so: {mend.options}")
    return 0 if found.fits_as_stated else ANOTHER_FITS
