"""KITTI bundles from raw stereo pairs: matchers, odometries, methods, where errors lie, and which frames make them.

python -m benchmarks.kitti [matchers | odometry | methods | regions | causes]; the data lie where CFUSION_DATA says.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.scenes import data_folder
from cfusion import Pose, Result, Scores, View, evaluate, fuse
from cfusion.arrays import DepthMap
from cfusion.datasets.kitti_bundle import Bundle, open_bundle
from cfusion.frontends.kitti import kitti_bundle_views
from cfusion.frontends.motion import halfway
from cfusion.geometry.disparity import depth_from_disparity, disparity_from_depth
from cfusion.methods import keeping_plausible
from cfusion.metrics import fill_background

BUNDLES = (27, 74)
DESIGN = 74  # the bundle that choices are made on
MATCHERS = ("sgm", "elas", "mc-cnn")
GIVEN, MEASURED = ("viso", "gm"), ("own", "direct")
METHODS = (
    "input",
    "mean",
    "median",
    "rof",
    "tgv-fusion",
    "l1",
    "l1-heuristic",
    "rof-adapt",
    "l1-adapt",
    "adapt-hprior",
    "adapt-hprior-g",
    "auto",
)
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Truth:
    """Ground truth of a bundle's frame 10: of the pixels both cameras see (noc), and of all (occ)."""

    bundle: Bundle

    def scores(self, depth: DepthMap, *, occluded: bool) -> Scores:
        calibration = self.bundle.calibration
        truth = depth_from_disparity(self.bundle.truth(occluded=occluded), calibration.focal_baseline)
        return evaluate(depth, truth, calibration.camera(depth.shape), calibration.baseline)

    def row(self, depth: DepthMap) -> str:
        """Density, out-3 of both, D-avg."""
        visible, every = (self.scores(depth, occluded=occluded) for occluded in (False, True))
        return f"{visible.density:6.1f} {visible.out(3):8.2f} {every.out(3):8.2f} {visible.d_avg:7.2f}"


HEAD = "density  out-3 noc  occ   D-avg"


def main() -> None:
    parts: dict[str, Callable[[], None]] = {
        "matchers": _matchers,
        "odometry": _odometry,
        "methods": _methods,
        "regions": _regions,
        "causes": _causes,
    }
    if not _training().is_dir():
        print("skipped, no kitti2012 in the data folder (CFUSION_DATA)")
        return
    for name in sys.argv[1:] or parts:
        print(f"\n== {name}", flush=True)
        parts[name]()


def _training() -> Path:
    return data_folder() / "kitti2012" / "training"


@lru_cache(None)
def _truth(number: int) -> Truth:
    return Truth(open_bundle(_training(), number))


@lru_cache(None)
def _matched(number: int, matcher: str) -> tuple[tuple[View, ...], int]:
    views = kitti_bundle_views(_training(), number, matcher, "viso")
    assert views.reference is not None
    return tuple(views), views.reference


@lru_cache(None)
def _poses(number: int, localisation: str) -> tuple[Pose, ...]:
    return tuple(view.pose for view in kitti_bundle_views(_training(), number, "sgm", localisation))


@lru_cache(None)
def _fused(number: int, matcher: str, localisation: str, method: str) -> Result:
    views, reference = _matched(number, matcher)
    poses = _poses(number, localisation)
    posed = [replace(view, pose=pose) for view, pose in zip(views, poses, strict=True)]
    return fuse(posed, method, reference=reference, **keeping_plausible(method, {}))


def _matchers() -> None:
    """The reference pair alone: what a matcher is worth, holes filled by KITTI's rule."""
    print(f"bundle matcher  {HEAD}")
    for number, matcher in itertools.product(BUNDLES, MATCHERS):
        views, reference = _matched(number, matcher)
        print(f"{number:6} {matcher:8} {_truth(number).row(views[reference].depth)}", flush=True)


def _odometry() -> None:
    """Errors against the median of the two given localisations: frame to frame (mean, worst), and first to last.

    The given ones differ as well; who is right can be seen in the images: the true depth, thrown into the other frames,
    meets the same grey values under the true motion.
    """
    print("bundle poses    translation %: mean worst whole   rotation deg/m: mean  worst  whole   grey values off")
    for number in BUNDLES:
        given = [_poses(number, name) for name in GIVEN]
        last = len(given[0]) - 1
        steps = [(k, k + 1) for k in range(last)]
        for name in (*GIVEN, *MEASURED):
            found = _poses(number, name)
            errors = np.array([_difference(found, given, *step) for step in (*steps, (0, last))])
            columns = (errors[:-1].mean(axis=0), errors[:-1].max(axis=0), errors[-1])
            shifts, turns = ([column[k] for column in columns] for k in (0, 1))
            print(
                f"{number:6} {name:8}" + " " * 15 + " ".join(f"{value:5.2f}" for value in shifts),
                " " * 17 + " ".join(f"{value:6.4f}" for value in turns),
                f"{_grey_error(number, found):9.3f}",
                flush=True,
            )


