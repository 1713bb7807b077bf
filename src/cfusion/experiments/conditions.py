"""Hashable descriptions of observations (scene, track, noise), which are made when needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.datasets.kitti_bundle import open_bundle
from cfusion.errors import InputError, MissingDependency
from cfusion.experiments.boxes import Box, draw
from cfusion.experiments.models import Model, data_folder, file_checksum
from cfusion.frontends.opencv import opencv
from cfusion.frontends.stereo import MATCHERS, require_matcher
from cfusion.geometry import Camera, Stack, View
from cfusion.geometry.disparity import depth_from_disparity
from cfusion.synthetic import Gauss, Laplace

if TYPE_CHECKING:
    from cfusion.experiments.store import Store

NOISES = {"laplace": Laplace, "gauss": Gauss}
NOISE_SEED = 20180  # an uncommon seed, so that the noise shares no random stream with other code


@dataclass(frozen=True, eq=False)
class Observed:
    """Views or a stack, with the truth."""

    truth: DepthMap
    views: Sequence[View] = ()
    stack: Stack | None = None  # if there is nothing to associate
    reference: int = 0
    camera: Camera | None = None
    baseline: float | None = None
    every: DepthMap | None = None  # KITTI's truth including pixels that only the reference camera sees


class Condition(ABC):
    """One scene under one set of circumstances; unless it says otherwise, seed and scale do not change it."""

    @property
    @abstractmethod
    def scene(self) -> str: ...
    @property
    @abstractmethod
    def seed(self) -> int: ...
    @abstractmethod
    def checksum(self) -> str: ...
    @abstractmethod
    def observe(self, store: Store) -> Observed: ...

    def varied(self, over: str, value: float) -> Condition:
        """The same condition with another noise, number of views or spacing."""
        raise InputError(f"{self.scene} cannot be varied over {over!r}; sweep over a scene of meshes")

    def seeded(self, seed: int) -> Condition:
        return self

    def scaled(self, scale: float) -> Condition:
        """The condition at no more than the given scale."""
        return self

    def missing(self) -> str | None:
        """Why this condition cannot run here; None if it can."""
        return None


@dataclass(frozen=True)
class OnTrack(Condition):
    """A mesh seen from a camera track, with noise on every depth."""

    model: Model
    track: str  # "orbit" or "nadir"
    views: int
    spacing: int  # steps of the track between two views
    noise: tuple[str, float]  # kind and level; level 0: no noise
    baseline: float
    scale: float = 1.0  # of the image
    seed: int = 0

    def __post_init__(self) -> None:
        if self.track not in ("orbit", "nadir"):
            raise InputError(f"track is {self.track!r}; choose 'orbit' or 'nadir'")
        if self.noise[0] not in NOISES or not self.noise[1] >= 0:
            raise InputError(f"noise is {self.noise}; give one of {', '.join(NOISES)} and a level of at least 0")
        if self.views < 1 or self.views % 2 == 0 or self.spacing < 1:
            raise InputError(
                f"views = {self.views}, spacing = {self.spacing}: give an odd number of views, at least 1 apart"
            )
        if not (self.baseline > 0 and 0 < self.scale <= 1):
            raise InputError(
                f"baseline = {self.baseline}, scale = {self.scale}: give positive numbers, scale at most 1"
            )

    @property
    def scene(self) -> str:
        return self.model.stand_in if self.model.replaced else self.model.name

    def offsets(self) -> tuple[int, ...]:
        """Positions of the views on the track relative to the reference."""
        return tuple(self.spacing * (k - self.views // 2) for k in range(self.views))

    def varied(self, over: str, value: float) -> OnTrack:
        if over in NOISES:
            return replace(self, noise=(over, float(value)))
        return replace(self, views=int(value)) if over == "views" else replace(self, spacing=int(value))

    def seeded(self, seed: int) -> OnTrack:
        return replace(self, seed=seed)

    def scaled(self, scale: float) -> OnTrack:
        return replace(self, scale=min(scale, self.scale))

    def checksum(self) -> str:
        return self.model.checksum()

    def observe(self, store: Store) -> Observed:
        """Noise is seeded per view by its position, so that bundles of any size share the noise of common views."""
        rendered = store.renders.load(self)
        kind, level = self.noise
        views = []
        for offset, depth, pose in zip(self.offsets(), rendered.depths, rendered.poses, strict=True):
            rng = np.random.default_rng([NOISE_SEED, self.seed, crc32(self.scene.encode()), offset % 2**16])
            seen = NOISES[kind](level)(depth, rng) if level else depth
            image = rendered.image if offset == 0 else None
            views.append(View(seen, rendered.camera, pose, image, name=f"{self.scene}{offset:+d}"))
        middle = self.views // 2
        alone = Stack(views[0].depth[None], camera=rendered.camera, image=rendered.image) if self.views == 1 else None
        return Observed(rendered.depths[middle], views, alone, middle, rendered.camera, self.baseline)


@dataclass(frozen=True)
class BoxImage(Condition):
    """One depth map with boxes in it, without noise."""

    shape: tuple[int, int]
    background: float
    boxes: tuple[Box, ...]
    scene: str = "boxes"
    seed: int = 0

    def __post_init__(self) -> None:
        draw(self.shape, self.background, self.boxes)

    def checksum(self) -> str:
        return "drawn"

    def observe(self, store: Store) -> Observed:
        depth = draw(self.shape, self.background, self.boxes)
        return Observed(depth, stack=Stack(depth[None]))


@dataclass(frozen=True)
class KittiBundle(Condition):
    """A bundle of KITTI stereo: disparity by a matcher or from a folder, scored where both cameras see."""

    folder: str  # below the data folder: training, or testing
    number: int
    localisation: str  # viso or gm, the files beside the data
    matching: str  # sgm, elas, mc-cnn, or a folder of disparity maps
    seed: int = 0

    @property
    def scene(self) -> str:
        return f"{self.number:06d}"

    @property
    def place(self) -> Path:
        """The folder of the images."""
        return (data_folder() or Path()) / self.folder

    @property
    def poses(self) -> Path:
        """The file of the localisation."""
        return self.place.parent / "localization" / f"bundle_loc_{self.localisation}_{self.place.name}.mat"

    @property
    def matched(self) -> bool:
        """Whether our front end matches the images."""
        return self.matching in MATCHERS

    def checksum(self) -> str:
        files = [self.poses, *self.place.glob(f"*/{self.scene}*")]
        files += [] if self.matched else Path(self.matching).glob(f"{self.scene}_*")
        return sha256("".join(file_checksum(file) for file in sorted(files)).encode()).hexdigest()

    def missing(self) -> str | None:
        if not self.place.is_dir() or not self.poses.is_file():
            return f"no {self.folder} with its localisation in the data folder (CFUSION_DATA)"
        if not self.matched and not any(Path(self.matching).glob(f"{self.scene}_*")):
            return f"no disparity maps {self.scene}_* in {self.matching}"
        try:
            if self.matched:
                require_matcher(self.matching)
            opencv()
        except MissingDependency as error:
            return str(error)
        return None

    def observe(self, store: Store) -> Observed:
        bundle = open_bundle(self.place, self.number)
        truth, every = (
            depth_from_disparity(bundle.truth(occluded=occluded), bundle.calibration.focal_baseline)
            for occluded in (False, True)
        )
        views, index = store.matches.load(self)
        return Observed(truth, views, None, index, views[index].camera, bundle.calibration.baseline, every)
