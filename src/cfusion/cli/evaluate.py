"""Score a depth map, or a result folder, against the true depth."""

import argparse
from pathlib import Path

from cfusion.cli import settings, talk

NAME, SUMMARY = "evaluate", "score a result or a depth map against the truth"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """RESULT TRUTH, and values that the files do not state."""
    add = parser.add_argument
    add("result", type=Path, metavar="RESULT", help="result folder, or depth as .npy, .pfm or .png")
    add("truth", type=Path, metavar="TRUTH", help="result folder or depth file with the true depth")
    add("--camera", type=settings.numbers, metavar="FX,FY,CX,CY", help="in pixels (default: the camera of the result)")
    add("--baseline", type=float, help="baseline of a stereo pair, in the unit of depth, for out-3 and D-avg")
    add("--scale", type=float, help="units of depth per count, where RESULT is a png")
    add("--truth-scale", type=float, help="units of depth per count, where TRUTH is a png")
    talk.add_arguments(
        parser,
        quiet="the numbers only",
        verbose="also the meaning of each number",
        json="print JSON instead of a table",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read both, compare, print."""
    from cfusion.datasets.read_result import read_depth
    from cfusion.errors import InputError
    from cfusion.geometry import Pinhole
    from cfusion.metrics import evaluate
    from cfusion.report.tables import Table, score_row

    depth, camera = read_depth(arguments.result, arguments.scale)
    truth, _ = read_depth(arguments.truth, arguments.truth_scale)
    if arguments.camera is not None:
        if len(arguments.camera) != 4:
            raise InputError(f"--camera needs fx,fy,cx,cy; {len(arguments.camera)} numbers were given")
        fx, fy, cx, cy = arguments.camera
        camera = Pinhole(fx, fy, cx, cy, width=depth.shape[1], height=depth.shape[0])
    row = score_row(arguments.result.stem, evaluate(depth, truth, camera, arguments.baseline))
    if arguments.json:
        talk.print_json(row)
        return 0
    table = Table([row])
    lines = table.text().splitlines()
    print("\n".join(lines[-1:] if arguments.quiet else lines))
    if arguments.verbose:
        for column in table.shown():
            if column.meaning:
                print(f"{column.title}: {column.meaning}")
    return 0