def _difference(found: Sequence[Pose], given: Sequence[Sequence[Pose]], one: int, other: int) -> tuple[float, float]:
    """Percent of the way and degrees per metre between a motion and the middle of the given ones."""
    motion = found[one].inverse() @ found[other]
    first, second = (poses[one].inverse() @ poses[other] for poses in given)
    middle = halfway(first, second)
    length = float(np.linalg.norm(middle.translation))
    skew = middle.rotation.T @ motion.rotation
    sine = np.linalg.norm([skew[2, 1] - skew[1, 2], skew[0, 2] - skew[2, 0], skew[1, 0] - skew[0, 1]]) / 2
    degrees = float(np.degrees(np.arctan2(sine, (np.trace(skew) - 1) / 2)))
    return 100 * float(np.linalg.norm(motion.translation - middle.translation)) / length, degrees / length


def _grey_error(number: int, poses: Sequence[Pose]) -> float:
    """Mean absolute difference of grey values (of 255) at the true pixels of frame 10, over the other frames."""
    import cv2

    views, index = _matched(number, "sgm")
    bundle = _truth(number).bundle
    depth = depth_from_disparity(bundle.truth(occluded=False), bundle.calibration.focal_baseline)
    camera = views[index].camera
    errors = []
    for k, view in enumerate(views):
        if k == index:
            continue
        u, v, _ = camera.project((poses[k].inverse() @ poses[index]).apply(camera.back_project(depth)))
        places = (np.nan_to_num(each, nan=-1e4).astype(np.float32) for each in (u, v))
        there = cv2.remap(np.asarray(view.image), *places, cv2.INTER_LINEAR, None, cv2.BORDER_CONSTANT, np.nan)
        errors.append(float(np.nanmean(np.abs(there - np.asarray(views[index].image)))))
    return 255 * float(np.mean(errors))


def _methods() -> None:
    print(f"bundle matcher  poses    method        {HEAD}  out-3 noc / reference's")
    cases = (
        ("sgm", "viso"),
        ("elas", "viso"),
        ("mc-cnn", "viso"),
        ("sgm", "own"),
        ("elas", "own"),
        ("sgm", "gm"),
        ("elas", "gm"),
        ("sgm", "direct"),
    )
    for (matcher, localisation), number in itertools.product(cases, BUNDLES):
        views, index = _matched(number, matcher)
        alone = _truth(number).scores(views[index].depth, occluded=False).out(3)
        for method in METHODS:
            depth = _fused(number, matcher, localisation, method).depth
            ratio = _truth(number).scores(depth, occluded=False).out(3) / alone
            row = _truth(number).row(depth)
            print(f"{number:6} {matcher:8} {localisation:8} {method:12} {row}   {ratio:5.2f}", flush=True)


def _regions() -> None:
    """Where the pixels that are off by more than 3 lie: a pixel belongs to the first region that holds it."""
    for number, matcher in itertools.product(BUNDLES, MATCHERS):
        views, index = _matched(number, matcher)
        print(f"\n{number}, {matcher}: share of the true pixels in %, and of these out-3 in %")
        regions = _region_masks(number, views, index)
        print(f"{'':12} " + " ".join(f"{name:>16}" for name in regions))
        for method in ("input", "median", "auto"):
            depth = _fused(number, matcher, "viso", method).depth
            print(f"{method:12} {_region_row(number, depth, regions)}", flush=True)
        _by_observations(number, matcher)


def _causes() -> None:
    """What `auto` has wrong on the bundle of design, by what each frame measured at the true point.

    An oracle that takes the best frame at each pixel errs where no frame is right.
    """
    print(f"bundle {DESIGN}, percent of the true pixels both cameras see")
    for matcher in MATCHERS:
        views, index = _matched(DESIGN, matcher)
        result = _fused(DESIGN, matcher, "viso", "auto")
        known, wrong = _wrong(DESIGN, result.depth, occluded=False)
        _, alone = _wrong(DESIGN, views[index].depth, occluded=False)
        measured, right, weight = _said(DESIGN, views, index)
        total, agreeing = (np.where(mask, weight, 0).sum(axis=0) for mask in (measured, right))
        some, none = right.any(axis=0), ~measured.any(axis=0)
        seen = result.provenance
        parts = {
            "auto": wrong,
            "reference": alone,
            "no frame right": known & ~some,
            "auto, filled": wrong & (seen < 0),
            "interpolated": wrong & (seen == 0),
            "no frame measured it": wrong & none,
            "none is right": wrong & ~none & ~some,
            "right ones of less weight": wrong & some & (2 * agreeing <= total),
            "of more": wrong & (2 * agreeing > total),
            "reference right": wrong & right[index],
            "wrong": wrong & measured[index] & ~right[index],
            "unmeasured": wrong & ~measured[index],
            "at an edge": wrong & _at_an_edge(DESIGN),
        }
        print(
            f"{matcher}: " + "; ".join(f"{name} {100 * part.sum() / known.sum():.2f}" for name, part in parts.items())
        )


