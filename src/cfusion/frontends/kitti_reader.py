"""KITTI stereo as a data set: a bundle's pairs, matched and localised; or existing disparity maps."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.readers import kitti
from cfusion.errors import InputError
from cfusion.frontends.kitti import FARTHEST, FRAMES, kitti_bundle_views
from cfusion.io.paths import also

recognises = kitti.recognises


@dataclass(frozen=True)
class Options:
    """The bundle, its matcher, and the source of its poses."""

    bundle: int | None = None  # required if there are several
    matcher: str = "sgm"  # sgm, elas, mc-cnn, or a folder of disparity maps 000027_10.png (value / 256), .pfm or .npy
    localisation: str = "auto"  # viso or gm (files of the data set), own or direct (our odometry)
    frames: int = FRAMES  # nearest to frame 10
    farthest: float = FARTHEST  # metres; stereo is imprecise beyond
    disparity: str | None = None  # instead of matching: a folder of disparity maps, or "truth", the lidar's
    localization: str | None = None  # with `disparity`: the paper's .mat
    colour: bool = False  # with `disparity`: the colour images
    backend: str = "auto"  # of the matcher: auto or cpu; mc-cnn: also cuda

    def __post_init__(self) -> None:
        if self.frames < 1 or not self.farthest > 0:
            raise InputError(
                f"frames = {self.frames}, farthest = {self.farthest}; give at least 1, and a distance in metres"
            )


def read(
    path: Path, options: Options | None = None, progress: Callable[[str, float], None] = lambda stage, done: None
) -> Dataset:
    """The views of one bundle; the ground truth is a view only if requested by name."""
    chosen = options or Options()
    if chosen.disparity is not None:
        return kitti.read(
            path,
            kitti.Options(chosen.bundle, chosen.disparity, chosen.localization, chosen.colour, chosen.farthest),
        )
    folder = kitti.training_or_testing(path)
    with also(folder.resolve().parent, Path(chosen.matcher)):  # localisations are beside, maps anywhere
        return kitti_bundle_views(
            folder,
            kitti.number_of(folder, chosen.bundle),
            chosen.matcher,
            chosen.localisation,
            frames=chosen.frames,
            farthest=chosen.farthest,
            backend=chosen.backend,
            told=progress,
        )
