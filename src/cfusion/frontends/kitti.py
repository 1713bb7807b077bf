"""A KITTI bundle from raw stereo images to posed depth views: match every pair, localise it, z = f B / d."""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from cfusion.arrays import WeightMap
from cfusion.datasets.dataset import Dataset
from cfusion.datasets.kitti_bundle import REFERENCE_FRAME, Bundle, disparity_file, open_bundle, read_disparity
from cfusion.errors import FileError, InputError
from cfusion.frontends import direct_odometry, odometry
from cfusion.frontends.consistency import Disparity
from cfusion.frontends.cues import pair_cues, unlikeness
from cfusion.frontends.rig import Rig, StereoFrame
from cfusion.frontends.stereo import MATCHERS, known_matcher, match
from cfusion.frontends.trust import MAP_TRUST
from cfusion.geometry import Pose, View
from cfusion.geometry.disparity import depth_from_disparity
from cfusion.io.codecs.kitti_poses import read_localization

FRAMES = 5  # the paper's number
FARTHEST = 100.0  # metres; stereo is imprecise beyond
GIVEN = ("viso", "gm")  # localisations supplied with the data
MEASURED = ("own", "direct")  # by our odometry: from features, from whole images
ITERATIONS = 6000  # of `auto`: twice the usual limit, as in the paper for KITTI

StageCallback = Callable[[str, float], None]  # the stage, and the share of it that is done


def kitti_bundle_views(
    folder: str | Path,
    bundle: int,
    matching: str | Path = "sgm",
    localisation: str = "auto",
    *,
    frames: int = FRAMES,
    farthest: float = FARTHEST,
    backend: str = "auto",
    told: StageCallback = lambda stage, done: None,
) -> Dataset:
    """The views of one bundle, ready to be fused into frame 10.

    `matching` is sgm, elas, mc-cnn, or a folder of disparity maps 000027_10.png (value / 256), .pfm or .npy;
    `localisation` is viso or gm (files of the data set), own or direct (our odometry), or auto: the first available.
    The `frames` nearest to frame 10 are used; depths beyond `farthest` metres are dropped. `backend`: the matcher's.
    """
    if frames < 1 or not farthest > 0:
        raise InputError(f"frames = {frames}, farthest = {farthest}; give at least 1, and metres > 0")
    if localisation not in ("auto", *GIVEN, *MEASURED):
        raise InputError(f"there is no localisation {localisation!r}; choose auto, {', '.join(GIVEN + MEASURED)}")
    opened = open_bundle(Path(folder), bundle)
    given = _given(opened, localisation)  # before matching, which takes longer
    chosen = nearest_frames(opened.frames, frames)
    images = {frame: StereoFrame(opened.left(frame), opened.right(frame)) for frame in chosen}
    matched: dict[int, tuple[Disparity, WeightMap]] = {}
    for done, frame in enumerate(chosen):
        told(f"matching frame {frame}", done / len(chosen))
        matched[frame] = _disparity(opened, frame, images[frame], matching, backend)
    depths = {
        frame: depth_from_disparity(disparity, opened.calibration.focal_baseline)
        for frame, (disparity, _) in matched.items()
    }
    told("localising", 1.0)
    source, poses = given or _measured(opened, chosen, images, depths, localisation)
    views = tuple(
        View(
            np.where(depths[frame] <= farthest, depths[frame], np.nan),
            opened.calibration.camera(images[frame].left.shape[:2]),
            poses[frame],
            image=images[frame].left,
            confidence=matched[frame][1],
            name=opened.name(frame),
        )
        for frame in chosen
        if frame in poses
    )
    if REFERENCE_FRAME not in poses:
        raise FileError(f"frame {REFERENCE_FRAME} of bundle {bundle} has no pose in {source}; localise with own")
    reference = [frame for frame in chosen if frame in poses].index(REFERENCE_FRAME)
    sentence = (
        f"KITTI {opened.layout.name} bundle {bundle}: {len(views)} pairs matched with {matching}, poses from {source}; "
        f"depth = {opened.calibration.focal_baseline:.5g} / disparity, nothing beyond {farthest:g} m"
    )
    return Dataset(views, reference, sentence=sentence)


def nearest_frames(available: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Up to `count` frames nearest to the reference (of ties the earlier one), ordered by time."""
    if REFERENCE_FRAME not in available:
        raise FileError(f"the bundle has no pair of frame {REFERENCE_FRAME}, to be fused into; choose another")
    by_distance = sorted(available, key=lambda frame: (abs(frame - REFERENCE_FRAME), frame))
    return tuple(sorted(by_distance[:count]))


def _disparity(
    bundle: Bundle, frame: int, images: StereoFrame, matching: str | Path, backend: str
) -> tuple[Disparity, WeightMap]:
    if isinstance(matching, str) and matching in MATCHERS:
        found = match(images.left, images.right, matching, backend=backend)
        return found.disparity, found.weight
    place = Path(matching)
    if not place.is_dir():
        known_matcher(str(matching))  # raises, and lists the matchers
    file = disparity_file(place, bundle.name(frame))
    if file is None:
        raise FileError(f"{place} holds no disparity map {bundle.name(frame)} (.png, .pfm or .npy)")
    given = read_disparity(file)
    if given.shape != images.left.shape[:2]:
        raise FileError(f"{file} is {given.shape}, its image {images.left.shape[:2]}; match at full size")
    known = np.where(given > 0, given, np.float32(np.nan)).astype(np.float32)
    unlike = unlikeness(known, images.left, images.right)
    cues = np.concatenate([pair_cues(known, np.zeros_like(known), images.left), unlike[None]])
    return known, MAP_TRUST.weight(cues, MAP_TRUST.confidence(cues, np.isfinite(known)))


def _given(bundle: Bundle, localisation: str) -> tuple[str, Mapping[int, Pose]] | None:
    """The chosen localisation, or the first available: its name, and world_from_camera by frame."""
    beside = bundle.folder.resolve().parent / "localization"
    for name in GIVEN if localisation == "auto" else (localisation,):
        file = beside / f"bundle_loc_{name}_{bundle.folder.resolve().name}.mat"
        if name in GIVEN and (file.is_file() or localisation != "auto"):
            return name, read_localization(file, bundle.number)
    return None


def _measured(
    bundle: Bundle,
    frames: tuple[int, ...],
    images: Mapping[int, StereoFrame],
    depths: Mapping[int, Disparity],
    localisation: str,
) -> tuple[str, Mapping[int, Pose]]:
    """The name of the odometry, and world_from_camera by frame."""
    if len(frames) == 1:
        return "nowhere, for one frame needs none", {frames[0]: Pose.identity()}
    rig = Rig(bundle.calibration.camera(images[frames[0]].left.shape[:2]), bundle.calibration.baseline)
    if localisation != "direct":
        poses = odometry.trajectory([images[frame] for frame in frames], rig)
        return "our odometry", dict(zip(frames, poses, strict=True))
    direct = {frames[0]: Pose.identity()}
    for before, after in itertools.pairwise(frames):
        moved = direct_odometry.direct_motion(images[before].left, depths[before], images[after].left, rig.camera)
        direct[after] = direct[before] @ moved.previous_from_current
    return "our direct odometry", direct
