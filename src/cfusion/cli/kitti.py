"""The part of `cfusion fuse` that starts from raw stereo images: one KITTI bundle, and its submission."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfusion.cli.progress import Listener
    from cfusion.datasets.dataset import Dataset
    from cfusion.result import Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which bundle, how to match it, where its poses come from."""
    group = parser.add_argument_group("raw stereo images (KITTI)")
    add = group.add_argument
    add("--bundle", type=int, metavar="N", dest="stereo_bundle", help="match and fuse this bundle of a KITTI folder")
    add("--matcher", default="sgm", help="sgm, elas, or a folder of disparity maps (default: sgm)")
    add(
        "--localisation",
        default="auto",
        help="viso or gm (files beside the data), own or direct (our odometry); default: the first there is",
    )


def bundle_views(arguments: argparse.Namespace, progress: "Listener") -> "Dataset":
    """Match and localise the bundle asked for."""
    from cfusion.cli.progress import Step
    from cfusion.frontends.kitti import kitti_bundle_views

    return kitti_bundle_views(
        _split(arguments.bundle),
        arguments.stereo_bundle,
        arguments.matcher,
        arguments.localisation,
        told=lambda stage, done: progress(Step(stage, done)),
    )


def write_submission(arguments: argparse.Namespace, result: "Result") -> Path:
    """Disparity of the fused depth without holes, as the benchmark takes it; the file's name."""
    from cfusion.datasets.kitti_bundle import REFERENCE_FRAME
    from cfusion.datasets.readers.kitti import open_bundle, write_disparity
    from cfusion.geometry.disparity import disparity_from_depth
    from cfusion.io.atomic import filling
    from cfusion.metrics import LARGEST_DISPARITY, fill_background

    bundle = open_bundle(_split(arguments.bundle), arguments.stereo_bundle)
    disparity = disparity_from_depth(result.depth, bundle.calibration.focal_baseline)
    disparity[~(disparity < LARGEST_DISPARITY)] = float("nan")
    name = f"{bundle.name(REFERENCE_FRAME)}.png"
    folder: Path = arguments.output
    with filling(folder) as draft:
        write_disparity(draft / name, fill_background(disparity))
    return folder / name


def scores_sentence(arguments: argparse.Namespace, result: "Result") -> str | None:
    """How the fused depth compares with the ground truth, where there is one."""
    from cfusion.datasets.readers.kitti import open_bundle
    from cfusion.geometry.disparity import depth_from_disparity
    from cfusion.metrics import evaluate

    bundle = open_bundle(_split(arguments.bundle), arguments.stereo_bundle)
    if not bundle.has_truth():
        return None
    calibration = bundle.calibration
    visible, every = (
        evaluate(
            result.depth,
            depth_from_disparity(bundle.truth(occluded=occluded), calibration.focal_baseline),
            result.camera,
            calibration.baseline,
        )
        for occluded in (False, True)
    )
    return (
        f"against the ground truth, holes filled by KITTI's rule: out-3 {visible.out(3):.2f} % where both cameras see, "
        f"{every.out(3):.2f} % in all; D-avg {visible.d_avg:.2f} pixels; density {visible.density:.1f} %"
    )


def _split(folder: Path) -> Path:
    return folder / "training" if (folder / "training").is_dir() else folder
