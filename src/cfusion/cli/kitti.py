"""The part of `cfusion fuse` for raw stereo images: one KITTI bundle and its submission."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.errors import InputError

if TYPE_CHECKING:
    from cfusion.arrays import DepthMap
    from cfusion.cli.progress import ProgressCallback
    from cfusion.datasets.dataset import Dataset
    from cfusion.datasets.kitti_bundle import Bundle
    from cfusion.frontends.consistency import Disparity
    from cfusion.frontends.kitti_reader import Options
    from cfusion.result import Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Short forms of the options of KITTI's data set."""
    group = parser.add_argument_group("KITTI's raw stereo images; short for --option NAME=VALUE")
    add = group.add_argument
    add("--bundle", type=int, metavar="N", dest="stereo_bundle", help="match and fuse this bundle of a KITTI folder")
    add("--matcher", help="sgm, elas, mc-cnn, or a folder of disparity maps (default: sgm)")
    add(
        "--localisation",
        help="viso or gm: the paper's, bundle_loc_NAME_*.mat beside the data; own or direct: our odometry by points or "
        "by grey values; default: viso, gm or own, the first that is available",
    )


def options_of(arguments: argparse.Namespace, options: Mapping[str, object]) -> dict[str, object]:
    """The options of the data set, including those in short form."""
    given = {"bundle": arguments.stereo_bundle, "matcher": arguments.matcher, "localisation": arguments.localisation}
    short = {name: value for name, value in given.items() if value is not None}
    twice = sorted(set(short) & set(options))
    if twice:
        raise InputError(f"{twice[0]} is given twice; pass --{twice[0]} or --option {twice[0]}=..., not both")
    return {**options, **short}


def raw_bundle(arguments: argparse.Namespace, options: Mapping[str, object]) -> "Options | None":
    """KITTI's options if its raw images are to be matched; None for other data."""
    from cfusion.datasets.options import chosen
    from cfusion.datasets.read import known, recognised
    from cfusion.frontends.kitti_reader import Options

    name = "kitti" if arguments.stereo_bundle is not None else known(arguments.format or recognised(arguments.bundle))
    if name != "kitti":
        return None
    picked = chosen(Options, options, "kitti")
    assert isinstance(picked, Options)
    return None if picked.disparity is not None else picked


def bundle_views(arguments: argparse.Namespace, options: "Options", progress: "ProgressCallback") -> "Dataset":
    """Match and localise the chosen bundle."""
    from cfusion.cli.progress import Step
    from cfusion.frontends.kitti_reader import read

    return read(arguments.bundle, options, progress=lambda stage, done: progress(Step(stage, done)))


def opened(arguments: argparse.Namespace, options: "Options") -> "Bundle":
    """The chosen bundle."""
    from cfusion.datasets.kitti_bundle import open_bundle
    from cfusion.datasets.readers.kitti import number_of, training_or_testing

    folder = training_or_testing(arguments.bundle)
    return open_bundle(folder, number_of(folder, options.bundle))


def parameters_of(method: str, given: Mapping[str, object]) -> dict[str, object]:
    """Parameters for a benchmark that scores every pixel: plausible depths are kept, unless given otherwise."""
    from cfusion import methods
    from cfusion.frontends.kitti import ITERATIONS

    return methods.keeping_plausible(method, given, iterations=ITERATIONS)


def write_submission(bundle: "Bundle", folder: Path, result: "Result") -> Path:
    """Write the disparity of the fused depth without holes, in the benchmark's format; return the file's name."""
    from cfusion.datasets.kitti_bundle import REFERENCE_FRAME, write_disparity
    from cfusion.io.atomic import filling

    name = f"{bundle.name(REFERENCE_FRAME)}.png"
    with filling(folder) as draft:
        write_disparity(draft / name, _submitted(bundle, result))
    return folder / name


def scores_sentence(bundle: "Bundle", result: "Result") -> str | None:
    """Scores of the submission against the ground truth; None without one."""
    if not bundle.has_truth():
        return None
    from cfusion.geometry.disparity import depth_from_disparity
    from cfusion.metrics import Scores, evaluate

    calibration = bundle.calibration
    submitted = depth_from_disparity(_submitted(bundle, result), calibration.focal_baseline)

    def scores(depth: "DepthMap", *, occluded: bool) -> Scores:
        truth = depth_from_disparity(bundle.truth(occluded=occluded), calibration.focal_baseline)
        return evaluate(depth, truth, result.camera, calibration.baseline)

    visible, every = (scores(submitted, occluded=occluded) for occluded in (False, True))
    by_rule = scores(result.depth, occluded=False)
    return (
        f"the submission against the ground truth: out-3 {visible.out(3):.2f} % where both cameras see, "
        f"{every.out(3):.2f} % in all; D-avg {visible.d_avg:.2f} pixels; {by_rule.density:.1f} % are known, the rest "
        f"is filled (by KITTI's rule alone: out-3 {by_rule.out(3):.2f} %)"
    )


def _submitted(bundle: "Bundle", result: "Result") -> "Disparity":
    """Disparity (H, W) of the fused depth with holes filled."""
    from cfusion.datasets.kitti_bundle import REFERENCE_FRAME
    from cfusion.frontends.filling import filled
    from cfusion.geometry.disparity import disparity_from_depth
    from cfusion.metrics import LARGEST_DISPARITY

    disparity = disparity_from_depth(result.depth, bundle.calibration.focal_baseline)
    disparity[~(disparity < LARGEST_DISPARITY)] = float("nan")
    return filled(disparity, bundle.left(REFERENCE_FRAME))
