"""KITTI stereo as a data set: a bundle's pairs, matched and localised; or existing disparity maps."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.readers import kitti
from cfusion.errors import InputError
from cfusion.frontends.kitti import FRAMES, kitti_bundle_views
from cfusion.io.paths import also

recognises = kitti.recognises


@dataclass(frozen=True)
class Options(kitti.Options):
    """The bundle, its matcher, and the source of its poses; `disparity`, `localization` and `colour` for given maps."""

    matcher: str = "sgm"  # sgm, elas, mc-cnn, or a folder of disparity maps 000027_10.png (value / 256), .pfm or .npy
    localisation: str = "auto"  # viso or gm (files of the data set), own or direct (our odometry)
    frames: int = FRAMES  # nearest to frame 10
    backend: str = "auto"  # of the matcher: auto or cpu; mc-cnn: also cuda

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frames < 1:
            raise InputError(f"frames is {self.frames}; give at least 1")


def read(
    path: Path, options: Options | None = None, progress: Callable[[str, float], None] = lambda stage, done: None
) -> Dataset:
    """The views of one bundle; the ground truth is a view only if requested by name."""
    chosen = options or Options()
    if chosen.disparity is not None:
        return kitti.read(path, chosen)
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
