"""Options that read data by another convention than its format states, and the stop where they are needed."""

import argparse
import sys
from typing import TYPE_CHECKING

from cfusion.cli.text import shown
from cfusion.errors import InputError

if TYPE_CHECKING:
    from cfusion.datasets.dataset import Dataset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One option for each usual confusion; `cfusion check` says which."""
    add = parser.add_argument_group("conventions other than stated (see `cfusion check`)").add_argument
    add("--invert-poses", action="store_true", help="poses are world-to-camera")
    add("--axes", choices=("opencv", "opengl"), default="opencv", help="opengl: cameras look along -z, y up")
    add("--depth-scale", type=float, default=1.0, metavar="FACTOR", help="multiply depths, e.g. 0.001")
    add("--ray-depth", action="store_true", help="depths are lengths of rays, not z")
    add("--shift-centre", type=float, default=0.0, metavar="PIXELS", help="add to cx and cy, e.g. -0.5")
    add("--align-scales", action="store_true", help="bring the depths of all views to one scale first")


def mended(arguments: argparse.Namespace, views: "Dataset") -> "Dataset":
    """The views as the options say."""
    from dataclasses import replace

    from cfusion.datasets.check import Mending, align_scales

    mending = Mending(
        arguments.invert_poses,
        arguments.axes == "opengl",
        arguments.depth_scale,
        arguments.ray_depth,
        arguments.shift_centre,
    )
    found = mending(views)
    if arguments.align_scales:
        return replace(found, views=tuple(align_scales(tuple(found))), sentence=f"{found.sentence}; scales aligned")
    return found


def require_plausible(views: "Dataset", *, force: bool, has_options: bool = True) -> None:
    """Stop where the data surely are of another convention than stated; warn where that is likely.

    A command without the options that mend it names the one that has them.
    """
    from cfusion.datasets.check import Mending, quick_check, warning

    found = quick_check(views)
    if found is None:
        return
    if found.is_sure and not force:
        mending = Mending.of(found.best.hypothesis)
        how = "mend the data" if mending is None else f"say {mending.options}"
        if mending is not None and not has_options:
            how = f"mend the data (`cfusion fuse` reads them with {mending.options})"
        raise InputError(f"{found.sentence} To go on, {how}; or --force, to fuse as stated.")
    caution = warning(views)
    if caution:
        print(f"cfusion: {shown(caution)}", file=sys.stderr)
