"""Samples of views, projected into neighbouring views under a hypothesis about the convention."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Coordinates, Matrix, share_of
from cfusion.datasets.check.axes import OPENCV, turn_of
from cfusion.datasets.dataset import Dataset
from cfusion.errors import InputError
from cfusion.geometry import Pinhole, View
from cfusion.io.arguments import views_of

SMOOTH = 0.02  # relative spread of four inverse depths up to which they are one surface
OFFSETS = (0, 2, 8, 30)  # distances in frames between the views that are compared
GROUPS = 4  # places in a sequence where views are compared
NEAREST = 0.05  # share of the samples that hit a known depth, which nearly always are seen in both views
FEWEST = 30  # samples that must hit a known depth, for anything to be told from them
EXACT = 2e-3  # relative residual below which one of exact maps need not fall
FEW = 16  # up to this many views, all pairs are compared

Indices = NDArray[np.int64]
Points = Indices | Coordinates  # integer or not


class Meaning(Enum):
    """The meaning of the values of a depth map."""

    z = "depth along the axis"
    ray = "length of the ray"
    disparity = "disparity, or inverse depth"


@dataclass(frozen=True)
class Hypothesis:
    """A convention other than the stated one, as a change to the data."""

    name: str
    inverse: bool = False  # poses are world-to-camera
    axes: str = OPENCV  # of the cameras
    factor: float = 1.0  # factor on depths
    meaning: Meaning = Meaning.z
    shift: float = 0.0  # pixels to add to the principal point
    focal: float = 1.0  # factor on focal lengths
    enlarged: float = 1.0  # factor on all of K, which belongs to an image of another size
    swapped: bool = False  # cx and cy are exchanged
    rotations: bool = False  # only the rotations of the poses are those of world-to-camera
    positions: bool = False  # only their translations are
    flipped: bool = False  # rows run from the bottom up
    mirrored: bool = False  # columns run from right to left
    resized: bool = False  # K belongs to an image of another size, whose middle is the principal point
    order: int = 0  # which poses the views have: those given, or another of `orders`


STATED = Hypothesis("as stated")


@dataclass(frozen=True, eq=False)
class Residuals:
    """The outcome of each sample in its neighbour."""

    values: Coordinates  # (M,) log of predicted over measured depth; NaN if no known depth was hit
    inside: NDArray[np.bool_]  # (M,) whether it falls inside the neighbour's image
    posed: float = 1.0  # share of them whose views have poses: the first or last may lack that of its neighbour

    @property
    def overlap(self) -> float:
        """The share of samples that hit a known depth, of those whose views have poses."""
        return float(np.isfinite(self.values).mean()) / self.posed if self.values.size and self.posed else 0.0

    @property
    def median(self) -> float:
        """Median relative difference of depth; inf if no known depth was hit."""
        return median_difference(self.values)

    @property
    def sizes(self) -> Coordinates:
        """The sizes of the residuals of all samples that hit a known depth, ascending."""
        return np.sort(np.abs(self.values[np.isfinite(self.values)]))

    @property
    def cost(self) -> float:
        """Mean square root of the residuals: robust against a few wrong surfaces, without the plateaus of a median."""
        hit = np.abs(self.values[np.isfinite(self.values)])
        return float(np.sqrt(hit).mean()) if hit.size else float("inf")


def median_difference(values: Coordinates, fewest: int = 1) -> float:
    """The median relative difference of depth of residuals (M,), of those that are known; inf of too few."""
    known = values[np.isfinite(values)]
    return float(np.expm1(np.median(np.abs(known)))) if known.size >= fewest else float("inf")


def percent(share: float) -> str:
    """A share or relative difference in words."""
    if not np.isfinite(share):
        return "no"
    if share >= 10:
        return f"{100 * share:.0f} %"
    return "under 0.001 %" if share < 1e-5 else f"{100 * share:.{2 if share < 0.1 else 3}g} %"


def nearest_kept(ours: Coordinates, theirs: Coordinates) -> bool:
    """Whether the samples that agree best do so as well under ours as under theirs, by `sizes`.

    Where views hide most of what others see, as around an object, most residuals of right data are large, but not those
    of what both see: a mistaken convention keeps few of these small.
    """
    count = int(NEAREST * max(ours.size, theirs.size))
    if ours.size < max(count + 1, FEWEST):
        return False
    return theirs.size <= count or bool(ours[count] <= max(theirs[count], EXACT))


def orders(count: int) -> tuple[Indices, ...]:
    """For each view the one whose pose it has: its own; the next; the one before; and if numbers were sorted as text.

    -1 where there is none.
    """
    own = np.arange(count)
    as_text = np.array(sorted(range(count), key=str), np.int64)
    later, earlier = np.where(own < count - 1, own + 1, -1), own - 1
    return own, later, earlier, as_text, np.argsort(as_text)


class Samples:
    """M pixels of some views, each with another view to project it into, in flat arrays."""

    def __init__(
        self, views: Sequence[View], count: int, *, frames: int = FEW, seed: int = 0, around: int | None = None
    ) -> None:
        views = views_of(views, "a check")
        if around is not None and not 0 <= around < len(views):
            raise InputError(f"view {around} is not one of the {len(views)} views; give one from 0")
        groups = _groups(len(views), frames, around)
        numbers = sorted({number for group in groups for number in group})
        loaded = [views[number] for number in numbers]
        views_of(loaded, "a check")
        self.numbers = numbers
        place = {number: index for index, number in enumerate(numbers)}
        if any(not isinstance(view.camera, Pinhole) for view in loaded):
            raise InputError("the views are not perspective; only perspective views have conventions to check")
        self.rotations: Matrix = np.array([view.pose.rotation for view in loaded])
        self.translations: Matrix = np.array([view.pose.translation for view in loaded])
        held = views.views if isinstance(views, Dataset) else views
        others = orders(len(views))[1:] if isinstance(held, list | tuple) else ()  # else every pose costs a file
        self.others = [_poses(views, order[numbers]) for order in others]
        self.intrinsics: Matrix = np.array([_intrinsics(view) for view in loaded])
        self.heights, self.widths = (np.array([view.shape[axis] for view in loaded]) for axis in (0, 1))
        sizes = self.heights * self.widths
        self.starts: Indices = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        self.depths = np.concatenate([view.depth.ravel() for view in loaded])
        pairs = [(place[a], place[b]) for group in groups for a in group for b in group if a != b]
        self.sources, self.targets = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
        self._draw(count, np.random.default_rng(seed))
        self._kept: dict[Hypothesis, tuple[Coordinates, Coordinates]] = {}
        self.trial: Callable[[Coordinates, Indices], Coordinates] | None = None  # changes depths of views on lookup
        self.known = float(np.isfinite(self.depths).mean())
        between = np.diff(np.log(np.random.default_rng(seed).permutation(self.depth)))
        self.chance = float(np.expm1(np.median(np.abs(between)))) if between.size else float("inf")
        self.typical = float(np.median(self.depth)) if self.depth.size else 1.0
        spread = np.linalg.norm(self.translations - self.translations.mean(axis=0), axis=1)
        self.motion = float(spread.max())

    def has_order(self, order: int) -> bool:
        """Whether the poses of another order are known, and differ from those given."""
        return bool(self.others) and not np.array_equal(self.others[order - 1][1], self.translations)

    def among(self, chosen: NDArray[np.bool_]) -> "Samples":
        """Some of the samples, of the same views."""
        few = copy(self)
        few.pair, few.source, few.target = self.pair[chosen], self.source[chosen], self.target[chosen]
        few.column, few.row, few.depth = self.column[chosen], self.row[chosen], self.depth[chosen]
        few.rotations, few.translations, few._kept = self.rotations.copy(), self.translations.copy(), {}
        return few

    def forget(self) -> None:
        """Drop cached projections after a change of the depths."""
        self._kept.clear()

    def _draw(self, count: int, rng: np.random.Generator) -> None:
        """Draw the same number of known pixels for each pair, of a view that knows fewer no more than these."""
        share = share_of(count, len(self.sources))
        known = [np.flatnonzero(np.isfinite(self._map(index))) for index in range(len(self.starts))]
        pixels, pair = [], []
        for number, source in enumerate(self.sources):
            drawn = min(share, known[source].size)
            if drawn:
                pixels.append(rng.choice(known[source], drawn))
                pair.append(np.full(drawn, number))
        self.pair: Indices = np.concatenate(pair) if pair else np.empty(0, np.int64)
        pixel: Indices = np.concatenate(pixels) if pixels else np.empty(0, np.int64)
        self.source, self.target = self.sources[self.pair], self.targets[self.pair]
        width = self.widths[self.source]
        self.column, self.row = (pixel % width).astype(np.float64), (pixel // width).astype(np.float64)
        self.depth: Coordinates = self.depths[self.starts[self.source] + pixel].astype(np.float64)

    def _map(self, index: int) -> NDArray[np.float32]:
        start = self.starts[index]
        return self.depths[start : start + self.heights[index] * self.widths[index]]

    def residuals(self, hypothesis: Hypothesis, every: int = 1) -> Residuals:
        """Residuals of all samples, or every n-th: p = factor (R ray z) + t, looked up in the target."""
        turned, moved = self._turned(replace(hypothesis, name="", factor=1.0))
        chosen = slice(None, None, every)
        target = self.target[chosen]
        fx, fy, cx, cy = self._k(target, hypothesis)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            x, y, z = (hypothesis.factor * turned[axis, chosen] + moved[axis, chosen] for axis in range(3))
            in_front = np.where(z > 0, z, np.nan)
            u, v = fx * (x / in_front) + cx, fy * (y / in_front) + cy
            inside = (u >= 0) & (v >= 0) & (u <= self.widths[target] - 1) & (v <= self.heights[target] - 1)
            inverse = self._inverse_depth(target, np.where(inside, u, 0), np.where(inside, v, 0), hypothesis)
            posed = float(np.isfinite(moved[0, chosen]).mean()) if hypothesis.order and target.size else 1.0
            return Residuals(np.where(inside, np.log(in_front * inverse), np.nan), inside, posed)

    def _turned(self, hypothesis: Hypothesis) -> tuple[Coordinates, Coordinates]:
        """Points (3, M) rotated into the target, and its translation (3, M); cached, as factors change neither."""
        if hypothesis not in self._kept:
            z = self._z(self.depth, self.source, self.column, self.row, hypothesis)
            fx, fy, cx, cy = self._k(self.source, hypothesis)
            x, y = (self.column - cx) / fx * z, (self.row - cy) / fy * z
            rotation, translation = self._target_from_source(hypothesis)
            points = np.einsum("mij,jm->im", rotation[self.pair], np.stack([x, y, z]))
            self._kept[hypothesis] = points, np.ascontiguousarray(translation[self.pair].T)
        return self._kept[hypothesis]

    def _k(self, view: Indices, h: Hypothesis) -> tuple[Coordinates, Coordinates, Coordinates, Coordinates]:
        """fx, fy, cx, cy of views under a hypothesis."""
        fx, fy, cx, cy = h.enlarged * self.intrinsics[view].T
        if h.swapped:
            cx, cy = cy, cx
        if h.resized:
            width, height = self.widths[view], self.heights[view]
            fx, fy, cx, cy = fx * width / (2 * cx), fy * height / (2 * cy), (width - 1) / 2, (height - 1) / 2
        fx, fy, cx, cy = h.focal * fx, h.focal * fy, cx + h.shift, cy + h.shift
        if h.mirrored:
            fx, cx = -fx, self.widths[view] - 1 - cx
        if h.flipped:
            fy, cy = -fy, self.heights[view] - 1 - cy
        return fx, fy, cx, cy

    def parallax(self, hypothesis: Hypothesis) -> float:
        """Median displacement, in pixels, of a sample in the neighbour's image by the camera's translation."""
        if self.depth.size == 0:
            return 0.0
        moved = np.linalg.norm(self._target_from_source(hypothesis)[1], axis=1)[self.pair]
        z = self._z(self.depth, self.source, self.column, self.row, hypothesis)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return float(np.nanmedian(np.abs(self._k(self.source, hypothesis)[0]) * moved / z))

    def turn(self) -> float:
        """Median displacement, in pixels, of the image by the camera's rotation."""
        between, _ = self._target_from_source(STATED)
        angle = np.arccos(np.clip((np.trace(between, axis1=1, axis2=2) - 1) / 2, -1, 1))
        return float(np.median(angle * self.intrinsics[self.sources][:, 0]))

    def _z(self, value: Coordinates, view: Indices, column: Points, row: Points, h: Hypothesis) -> Coordinates:
        """Depth along the axis for the stored value of a pixel."""
        match h.meaning:
            case Meaning.z:
                return value * h.factor
            case Meaning.ray:
                fx, fy, cx, cy = self._k(view, h)
                across, down = (column - cx) / fx, (row - cy) / fy
                return np.asarray(value * h.factor / np.sqrt(1 + across * across + down * down))
            case Meaning.disparity:
                return np.asarray(h.factor / value)

    def _target_from_source(self, hypothesis: Hypothesis) -> tuple[Matrix, Matrix]:
        """Rotations (P, 3, 3) and translations (P, 3), one per pair."""
        rotation, translation = (
            self.others[hypothesis.order - 1]
            if hypothesis.order
            else (
                self.rotations,
                self.translations,
            )
        )
        if hypothesis.inverse:
            translation = -np.einsum("kji,kj->ki", rotation, translation)
            rotation = rotation.swapaxes(1, 2)
        if hypothesis.positions:
            translation = -np.einsum("kij,kj->ki", rotation, translation)
        if hypothesis.rotations:
            rotation = rotation.swapaxes(1, 2)
        if hypothesis.axes != OPENCV:
            rotation = rotation @ turn_of(hypothesis.axes)
        to = rotation[self.targets].swapaxes(1, 2)
        between = translation[self.sources] - translation[self.targets]
        return to @ rotation[self.sources], np.einsum("pij,pj->pi", to, between)

    def _inverse_depth(self, view: Indices, u: Coordinates, v: Coordinates, h: Hypothesis) -> Coordinates:
        """1 / z of a view, interpolated between four pixels of one surface (planes are linear in it), else nearest."""
        width = self.widths[view]
        left = np.minimum(u.astype(np.int64), np.maximum(width - 2, 0))
        top = np.minimum(v.astype(np.int64), np.maximum(self.heights[view] - 2, 0))
        right, low = np.minimum(left + 1, width - 1), np.minimum(top + 1, self.heights[view] - 1)
        upper, lower = self.starts[view] + top * width, self.starts[view] + low * width

        def corner(line: Indices, row: Indices, column: Indices) -> Coordinates:
            held = self.depths[line + column].astype(np.float64)
            held = held if self.trial is None else self.trial(held, view)
            return np.asarray(1 / self._z(held, view, column, row, h))

        first, second = corner(upper, top, left), corner(upper, top, right)
        third, fourth = corner(lower, low, left), corner(lower, low, right)
        a, b = u - left, v - top
        largest = np.maximum(np.maximum(first, second), np.maximum(third, fourth))
        smallest = np.minimum(np.minimum(first, second), np.minimum(third, fourth))
        above, below = first + a * (second - first), third + a * (fourth - third)
        nearest = np.where(b < 0.5, np.where(a < 0.5, first, second), np.where(a < 0.5, third, fourth))
        return np.where(largest - smallest < SMOOTH * largest, above + b * (below - above), nearest)


