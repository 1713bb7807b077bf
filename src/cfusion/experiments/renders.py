"""A cache of noise-free views of the meshes: rendering takes seconds, reading them milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cfusion.arrays import DepthMap, Image
from cfusion.experiments.code_version import RENDERING, code_version
from cfusion.experiments.conditions import OnTrack
from cfusion.experiments.models import Model
from cfusion.experiments.whole_files import read_arrays, write_arrays
from cfusion.geometry import Camera, Pose
from cfusion.io.to_json import digest
from cfusion.synthetic import PAPER_CAMERA, nadir, orbit
from cfusion.synthetic.render import RayCaster
from cfusion.synthetic.track import ORBIT_REFERENCE, ORBIT_VIEWS

NADIR_STEP = 4.0  # units between two positions of the track
NADIR_REACH = 64  # positions on either side of the reference


@dataclass(frozen=True, eq=False)
class Rendered:
    """True depths along a track, and the image of the reference."""

    depths: Sequence[DepthMap]
    poses: Sequence[Pose]
    camera: Camera
    image: Image


@dataclass(frozen=True)
class Roll:
    """Views that are rendered together: one mesh, track and size."""

    model: Model
    track: str
    scale: float

    @staticmethod
    def of(condition: OnTrack) -> Roll:
        return Roll(condition.model, condition.track, condition.scale)

    @property
    def camera(self) -> Camera:
        return PAPER_CAMERA.scaled(self.scale)

    def pose(self, offset: int) -> Pose:
        """world_from_camera at a position of the track, the reference at 0."""
        if self.track == "orbit":
            return orbit()[(ORBIT_REFERENCE + offset) % ORBIT_VIEWS]
        return nadir(2 * NADIR_REACH + 1, NADIR_STEP)[NADIR_REACH + offset]

    def key(self) -> str:
        """Hash of everything that determines the pixels."""
        return digest([self, self.model.checksum(), code_version(RENDERING)], 24)


@dataclass(frozen=True)
class Renders:
    """The folder of rendered views."""

    folder: Path

    def load(self, condition: OnTrack) -> Rendered:
        """The true depths of a condition's views; missing ones are rendered."""
        roll = Roll.of(condition)
        self.make(roll, condition.offsets())
        depths = [read_arrays(self._file(roll, offset))["depth"] for offset in condition.offsets()]
        image = read_arrays(self._file(roll, 0))["image"]
        return Rendered(depths, [roll.pose(offset) for offset in condition.offsets()], roll.camera, image)

    def make(self, roll: Roll, offsets: Iterable[int]) -> None:
        """Render the missing views, the reference with its image."""
        wanted = [offset for offset in sorted({0, *offsets}) if not self._file(roll, offset).is_file()]
        if not wanted:
            return
        caster = RayCaster(roll.model.load())
        for offset in wanted:
            depth, image = caster.photograph(roll.camera, roll.pose(offset))
            arrays = {"depth": depth, "image": image} if offset == 0 else {"depth": depth}
            write_arrays(self._file(roll, offset), arrays)

    def _file(self, roll: Roll, offset: int) -> Path:
        return self.folder / f"{roll.model.name}-{roll.key()}" / f"{offset:+03d}.npz"
