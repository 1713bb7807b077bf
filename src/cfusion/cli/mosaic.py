"""Fuse height models (GeoTIFF) of any number, grid and size: height, sigma, count, NMAD, provenance, source."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfusion.cli import correction, output, talk
from cfusion.cli.report import add_no_report
from cfusion.errors import CFusionError, InputError

if TYPE_CHECKING:
    from cfusion.rasters.mosaic import Mosaic

NAME, SUMMARY = "mosaic", "fuse height models (GeoTIFF) into one GeoTIFF"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A.tif B.tif ... -o OUT.tif and options."""
    add = parser.add_argument
    add("rasters", type=Path, nargs="+", metavar="RASTER", help="GeoTIFF files, folders of them, or a mosaic.json")
    add("-o", "--output", type=Path, required=True, metavar="OUT.tif", help="the height; other maps lie beside it")
    weights, sigma = "larger is better, only ratios count", "weights are 1 / sigma^2, only ratios count"
    add("--weights", type=Path, nargs="+", default=[], metavar="W.tif", help=f"one for each raster; {weights}")
    add("--sigma", type=Path, nargs="+", default=[], metavar="S.tif", help=f"one for each raster; {sigma}")
    add("--like", type=Path, metavar="FILE", help="take grid and extent of this raster (default: lattice of the first)")
    add("--resolution", type=float, metavar="LENGTH", help="side of a pixel, in the unit of the CRS; north up")
    bounds = "cut to this rectangle, in the unit of the CRS (default: all rasters)"
    add("--bounds", type=float, nargs=4, metavar=("LEFT", "BOTTOM", "RIGHT", "TOP"), help=bounds)
    add("--resampling", default="bilinear", help="bilinear, cubic or nearest (default: bilinear)")
    add("--band", type=int, default=1, help="number of the band that holds the heights (default: 1)")
    unknown = "values that mean unknown, besides the nodata value that a file states"
    add("--nodata", type=float, nargs="+", default=[], metavar="VALUE", help=unknown)
    add(
        "--coregister",
        nargs="?",
        const="shift",
        choices=("offset", "shift", "tilt"),
        help="remove vertical offsets (offset), also horizontal shifts (shift, the default), also tilts (tilt)",
    )
    add("--keep-offsets", action="store_true", help="fuse the rasters as they are, with the offsets between them")
    add("--alpha", type=float, nargs=2, metavar="ALPHA", help="weights of the regulariser instead of the chosen ones")
    add("--tolerance", type=float, default=1e-3, help="certified relative gap to stop at (default: 1e-3)")
    add("--iterations", type=int, default=3000, help="limit of the solve (default: 3000)")
    add("--tile", type=int, default=2048, metavar="PIXELS", help="side of the tile held in memory (default: 2048)")
    add("--workers", type=int, default=1, help="number of processes (default: 1)")
    add("--scheduler", metavar="ADDRESS", help="use the workers of a dask scheduler, e.g. tcp://host:8786")
    add("--backend", default="auto", help="auto, cpu or numpy (default: auto)")
    add("--scratch", type=Path, metavar="FOLDER", help="folder for work in progress (default: beside the output)")
    add("--overwrite", "--force", action="store_true", help="replace an output that exists")
    add_no_report(parser)
    talk.add_arguments(parser, verbose="also the choices, and the folder of work in progress")


def run(arguments: argparse.Namespace) -> int:
    """Check, fuse, write, print."""
    from cfusion.rasters.options import Options

    options = {each.name: getattr(arguments, each.name) for each in fields(Options)}
    page = not arguments.no_report
    return make(arguments.rasters, arguments.output, arguments, options=options, page=page)


def is_height_models(arguments: argparse.Namespace) -> bool:
    """Whether `cfusion fuse` was given height models, which are fused as heights on their grid."""
    from cfusion.datasets.read import recognised

    if arguments.stereo_bundle is not None or arguments.format not in (None, "geotiff"):
        return False
    return arguments.format == "geotiff" or recognised(arguments.bundle) == "geotiff"