def _groups(count: int, frames: int, around: int | None = None) -> list[list[int]]:
    """Groups of views that are compared with each other: all of a few, else near and distant frames at some places.

    A few of many are those around one of them, which is the middle one unless given.
    """
    if count < 2:
        raise InputError(f"a check needs two views of the same surface; {count} was given")
    if count <= frames:
        return [list(range(count))]
    if frames < FEW:
        span = min(count, OFFSETS[-1])
        middle = count // 2 if around is None else around
        first = min(max(middle - span // 2, 0), count - span)
        chosen = first + np.linspace(0, span - 1, frames).astype(int)
        if around is not None:
            chosen[np.argmin(np.abs(chosen - around))] = around
        return [sorted({int(each) for each in chosen})]
    starts = np.linspace(0, count - 1 - OFFSETS[-1], GROUPS) if count > OFFSETS[-1] + GROUPS else [0.0]
    return [sorted({min(count - 1, int(start) + offset) for offset in OFFSETS}) for start in starts]


def _poses(views: Sequence[View], numbers: Indices) -> tuple[Matrix, Matrix]:
    """Rotations and translations of views; NaN for -1."""
    rotations = np.full((len(numbers), 3, 3), np.nan)
    translations = np.full((len(numbers), 3), np.nan)
    for index, number in enumerate(numbers):
        if number >= 0:
            pose = views[int(number)].pose
            rotations[index], translations[index] = pose.rotation, pose.translation
    return rotations, translations


def _intrinsics(view: View) -> tuple[float, float, float, float]:
    assert isinstance(view.camera, Pinhole)
    return view.camera.fx, view.camera.fy, view.camera.cx, view.camera.cy
