"""Real depth maps with a truth to judge by: 7-Scenes by a consensus of other frames, toy cars by held-out views, KITTI.

Half of the data served to choose by, the other half is only reported on: `DESIGN` and `CLOSED`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.consensus import validated
from benchmarks.registration import registered
from benchmarks.scenes import data_folder
from cfusion import Pinhole, View, read
from cfusion.arrays import DepthMap
from cfusion.datasets.kitti_bundle import open_bundle
from cfusion.datasets.readers.seven_scenes import Options
from cfusion.datasets.readers.seven_scenes import read as read_seven_scenes
from cfusion.frontends.kitti import kitti_bundle_views
from cfusion.geometry.disparity import depth_from_disparity

WINDOW = 11  # frames
FIRST_OF_WALK = 100  # frame number of the first file of seven_scenes_walk
REACH = 25  # frames before and after a window that make its truth; further ones are not registered to a pixel
MATCHERS = ("sgm", "elas")
# Windows of the two halves share no frame but one at either end; the frames that make their truths overlap.
DESIGN = {"walk": (130, 145, 160, 175, 190, 220, 245), "room": (30,), "cars": tuple(range(8)), "kitti": (74,)}
CLOSED = {"walk": (205, 235, 260), "room": (20, 40), "cars": tuple(range(8, 15)), "kitti": (27,)}


@dataclass(frozen=True, eq=False)
class Case:
    """Views to fuse into one of them, and what is true there."""

    name: str
    views: tuple[View, ...]
    reference: int
    truth: DepthMap  # (H, W), NaN where nobody knows
    baseline: float | None = None  # where errors are counted in pixels of disparity

    @property
    def camera(self) -> Pinhole:
        camera = self.views[self.reference].camera
        assert isinstance(camera, Pinhole)
        return camera

    def error(self, depth: DepthMap) -> NDArray[np.float64]:
        """(H, W) |error|: of disparity in pixels where there is a baseline, else relative to the true depth."""
        if self.baseline is None:
            return np.abs(depth / self.truth.astype(np.float64) - 1)
        factor = self.camera.fx * self.baseline
        return np.abs(factor / depth.astype(np.float64) - factor / self.truth)


def seven_scenes(centres: tuple[int, ...], folder: str = "walk") -> Iterator[Case]:
    """Windows around frames of the walk, or of the shorter folder of the same recording."""
    for centre in centres:
        yield _window(centre, folder)


@lru_cache(2)
def recording(folder: str = "walk") -> dict[int, View]:
    """Frames of the recording by number: those of the walk, and for the shorter folder its own before them."""
    options = Options(images=False)
    walk = read_seven_scenes(data_folder() / "seven_scenes_walk", options)
    frames = {FIRST_OF_WALK + number: walk[number] for number in range(len(walk))}
    if folder == "walk":
        return frames
    short = read_seven_scenes(data_folder() / "seven_scenes", options)
    return {number: short[number] for number in range(len(short))} | frames


def _window(centre: int, folder: str) -> Case:
    half = WINDOW // 2
    chosen = range(centre - half, centre + half + 1)
    frames = recording(folder)
    views = tuple(frames[number] for number in chosen)
    sides = (range(centre - REACH, chosen.start), range(chosen.stop, centre + REACH + 1))
    earlier, later = (registered(views[half], [frames[k] for k in side if k in frames]) for side in sides)
    truth = validated(views[half], earlier, later)
    return Case(f"7-Scenes {folder} {centre}", views, half, truth)


def toy_cars(references: tuple[int, ...]) -> Iterator[Case]:
    """COLMAP's maps, each fused from the other fourteen and judged by what was measured there."""
    views = list(read(data_folder() / "colmap" / "toy_cars"))
    for k in references:
        measured = views[k].depth
        blind = replace(views[k], depth=np.full(measured.shape, np.nan, np.float32), confidence=None)
        others = tuple(blind if number == k else view for number, view in enumerate(views))
        yield Case(f"toy cars {k}", others, k, measured)


def kitti(bundles: tuple[int, ...]) -> Iterator[Case]:
    """Stereo bundles from raw pairs, judged by the lidar."""
    folder = data_folder() / "kitti2012" / "training"
    for number in bundles:
        bundle = open_bundle(folder, number)
        truth = depth_from_disparity(bundle.truth(occluded=False), bundle.calibration.focal_baseline)
        for matcher in MATCHERS:
            views = kitti_bundle_views(folder, number, matcher, "viso")
            assert views.reference is not None
            yield Case(f"KITTI {number} {matcher}", tuple(views), views.reference, truth, bundle.calibration.baseline)


def cases(split: dict[str, tuple[int, ...]]) -> Iterator[Case]:
    """All cases of a half, data set by data set."""
    yield from seven_scenes(split["walk"])
    if "room" in split:
        yield from seven_scenes(split["room"], "room")
    yield from toy_cars(split["cars"])
    yield from kitti(split["kitti"])
