"""Score a depth map, or a result folder, against the true depth."""

import argparse
from pathlib import Path

from cfusion.cli import settings

NAME, SUMMARY = "evaluate", "score a result or a depth map against the truth"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """RESULT TRUTH, and what the files do not say."""
    add = parser.add_argument
    add("result", type=Path, metavar="RESULT", help="result folder, or depth as .npy, .pfm or .png")
    add("truth", type=Path, metavar="TRUTH", help="true depth, likewise")
    add("--camera", type=settings.numbers, metavar="FX,FY,CX,CY", help="in pixels (default: the result's)")
    add("--baseline", type=float, help="of a stereo pair, in the unit of depth, for out-3 and D-avg")
    add("--scale", type=float, help="units of depth per count, where RESULT is a png")
    add("--truth-scale", type=float, help="units of depth per count, where TRUTH is a png")
    add("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Read both, compare, print."""
    import json

    from cfusion.datasets.read_result import read_depth
    from cfusion.errors import InputError
    from cfusion.geometry import Pinhole
    from cfusion.io.to_json import to_json
    from cfusion.metrics import evaluate
    from cfusion.report.scores import score_row
    from cfusion.report.tables import Table

    depth, camera = read_depth(arguments.result, arguments.scale)
    truth, _ = read_depth(arguments.truth, arguments.truth_scale)
    if arguments.camera is not None:
        if len(arguments.camera) != 4:
            raise InputError(f"--camera takes fx,fy,cx,cy; {len(arguments.camera)} numbers were given")
        fx, fy, cx, cy = arguments.camera
        camera = Pinhole(fx, fy, cx, cy, width=depth.shape[1], height=depth.shape[0])
    row = score_row(arguments.result.stem, evaluate(depth, truth, camera, arguments.baseline))
    print(json.dumps(to_json(row)) if arguments.json else Table([row]).text())
    return 0