@contextmanager
def told_by_fuse(arguments: argparse.Namespace) -> Iterator[None]:
    """Errors of `fuse_folder` say which command has the options that they name."""
    from cfusion.rasters.options import in_keywords

    try:
        yield
    except CFusionError as error:
        told = str(error).replace("--overwrite", "--force")  # its name in `fuse`
        where = f" (options of `cfusion mosaic {arguments.bundle} -o OUT.tif`)" if in_keywords(told) != told else ""
        raise type(error)(told + where) from error


def fuse_folder(arguments: argparse.Namespace) -> int:
    """`cfusion fuse FOLDER_OF_TIFS -o OUT`: write the mosaic as OUT/height.tif, or OUT if that is a .tif."""
    if arguments.method != "auto" or arguments.set or arguments.reference is not None or arguments.every is not None:
        raise InputError(
            "height models are fused by auto into one grid; leave --method, --set, --reference and --every out"
        )
    correction.require_none(arguments, "height models are fused as heights on their grid")
    if arguments.write != output.USUAL:
        raise InputError(f"height models are written as GeoTIFF; leave --write {arguments.write} out")
    options = {"backend": arguments.backend, "overwrite": arguments.force}
    for given in arguments.option:
        name, _, value = given.partition("=")
        if name != "band" or not value.isdigit():
            raise InputError(f"--option {given} is not an option of height models; only band=NUMBER is")
        options["band"] = int(value)
    place = arguments.output
    if place.suffix.lower() not in (".tif", ".tiff"):
        place.mkdir(parents=True, exist_ok=True)
        place = place / "height.tif"
    page = not arguments.no_report
    return make([arguments.bundle], place, arguments, options=options, page=page)


def make(
    rasters: list[Path], output: Path, how: argparse.Namespace, *, options: dict[str, Any], page: bool = True
) -> int:
    """Fuse rasters into a file and print a summary as `how` asks: quiet, verbose, json."""
    from cfusion.cli import parts
    from cfusion.cli.compiling import naming
    from cfusion.cli.progress import Step, showing
    from cfusion.cli.report_of_many import mosaic_page, write_mosaic_page
    from cfusion.rasters.mosaic import Step as MosaicStep
    from cfusion.rasters.mosaic import make_mosaic, require_free
    from cfusion.rasters.report import table

    require_free(output, overwrite=options.get("overwrite", False))
    try:
        with showing("mosaic", quiet=how.quiet) as progress:
            progress.plan(parts.of_mosaic(page=page))
            say = None if how.quiet or how.json else print

            def listen(step: MosaicStep) -> None:
                if step.ahead:
                    progress.plan(parts.of_mosaic(step.ahead, page=page))
                progress(step)

            with naming(["mosaic"], progress):
                made = make_mosaic(rasters, output, progress=listen, say=say, **options)
            if page:
                progress(Step(parts.PAGE, 0.0))
                page = write_mosaic_page(made, output) is not None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("finished tiles are kept; run the same command again to continue") from None
    if how.json:
        _print_json(made, mosaic_page(output) if page else None)
    if how.quiet or how.json:
        return 0
    print(table(made.rasters))
    print(
        f"{len(made.rasters)} rasters fused on {made.grid.width} x {made.grid.height} pixels in {made.seconds:.1f} s, "
        f"gap {made.gap:.1e} after {made.iterations} iterations"
    )
    print(made.status)
    if how.verbose:
        print("\n".join(made.sentences))
        print(", ".join(f"{name} = {value}" for name, value in made.parameters.items()))
    print(f"written: {', '.join(str(file) for file in made.files.values())}")
    if page:
        print(f"open {mosaic_page(output)}")
    return 0


def _print_json(made: "Mosaic", page: Path | None) -> None:
    """The summary as one JSON object."""
    summary = {name: getattr(made, name) for name in ("gap", "iterations", "seconds", "status", "parameters")}
    summary |= {"files": {kind: str(file) for kind, file in made.files.items()}, "rasters": len(made.rasters)}
    summary |= {"width": made.grid.width, "height": made.grid.height, "report": None if page is None else str(page)}
    talk.print_json(summary)
