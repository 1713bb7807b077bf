"""Corrections of a mistaken convention: changes to every view, and the command line's options for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cfusion.datasets.check.axes import OPENCV, name_of, turn_of
from cfusion.datasets.check.reprojection import Hypothesis, Meaning
from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.errors import InputError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.io.arguments import views_of

NEAR = 0.005  # relative error of a factor that was found


@dataclass(frozen=True)
class Correction:
    """Changes to views that were stored under another convention; the default changes nothing."""

    invert_poses: bool = False  # they are world-to-camera
    axes: str = OPENCV  # of the cameras: opencv, opengl (look along -z), ros, or those right, down and forward
    depth_scale: float = 1.0  # factor on depths
    ray_depth: bool = False  # depths are lengths of rays
    shift_centre: float = 0.0  # pixels to add to cx and cy

    def __post_init__(self) -> None:
        if not (np.isfinite(self.depth_scale) and self.depth_scale > 0):
            raise InputError(f"--depth-scale is {self.depth_scale}; give a positive factor, such as 0.001")
        object.__setattr__(self, "axes", name_of(turn_of(self.axes)))
        if not np.isfinite(self.shift_centre):
            raise InputError(f"--shift-centre is {self.shift_centre}; give pixels, such as -0.5")

    @classmethod
    def of(cls, hypothesis: Hypothesis) -> "Correction | None":
        """The correction for a hypothesis; None if the data themselves have to be changed."""
        correctable = Hypothesis(
            hypothesis.name,
            hypothesis.inverse,
            hypothesis.axes,
            hypothesis.factor,
            hypothesis.meaning,
            hypothesis.shift,
        )
        if hypothesis != correctable or hypothesis.meaning is Meaning.disparity:
            return None
        ray = hypothesis.meaning is Meaning.ray
        return cls(hypothesis.inverse, hypothesis.axes, hypothesis.factor, ray, hypothesis.shift)

    def then(self, further: "Correction") -> "Correction | None":
        """Both, one after the other, as one (up to a turn of the world); None if there is none."""
        if self.ray_depth and further.ray_depth:
            return None
        return Correction(
            self.invert_poses != further.invert_poses,
            further.axes if further.invert_poses else name_of(turn_of(self.axes) @ turn_of(further.axes)),
            _near_one(self.depth_scale * further.depth_scale),
            self.ray_depth or further.ray_depth,
            self.shift_centre + further.shift_centre,
        )

    @property
    def options(self) -> str:
        """The options of the command line for it."""
        named = (
            (self.invert_poses, "--invert-poses"),
            (self.axes != OPENCV, f"--axes{'=' if self.axes.startswith('-') else ' '}{self.axes}"),
            (self.depth_scale != 1, f"--depth-scale {self.depth_scale:.6g}"),
            (self.ray_depth, "--ray-depth"),
            (self.shift_centre != 0, f"--shift-centre {self.shift_centre:g}"),
        )
        return " ".join(option for asked, option in named if asked)

    def __call__(self, views: Sequence[View]) -> Dataset:
        """The same views, corrected when they are read."""
        if not isinstance(views, Dataset):
            views = Dataset(views_of(views, "a correction"))
        if self == Correction():
            return views
        lazy = LazyViews.reading(lambda number: self.view(views[number]), len(views))
        corrected: Sequence[View] = lazy if isinstance(views.views, LazyViews) else tuple(lazy)
        sentence = "; ".join(filter(None, (views.sentence, f"read with {self.options}")))
        return replace(views, views=corrected, sentence=sentence)

    def view(self, view: View) -> View:
        """One corrected view."""
        rotation, translation = view.pose.rotation, view.pose.translation
        if self.invert_poses:
            rotation, translation = rotation.T, -rotation.T @ translation
        camera, depth = view.camera, view.depth * np.float32(self.depth_scale)
        if self.shift_centre:
            camera = replace(camera, cx=camera.cx + self.shift_centre, cy=camera.cy + self.shift_centre)
        if self.ray_depth and isinstance(camera, Pinhole):
            depth = (depth * camera.rays()[..., 2]).astype(np.float32)
        pose = Pose(rotation if self.axes == OPENCV else rotation @ turn_of(self.axes), translation)
        return replace(view, depth=depth, camera=camera, pose=pose)


def _near_one(factor: float) -> float:
    """A factor; 1 if it is that but for the error of one that was found."""
    return 1.0 if abs(factor - 1) < NEAR else factor
