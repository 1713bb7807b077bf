"""Corrections of a mistaken convention: changes to every view, and the command line's options for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cfusion.datasets.check.reprojection import OPENGL, Hypothesis, Meaning
from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.errors import InputError
from cfusion.geometry import Pinhole, Pose, View


@dataclass(frozen=True)
class Correction:
    """Changes to views that were stored under another convention; the default changes nothing."""

    invert_poses: bool = False  # they are world-to-camera
    opengl: bool = False  # cameras look along -z
    depth_scale: float = 1.0  # factor on depths
    ray_depth: bool = False  # depths are lengths of rays
    shift_centre: float = 0.0  # pixels to add to cx and cy

    def __post_init__(self) -> None:
        if not (np.isfinite(self.depth_scale) and self.depth_scale > 0):
            raise InputError(f"--depth-scale is {self.depth_scale}; give a positive factor, such as 0.001")
        if not np.isfinite(self.shift_centre):
            raise InputError(f"--shift-centre is {self.shift_centre}; give pixels, such as -0.5")

    @classmethod
    def of(cls, hypothesis: Hypothesis) -> "Correction | None":
        """The correction for a hypothesis; None if the data themselves have to be changed."""
        if hypothesis.meaning is Meaning.disparity or hypothesis.swapped or hypothesis.focal != 1:
            return None
        if hypothesis.enlarged != 1:
            return None
        ray = hypothesis.meaning is Meaning.ray
        return cls(hypothesis.inverse, hypothesis.opengl, hypothesis.factor, ray, hypothesis.shift)

    @property
    def options(self) -> str:
        """The options of the command line for it."""
        named = (
            (self.invert_poses, "--invert-poses"),
            (self.opengl, "--axes opengl"),
            (self.depth_scale != 1, f"--depth-scale {self.depth_scale:.6g}"),
            (self.ray_depth, "--ray-depth"),
            (self.shift_centre != 0, f"--shift-centre {self.shift_centre:g}"),
        )
        return " ".join(option for asked, option in named if asked)

    def __call__(self, views: Dataset) -> Dataset:
        """The same views, corrected when they are read."""
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
        pose = Pose(rotation @ OPENGL if self.opengl else rotation, translation)
        return replace(view, depth=depth, camera=camera, pose=pose)
