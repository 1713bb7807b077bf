"""Errors of real sensors and programs: a Kinect, multi-view stereo, and inaccurate poses."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Mask
from cfusion.errors import InputError
from cfusion.geometry import Pose, View
from cfusion.geometry.pose import turned_by
from cfusion.synthetic.noise import Noise, check_at_least_zero, check_fraction, positive

AXIAL = (0.0012, 0.0019, 0.4)  # metres: sigma = a + b (z - c)^2, Nguyen 2012
LATERAL = 0.8  # pixels
STEEPEST = 75.0  # degrees between ray and normal beyond which nothing is measured
LOST_AT_EDGES = 0.5  # of the pixels beside a jump


@dataclass(frozen=True)
class Kinect(Noise):
    """A Kinect in metres: axial and lateral noise, quantised disparity, holes at grazing angles and beside jumps."""

    focal: float = 576.0  # pixels
    focal_baseline: float = 43.5  # pixels times metres
    step: float = 0.125  # pixels of disparity

    def __post_init__(self) -> None:
        for name in ("focal", "focal_baseline", "step"):
            check_at_least_zero(name, getattr(self, name))
            if getattr(self, name) == 0:
                raise InputError(f"{name} is 0; give a positive number")

    def __call__(self, depth: DepthMap, rng: Generator) -> DepthMap:
        lost = self._lost(depth, rng)
        rows, columns = np.indices(depth.shape)
        rows = np.clip(np.rint(rows + rng.normal(0, LATERAL, depth.shape)).astype(int), 0, depth.shape[0] - 1)
        columns = np.clip(np.rint(columns + rng.normal(0, LATERAL, depth.shape)).astype(int), 0, depth.shape[1] - 1)
        seen = depth[rows, columns].astype(np.float64)
        constant, growth, nearest = AXIAL
        seen += rng.normal(size=depth.shape) * (constant + growth * (seen - nearest) ** 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            disparity = np.rint(self.focal_baseline / seen / self.step) * self.step
            out = positive(self.focal_baseline / disparity)
        out[lost | np.isnan(depth) | ~np.isfinite(out)] = np.nan
        return out

    def _lost(self, depth: DepthMap, rng: Generator) -> Mask:
        """Pixels at grazing angles, and half of those beside a jump."""
        across = _largest_step(depth) * self.focal / depth
        with np.errstate(invalid="ignore"):
            flat = across > np.tan(np.radians(STEEPEST))
        beside = flat | np.isnan(across)
        return np.asarray(beside & (rng.uniform(size=depth.shape) < LOST_AT_EDGES) | _inner_slope(depth, self.focal))


@dataclass(frozen=True)
class Blobs(Noise):
    """Discs of wrong depth, as from multi-view stereo, until `fraction` of the known pixels is wrong.

    Each disc has its own factor, in 1 - high .. 1 - low or 1 + low .. 1 + high.
    """

    fraction: float
    radius: float  # pixels, of the largest; the smallest has a third of it
    low: float = 0.03
    high: float = 0.3

    def __post_init__(self) -> None:
        check_fraction(self.fraction)
        if not self.radius > 0 or not 0 < self.low <= self.high < 1:
            raise InputError(f"radius {self.radius}, factors {self.low} to {self.high}: give > 0, in (0, 1), in order")

    def __call__(self, depth: DepthMap, rng: Generator) -> DepthMap:
        out = np.array(depth, np.float64)
        known = np.argwhere(~np.isnan(depth))
        wrong = np.zeros(depth.shape, np.bool_)
        rows, columns = np.indices(depth.shape)
        while len(known) and np.count_nonzero(wrong) < self.fraction * len(known):
            y, x = known[rng.integers(len(known))]
            radius = rng.uniform(self.radius / 3, self.radius)
            disc = ((rows - y) ** 2 + (columns - x) ** 2 <= radius**2) & ~np.isnan(depth)
            out[disc] = depth[disc] * (1 + rng.choice([-1, 1]) * rng.uniform(self.low, self.high))
            wrong |= disc
        return positive(out)


def disturbed(view: View, degrees: float, share: float, distance: float, rng: Generator) -> View:
    """The view with a wrong pose: rotated by about `degrees` about a random axis, moved by `share` of the distance."""
    axis = rng.normal(size=3)
    turn = turned_by(axis / np.linalg.norm(axis) * np.radians(degrees) * rng.normal())
    move = share * distance * rng.normal(size=3) / np.sqrt(3)
    return replace(view, pose=Pose(view.pose.rotation @ turn, view.pose.translation + move))


def _largest_step(depth: DepthMap) -> NDArray[np.float64]:
    """The largest change to one of the four neighbours; NaN beside unknown pixels."""
    padded = np.pad(depth.astype(np.float64), 1, mode="edge")
    around = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    return np.asarray(np.max([np.abs(each - depth) for each in around], axis=0))


def _inner_slope(depth: DepthMap, focal: float) -> Mask:
    """Whether the surface itself is seen at a grazing angle: depth changes as much on both sides of the pixel."""
    padded = np.pad(depth.astype(np.float64), 1, mode="edge")
    down = np.minimum(np.abs(padded[2:, 1:-1] - depth), np.abs(padded[:-2, 1:-1] - depth))
    right = np.minimum(np.abs(padded[1:-1, 2:] - depth), np.abs(padded[1:-1, :-2] - depth))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.hypot(down, right) * focal / depth > np.tan(np.radians(STEEPEST)))
