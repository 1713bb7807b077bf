"""Options that correct a data set's stated convention, and the refusal of data that need them."""

import argparse
import sys
from typing import TYPE_CHECKING

from cfusion.cli.output import CORRECTIONS
from cfusion.cli.talk import shown
from cfusion.errors import InputError

if TYPE_CHECKING:
    from cfusion.datasets.check import Correction
    from cfusion.datasets.dataset import Dataset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One option per common mistake; `cfusion check` finds which applies."""
    add = parser.add_argument_group("conventions other than stated (see `cfusion check`)").add_argument
    add("--invert-poses", action="store_true", help="poses are world-to-camera")
    add(
        "--axes",
        metavar="AXES",
        help="of the cameras: opencv, opengl (look along -z, y up), ros (along x, z up), or those that point right, "
        "down and forward, e.g. --axes=-y,-z,x",
    )
    add("--depth-scale", type=float, metavar="FACTOR", help="multiply depths, e.g. 0.001")
    add("--ray-depth", action="store_true", help="depths are lengths of rays, not z")
    add("--shift-centre", type=float, metavar="PIXELS", help="add to cx and cy, e.g. -0.5")
    add("--align-scales", action="store_true", help="bring the depths of all views to one scale first")
    parser.set_defaults(**CORRECTIONS)


def require_none(arguments: argparse.Namespace, why: str) -> None:
    """Refuse these options, with a reason, where there is nothing that they could correct."""
    asked = [name for name, usual in CORRECTIONS.items() if getattr(arguments, name) != usual]
    if asked:
        named = (f"--{name.replace('_', '-')}" for name in asked)
        raise InputError(f"{why}; leave {', '.join(named)} out")


def chosen(arguments: argparse.Namespace) -> "Correction":
    """The correction that the options ask for, of every view alike."""
    from cfusion.datasets.check import Correction

    return Correction(
        arguments.invert_poses,
        arguments.axes or "opencv",
        arguments.depth_scale,
        arguments.ray_depth,
        arguments.shift_centre,
    )


def corrected(arguments: argparse.Namespace, views: "Dataset") -> "Dataset":
    """The views with the chosen corrections."""
    from dataclasses import replace

    from cfusion.datasets.check import align_scales

    found = chosen(arguments)(views)
    if arguments.align_scales:
        sentence = "; ".join(filter(None, (found.sentence, "scales aligned")))
        return replace(found, views=tuple(align_scales(tuple(found))), sentence=sentence)
    return found


def advice(asked: "Correction", found: "Correction | None") -> str:
    """What to do if data that were corrected as asked fit better with a further correction."""
    both = None if found is None else asked.then(found)
    if both is None:
        return "correct the data"
    if not asked.options:
        return f"pass {both.options}"
    return f"pass {both.options} instead of {asked.options}" if both.options else f"leave {asked.options} out"


def require_plausible(views: "Dataset", asked: "Correction", reference: int | None = None, *, force: bool) -> None:
    """Refuse data that certainly follow another convention than stated, or asked for; warn if it is likely.

    A wrong pose of the reference alone, if one is given, is warned of.
    """
    from cfusion.datasets.check import Correction, quick_check

    found = quick_check(views, reference)
    if found is None:
        return
    aligned = "pass --align-scales"
    how = aligned if found.scales is not None else advice(asked, Correction.of(found.best.hypothesis))
    if found.is_sure and not force:
        raise InputError(f"{found.sentence} To continue, {how}; or pass --force to fuse as stated.")
    if found.caution:
        then = "" if found.fits_as_stated else f" If so, {how}."
        print(f"cfusion: {shown(found.caution + then)}", file=sys.stderr)