def _said(number: int, views: Sequence[View], index: int) -> tuple[Mask, Mask, NDArray[np.float32]]:
    """Per frame and true pixel, (K, H, W): whether it measured the point, rightly within 3 pixels, and its weight."""
    bundle = _truth(number).bundle
    factor = bundle.calibration.focal_baseline
    truth = bundle.truth(occluded=False)
    depth, camera = depth_from_disparity(truth, factor), views[index].camera
    points = camera.back_project(depth)
    off, weights = [], []
    for view in views:
        u, v, z = camera.project((view.pose.inverse() @ views[index].pose).apply(points))
        column, row = (np.rint(np.nan_to_num(each, nan=-9)).astype(np.int64) for each in (u, v))
        inside = (column >= 0) & (row >= 0) & (column < depth.shape[1]) & (row < depth.shape[0])
        here = np.where(inside, row, 0), np.where(inside, column, 0)
        found = np.where(inside, view.depth[here], np.nan)
        there = np.where(np.isnan(found), np.nan, np.maximum(depth + found - z, 1e-3))
        off.append(np.abs(factor / there - truth))
        weights.append(np.where(inside, np.asarray(view.confidence)[here], 0))
    errors = np.stack(off)
    return np.isfinite(errors), np.nan_to_num(errors, nan=np.inf) <= 3, np.stack(weights).astype(np.float32)


def _at_an_edge(number: int) -> Mask:
    """Within three pixels of a step of the true disparity by more than 3 pixels."""
    import cv2

    filled = fill_background(_truth(number).bundle.truth()).astype(np.float32)
    out: Mask = cv2.dilate(filled, np.ones((7, 7))) - cv2.erode(filled, np.ones((7, 7))) > 3
    return out


def _wrong(number: int, depth: DepthMap, *, occluded: bool) -> tuple[Mask, Mask]:
    """The true pixels, and those of them that are off by more than 3 pixels after the holes are filled."""
    bundle = _truth(number).bundle
    truth = bundle.truth(occluded=occluded)
    known = np.isfinite(truth)
    found = fill_background(disparity_from_depth(depth, bundle.calibration.focal_baseline))
    return known, known & (np.abs(found - truth) > 3)


def _by_observations(number: int, matcher: str) -> None:
    """How much of out-3 (noc) comes from pixels that `auto` left unknown, filled, or observed once or more."""
    fused = {method: _fused(number, matcher, "viso", method) for method in ("median", "auto")}
    seen = fused["auto"].provenance
    masks = {"unknown": seen < 0, "filled": seen == 0} | {f"seen {n}x": seen == n for n in (1, 2, 3)}
    masks["more"] = seen > 3
    print("by observations of auto: share %, and part of out-3 noc that median and auto have there")
    for name, mask in masks.items():
        parts = []
        for result in fused.values():
            known, wrong = _wrong(number, result.depth, occluded=False)
            parts.append(f"{100 * (wrong & mask).sum() / known.sum():6.2f}")
        print(f"  {name:10} {100 * (known & mask).sum() / known.sum():6.1f} {' '.join(parts)}", flush=True)


def _region_row(number: int, depth: DepthMap, regions: dict[str, Mask]) -> str:
    known, wrong = _wrong(number, depth, occluded=True)
    cells = []
    for mask in regions.values():
        here = known & mask
        share, out = 100 * here.sum() / known.sum(), 100 * wrong[here].mean() if here.any() else np.nan
        cells.append(f"{share:6.1f} {out:6.1f}   ")
    return " ".join(f"{cell:>16}" for cell in cells)


def _region_masks(number: int, views: Sequence[View], index: int) -> dict[str, Mask]:
    """Disjoint regions of the reference view."""
    import cv2

    bundle = _truth(number).bundle
    truth, visible = bundle.truth(), bundle.truth(occluded=False)
    height, width = truth.shape
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    seen = np.isfinite(views[index].depth).astype(np.uint8)
    away = cv2.distanceTransform(1 - seen, cv2.DIST_L2, 5)
    regions = {
        "occluded": np.isfinite(truth) & ~np.isfinite(visible),
        "left 64 columns": columns < 64,
        "other border 16": (columns >= width - 16) | (rows >= height - 16),
        ">20 px from data": away > 20,
        "5-20 px": away > 5,
        "1-5 px": away > 0,
        "depth edge, data": _at_an_edge(number),
        "rest, data": np.ones(truth.shape, np.bool_),
    }
    free = np.ones(truth.shape, np.bool_)
    disjoint: dict[str, Mask] = {}
    for name, mask in regions.items():
        disjoint[name] = mask & free
        free &= ~mask
    return disjoint


if __name__ == "__main__":
    main()
