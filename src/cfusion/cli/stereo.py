"""Match a stereo pair: depth, its confidence and sigma, points; without focal length and baseline only disparity."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.cli import output, report, talk
from cfusion.errors import InputError

if TYPE_CHECKING:
    from cfusion.cli.progress import ProgressCallback
    from cfusion.frontends.calibration import Calibration, RawRig
    from cfusion.frontends.rig import Rig, StereoFrame
    from cfusion.frontends.stereo import Matching

NAME, SUMMARY = "stereo", "match a stereo pair into depth, confidence and points"
FORMATS = ("npy", "png", "pfm", "ply")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """LEFT RIGHT -o OUT, the rig, and the matcher."""
    add = parser.add_argument
    add("left", type=Path, metavar="LEFT", help="left image, .png or .jpg")
    add("right", type=Path, metavar="RIGHT", help="right image, .png or .jpg")
    add("-o", "--output", type=Path, required=True, metavar="OUT", help="folder for the maps")
    add("--matcher", default="sgm", help="sgm (OpenCV, 8 paths), elas or mc-cnn (default: sgm)")
    add("--disparities", type=int, default=128, metavar="N", help="search 0 to N - 1 pixels (default: 128)")
    add("--backend", default="auto", help="auto or cpu; mc-cnn: also cuda (default: auto, a GPU where there is one)")
    rig = parser.add_argument_group("the rig (without it, disparity only)")
    rig.add_argument("--calib", type=Path, metavar="FILE", help="OpenCV's YAML, KITTI's or Middlebury's calib.txt")
    rig.add_argument("--focal", type=float, metavar="PIXELS", help="focal length of rectified images")
    rig.add_argument("--baseline", type=float, metavar="LENGTH", help="between the cameras; its unit is that of depth")
    rig.add_argument("--cx", type=float, metavar="PIXELS", help="principal point (default: the middle)")
    rig.add_argument("--cy", type=float, metavar="PIXELS")
    offset = "cx of the right camera minus cx of the left one (default: 0)"
    rig.add_argument("--doffs", type=float, default=0.0, metavar="PIXELS", help=offset)
    add("--farthest", type=float, metavar="DEPTH", help="drop depths beyond this one (default: none)")
    add("--unchecked", action="store_true", help="also match pairs that look swapped, unrectified or unrelated")
    add("--write", default="npy,png,ply", metavar="FORMATS", help="npy, png, pfm, ply (default: npy,png,ply)")
    add("--force", action="store_true", help="overwrite another command's files in OUT")
    report.add_no_report(parser)
    talk.add_arguments(parser, verbose="also the disparities, their confidence and sigma")


def run(arguments: argparse.Namespace) -> int:
    """Check the output and the pair first, then match and write."""
    import numpy as np

    from cfusion.cli import parts, settings
    from cfusion.cli.progress import Step, showing
    from cfusion.frontends.calibration import size_warning
    from cfusion.frontends.pair_check import find_points, range_warning, require_pair
    from cfusion.frontends.pairs import read_pair
    from cfusion.frontends.stereo import grey_bytes, match, require_matcher
    from cfusion.io.atomic import require_writable

    formats = settings.names(arguments.write)
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"disparities cannot be written as {name!r}; choose from {', '.join(FORMATS)}")
    require_writable(arguments.output)
    output.require_same_input(arguments.output, _source(arguments), force=arguments.force)
    require_matcher(arguments.matcher, arguments.backend)
    calibration = _calibration(arguments)
    if calibration is not None and not arguments.force:
        output.require_no_others(arguments.output, unless="disparity.*")  # which an earlier run without a rig wrote
    with showing("stereo", quiet=arguments.quiet) as progress:
        progress.plan(parts.of_stereo(arguments.matcher, page=not arguments.no_report))
        progress(Step("reading the pair", 0.0))
        frame, rig = read_pair(arguments.left, arguments.right, calibration)
        looks = grey_bytes(frame.left), grey_bytes(frame.right)
        progress(Step("looking whether it is a pair", 0.0))
        points = (find_points if arguments.unchecked else require_pair)(*looks)
        progress(Step(f"matching by {arguments.matcher}", 0.0))
        found = match(frame.left, frame.right, arguments.matcher, arguments.disparities, backend=arguments.backend)
        if not np.isfinite(found.disparity).any():
            raise InputError("no pixel was matched; try another --matcher, or more --disparities")
        cautions = (
            None if rig is None else size_warning(rig),
            range_warning(points, found.disparity, arguments.disparities),
        )
        progress(Step(parts.WRITING, 0.0))
        _write(arguments, formats, frame, rig, found, progress)
    for caution in cautions:
        if caution is not None:
            print(f"cfusion: {caution}", file=sys.stderr)
    _say(arguments, found, rig is not None)
    return 0


def _say(arguments: argparse.Namespace, found: "Matching", with_depth: bool) -> None:
    """Print the summary in the requested form."""
    import numpy as np

    known = np.isfinite(found.disparity)
    rows, columns = known.shape
    page = arguments.output / report.PAGE if with_depth and not arguments.no_report else None
    disparities = found.disparity[known]
    if arguments.json:
        summary = {"matcher": arguments.matcher, "width": columns, "height": rows, "matched": float(known.mean())}
        summary |= {"nearest": float(disparities.max()), "farthest": float(disparities.min())}  # pixels of disparity
        talk.print_json(summary | {"output": str(arguments.output), "report": None if page is None else str(page)})
        return
    if arguments.quiet:
        return
    print(f"{100 * known.mean():.1f} % of {columns} x {rows} pixels matched")
    if arguments.verbose:
        low, middle, high = np.quantile(disparities, (0.0, 0.5, 1.0))
        print(f"disparities from {low:.1f} to {high:.1f} pixels, half of them below {middle:.1f}")
        print(
            f"confidence {np.nanmedian(found.confidence[known]):.2f}, sigma {np.nanmedian(found.sigma[known]):.2f} "
            "pixels (medians)"
        )
    print(f"written to {arguments.output}")
    if page is not None:
        print(f"open {page}")


def _source(arguments: argparse.Namespace) -> str:
    return f"{arguments.left} {arguments.right}"


def _calibration(arguments: argparse.Namespace) -> "Calibration | RawRig | None":
    from cfusion.frontends.calibration import Calibration, read_rig

    numbers = arguments.focal, arguments.baseline
    more = {"--cx": arguments.cx is not None, "--cy": arguments.cy is not None, "--doffs": arguments.doffs != 0}
    centre = ", ".join(name for name, given in more.items() if given)
    if arguments.farthest is not None and not arguments.farthest > 0:
        raise InputError(f"--farthest is {arguments.farthest}; give a positive depth")
    if arguments.calib is not None:
        if numbers != (None, None):
            raise InputError("the rig is given twice; give --calib, or --focal and --baseline")
        if centre:
            raise InputError(f"{arguments.calib} states the principal points; leave {centre} out")
        return read_rig(arguments.calib)
    if numbers == (None, None):
        alone = centre or ("--farthest" if arguments.farthest is not None else "")
        if alone:
            raise InputError(f"{alone} needs a rig; give --calib, or --focal and --baseline")
        return None
    if None in numbers:
        raise InputError("depth needs both --focal (pixels) and --baseline (any unit of length)")
    return Calibration(
        arguments.focal, arguments.focal, arguments.cx, arguments.cy, arguments.baseline, arguments.doffs
    )


def _write(
    arguments: argparse.Namespace,
    formats: tuple[str, ...],
    frame: "StereoFrame",
    rig: "Rig | None",
    found: "Matching",
    progress: "ProgressCallback",
) -> None:
    """Write disparity and confidence; with a rig also depth, sigma, points and result.json, as `cfusion fuse` does."""
    from dataclasses import replace

    import numpy as np

    from cfusion.cli import parts
    from cfusion.cli.progress import Step
    from cfusion.cli.stereo_files import write_disparities
    from cfusion.datasets import write_result
    from cfusion.frontends.calibration import unit_of
    from cfusion.frontends.depth import depth_of
    from cfusion.fuse import fuse
    from cfusion.geometry import Pose, View

    if rig is None:
        write_disparities(arguments.output, found, formats, alone=True)
        return
    farthest = np.inf if arguments.farthest is None else arguments.farthest
    depth, confidence, sigma, _ = depth_of(found, rig, farthest)
    if not np.isfinite(depth).any():
        beyond = "" if arguments.farthest is None else f", or all of it beyond --farthest {arguments.farthest:g}"
        raise InputError(f"no matched pixel has a depth: d + doffs is zero or negative{beyond}; check the rig")
    view = View(depth, rig.camera, Pose.identity(), image=frame.left, confidence=confidence, name=arguments.left.stem)
    result = replace(fuse((view,), "input"), method=arguments.matcher, sigma=sigma, confidence=confidence)
    source, unit = _source(arguments), "unit of baseline" if arguments.calib is None else unit_of(arguments.calib)
    write_result(result, arguments.output, formats, source=source, unit=unit, overwrite=True)
    write_disparities(arguments.output, found, formats, alone=False)
    if not arguments.no_report:
        progress(Step(parts.PAGE, 0.0))
        report.write_report(arguments.output, result, (), unit=unit, source=source, title=arguments.left.stem)
