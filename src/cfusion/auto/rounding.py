"""The steps to which the depths of a map are rounded, from the values that it repeats.

Sensors with few levels of disparity and maps stored as integers have depths in steps of c z^p: p = 0 for rounded
depths, p = 2 for rounded disparities. A sum of |x - d| over rounded depths d is least at one of them: the surface of a
wall would stick to the level nearest to it, by up to half a step, however many observations there are. So observations
are spread over their step before a fit, as those of a rounded depth are in truth: their sum is then least where the
share of levels above and below says, as in the median of grouped data. Only fits see the offsets: a measurement is
compared with the surface as it is.

On a wall within one step all observations are off alike: neither their residuals nor halves of them show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, stride_for
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import one_pass, rewrite

SAMPLE = 20_000  # pixels
REPEATED = 0.5  # of the pixels have a value that another one has: depths that are not rounded hardly have any
FEWEST_LEVELS = 8  # fewer may be as many walls
POWERS = (0, 1, 2)
SMALLEST = 0.25  # quantile of the steps: levels that no pixel has make others larger
MOST_STEPS, WHOLE, EVEN = 4.5, 0.25, 0.9  # of distances up to so many steps (sensors have 0.96 to 1, walls 0.2 to 0.8)
LESS_THAN_A_STEP, FEW_STEPS = 0.5, 3.5  # differences between neighbours on a slope
BENT = 0.25  # share of the slope's pixels whose two differences are not the same
COPY_SAMPLE = 5_000  # pixels by which maps are compared


@dataclass(frozen=True)
class Rounding:
    """Depths in steps of this size at the middle depth, which grow with it."""

    step: float
    growth: DepthNoise


def rounding_of(depth: DepthMap, backend: Backend) -> Rounding | None:
    """The rounding of a map (H, W); None if its values are not rounded, or too few to tell."""
    every = stride_for(depth.size, SAMPLE)
    ordered = np.sort(backend.to_host(depth[::every, ::every]), axis=None)
    ordered = ordered[: np.searchsorted(ordered, np.inf)]  # the known ones
    if 2 * np.count_nonzero(ordered[1:] == ordered[:-1]) < REPEATED * len(ordered):  # a quick look: most are not
        return None
    levels, counts = np.unique(ordered, return_counts=True)
    repeated = counts > 1
    if counts[repeated].sum() < max(REPEATED * counts.sum(), FEWEST_LEVELS):
        return None
    levels = levels[repeated].astype(np.float64)
    if len(levels) < FEWEST_LEVELS:
        return None
    positive = levels[0] > 0  # heights may not be, and have equal steps
    middle, between = float(np.median(levels)) if positive else 1.0, (levels[1:] + levels[:-1]) / 2
    steps = [np.diff(levels) / (between / middle) ** power for power in (POWERS if positive else POWERS[:1])]
    power = min(range(len(steps)), key=lambda each: float(np.std(np.log(steps[each]))))
    found = Rounding(float(np.quantile(steps[power], SMALLEST)), DepthNoise(middle, power))
    even = _are_even(steps[power] / found.step) and _in_single_steps(depth, found, backend)
    return found if even else None


def _are_even(steps: Floats) -> bool:
    """Whether distances of levels are whole numbers of steps, some being left out; those of exact walls are not."""
    near = steps[steps < MOST_STEPS]
    return bool(np.mean(np.abs(near - np.maximum(np.round(near), 1)) < WHOLE) >= EVEN)


def _in_single_steps(depth: DepthMap, rounding: Rounding, backend: Backend) -> bool:
    """Whether slopes bend by single steps, as they do between levels; exact planes along an axis of the image do not.

    The depths of such a plane are repeated all along a row, and in even steps (p = 2) from row to row. The rows and
    columns of a sample are looked at, where neighbours differ by a few steps.
    """
    every = stride_for(depth.size, SAMPLE) ** 2
    bends = []
    for lines in (backend.to_host(depth[::every]), backend.to_host(depth[:, ::every]).T):
        step = rounding.step * rounding.growth.unit((lines[:, 1:] + lines[:, :-1]) / 2)
        apart = np.diff(lines) / np.where(step > 0, step, np.nan)
        size = np.abs(apart)
        small, near = size < FEW_STEPS, (size < FEW_STEPS) & (size > LESS_THAN_A_STEP)
        sloped = (near[:, 1:] & small[:, :-1]) | (near[:, :-1] & small[:, 1:])
        bends.append(np.abs(np.diff(apart))[sloped])
    bend = np.concatenate(bends)
    return bool(np.mean(bend > LESS_THAN_A_STEP) >= BENT) if len(bend) else False


def spread_over_steps(stack: Stack, roundings: Sequence[Rounding | None], backend: Backend) -> Stack:
    """The stack with depths moved by up to half a step of their view; itself if no view has steps."""
    if not any(roundings):
        return stack
    steps = np.zeros((3, stack.views, 1, 1), np.float32)  # of power 0, 1 and 2
    for view, rounding in enumerate(roundings):
        if rounding is not None:
            power = rounding.growth.power
            steps[power, view] = rounding.step / rounding.growth.middle**power
    places = _places(stack, [view for view, each in enumerate(roundings) if each is not None], backend)
    rng, number = np.random.default_rng(0), _prime(int(places.max()) + 1)
    drawn, apart = rng.random(stack.shape, np.float32), rng.integers(1, number, stack.shape) / number
    maps = (backend.to_device(each, np.float32) for each in (drawn, apart))
    depths = stack.depths.copy()
    rewrite(_spread, (depths,), depths, *maps, places[:, None, None].astype(np.float32), *steps)
    return Stack.unchecked(depths, stack.weights, stack.camera, stack.image, stack.filled)


def _places(stack: Stack, views: Sequence[int], backend: Backend) -> NDArray[np.int_]:
    """The place (K,) of each view among those with steps: by what its observations are, not by the order of the views.

    Copies share theirs: moved by different shares of a step, they would pass for views with errors of their own.
    """
    every = stride_for(stack.depths[0].size, COPY_SAMPLE)
    samples = backend.to_host(stack.depths[:, ::every, ::every])
    places, first = np.zeros(stack.views, np.int_), list[int]()  # the view of each place
    for view in sorted(views, key=lambda view: _content(samples[view])):
        alike = (place for place, other in enumerate(first) if _are_copies(samples[view], samples[other]))
        places[view] = next(alike, len(first))
        if places[view] == len(first):
            first.append(view)
    return places


def _content(depth: DepthMap) -> tuple[int, float]:
    """Number and sum of the known depths."""
    known = np.isfinite(depth)
    return int(known.sum()), float(np.where(known, depth, 0).sum(dtype=np.float64))


def _are_copies(one: DepthMap, other: DepthMap) -> bool:
    """Whether all pixels that both maps measured are equal."""
    both = np.isfinite(one) & np.isfinite(other)
    return bool(both.any() and np.array_equal(one[both], other[both]))


def _prime(least: int) -> int:
    """The least prime that is not smaller."""
    number = max(least, 2)
    while any(number % divisor == 0 for divisor in range(2, int(np.sqrt(number)) + 1)):
        number += 1
    return number


@one_pass
def _spread(
    depths: Floats, drawn: Floats, apart: Floats, place: Floats, constant: Floats, linear: Floats, square: Floats
) -> Floats:
    """Depths (K, H, W) plus an offset of -1/2 to 1/2 steps.

    Offsets of a pixel are evenly spread over the places: `apart` (H, W) is m / p with a prime p and 0 < m < p drawn for
    each pixel. So those of any two places are as good as unrelated, and none predicts another.
    """
    at = drawn + place * apart
    share = at - np.floor(at) - np.float32(0.5)
    out: Floats = depths + share * (constant + depths * (linear + depths * square))
    return out


def steps_of(depth: DepthMap, rounding: Rounding | None) -> Floats:
    """The step (H, W) at these depths; zero without one."""
    return np.zeros_like(depth) if rounding is None else np.float32(rounding.step) * rounding.growth.unit(depth)
