"""Whether one view has a wrong pose: the others agree with one another but not with it, and would if it were moved.

Noise, moved objects and holes of that view leave disagreement, too, but no motion makes up for these. The pose is tried
inverted; else a motion is searched by damped Gauss-Newton steps with Geman and McClure's weights, whose derivatives
span some pixels at first, so that noise does not decide them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Matrix
from cfusion.datasets.check.reprojection import FEWEST, STATED, Samples, median_difference, percent
from cfusion.geometry.pose import turned_by

SUSPECT = 1.5  # residual of its pairs over that of the others, from which a motion is searched
LARGE = 0.01  # relative residual up to which nothing is said: what is fused is off by no more
AGREEING = 0.1  # relative residual up to which the others agree with one another
STEPS = (2e-2, 1e-2, 4e-3)  # for derivatives: radians, and shares of the typical depth
FARTHEST = 0.3  # of a step of the search
TURNED = np.radians(4.0)  # about each axis: where the search begins again
TURNS, TRIES = 10, 4
GAIN = 0.01  # relative gain of the cost below which a search ends
WIDTH = 2.0  # residuals beyond, in medians of the view's at first and of the others' in the end, count less
FINEST = 1e-3  # relative residual
OUTSIDE = 0.75  # cost of a sample that hits no known depth; 1 of one that hits another surface
STEEPEST = 20.0  # derivatives beyond it cross a depth edge

Numbers = NDArray[np.float64]
Placement = tuple[Matrix, Matrix]  # rotation and translation


@dataclass(frozen=True)
class Misplaced:
    """A view whose pose does not fit the others, and what makes it fit."""

    number: int
    others: float  # median relative difference of depth between the others
    before: float  # between the view and the others
    after: float  # between these, if the view is moved
    inverted: bool  # whether inverting the pose is the motion
    degrees: float = 0.0  # the motion
    distance: float = 0.0

    @property
    def sentence(self) -> str:
        """What does not fit, and what to do, in one sentence."""
        how = "inverted" if self.inverted else f"turned by {self.degrees:.2g} degrees and moved by {self.distance:.2g}"
        before = percent(self.before) if np.isfinite(self.before) else "nothing in common"
        return (
            f"The pose of view {self.number}, the reference, does not fit: the others agree with one another "
            f"({percent(self.others)} median depth residual) but not with it ({before}; {percent(self.after)} if it is "
            f"{how}): correct it, or fuse into another view."
        )


def misplaced(samples: Samples, number: int) -> Misplaced | None:
    """What is wrong with the pose of a view; None if the others do not tell, or noise and a scale explain as much."""
    if number not in samples.numbers:
        return None
    place = samples.numbers.index(number)
    mine = (samples.source == place) | (samples.target == place)
    values = samples.residuals(STATED).values
    others, before = _median(values[~mine]), _median(values[mine])
    least = max(LARGE, SUSPECT * others)
    if not (others < AGREEING and before > least):
        return None
    search, enough = _Search(samples.among(mine), place, others, before), _between(others, before)
    inverted = search.inverse()
    after = search.median(inverted)
    if after < enough:
        return Misplaced(number, others, before, after, inverted=True)
    if not _scaled(np.where(samples.source == place, values, -values)[mine]) > least:
        return None
    starts = tuple(search.starts())  # before the search narrows what counts
    best = min(map(search.run, starts), key=search.cost)
    after = search.median(best)
    return Misplaced(number, others, before, after, False, *search.motion(best)) if after < enough else None


def _median(values: Numbers) -> float:
    return median_difference(values, FEWEST)


def _between(others: float, before: float) -> float:
    """The residual that is as many times that of the others as it is contained in that before: what is left is less."""
    return float(np.sqrt(max(others, FINEST) * min(before, 1.0)))


def _scaled(values: Numbers) -> float:
    """The median relative difference after a factor on the depths of one view; of logarithms that it moves one way."""
    known = values[np.isfinite(values)]
    return _median(known - np.median(known)) if known.size else float("inf")


class _Search:
    """The samples of the pairs with one view, under other poses of it."""

    def __init__(self, samples: Samples, place: int, others: float, before: float) -> None:
        self.samples, self.place = samples, place
        finest = max(others, FINEST)
        self.widths = WIDTH * np.geomspace(max(min(before, AGREEING), finest), finest, len(STEPS))
        self.width = float(self.widths[0])
        self.stated: Placement = samples.rotations[place].copy(), samples.translations[place].copy()
        self.from_it = samples.source == place

    def inverse(self) -> Placement:
        """The inverse of the stated pose."""
        rotation, translation = self.stated
        return rotation.T, -rotation.T @ translation

    def starts(self) -> Iterator[Placement]:
        """The stated pose, and the best of those turned a little about every axis."""
        yield self.stated
        turned = (
            self.moved(self.stated, TURNED * np.array([*axis, 0, 0, 0])) for axis in product((-1, 0, 1), repeat=3)
        )
        yield min(turned, key=self.cost)

    def moved(self, at: Placement, motion: Numbers) -> Placement:
        """A placement after a motion in the view's own axes: radians, and shares of the typical depth."""
        rotation, translation = at
        return rotation @ turned_by(motion[:3]), translation + rotation @ motion[3:] * self.samples.typical

    def motion(self, at: Placement) -> tuple[float, float]:
        """Degrees and distance between the stated pose and another."""
        turn = np.clip((np.trace(self.stated[0].T @ at[0]) - 1) / 2, -1, 1)
        return float(np.degrees(np.arccos(turn))), float(np.linalg.norm(at[1] - self.stated[1]))

    def residuals(self, at: Placement) -> Numbers:
        """The residual of every sample."""
        self.samples.rotations[self.place], self.samples.translations[self.place] = at
        self.samples.forget()
        return self.samples.residuals(STATED).values

    def median(self, at: Placement) -> float:
        """The median residual of the samples of the view, or of those of the others: the larger one."""
        values = self.residuals(at)
        return max(_median(values[self.from_it]), _median(values[~self.from_it]))

    def cost(self, at: Placement) -> float:
        """What the search lowers."""
        return self._cost_of(self.residuals(at))

    def _cost_of(self, values: Numbers) -> float:
        square = (values / self.width) ** 2
        return float(np.where(np.isfinite(values), square / (1 + square), OUTSIDE).mean())

    def run(self, at: Placement) -> Placement:
        """The placement at the end of a search from another, by coarse derivatives and then by fine ones."""
        for step, width in zip(STEPS, self.widths, strict=True):
            self.width = float(width)
            at = self._descended(at, step)
        return at

    def _descended(self, at: Placement, step: float) -> Placement:
        found = self.residuals(at)
        best, damping = self._cost_of(found), 1e-3
        for _ in range(TURNS):
            before = best
            normal, gradient = self._normal_equations(at, found, step)
            for _ in range(TRIES):
                raised = normal + np.diag(damping * np.diag(normal) + 1e-9)
                trial = self.moved(at, -np.linalg.solve(raised, gradient).clip(-FARTHEST, FARTHEST))
                there = self.residuals(trial)
                cost = self._cost_of(there)
                if cost < best:
                    at, found, best, damping = trial, there, cost, damping / 5
                    break
                damping *= 5
            if not best < (1 - GAIN) * before:
                break
        return at

    def _normal_equations(self, at: Placement, found: Numbers, step: float) -> tuple[Numbers, Numbers]:
        """The matrix and gradient of the linearised, weighted residuals."""
        columns = [(self.residuals(self.moved(at, step * axis)) - found) / step for axis in np.eye(6)]
        jacobian = np.stack(columns, axis=1)
        known = np.isfinite(found) & (np.abs(jacobian).max(axis=1) < STEEPEST)
        jacobian, left = jacobian[known], found[known]
        weighted = jacobian / (1 + (left / self.width) ** 2)[:, None] ** 2
        return weighted.T @ jacobian, weighted.T @ left
