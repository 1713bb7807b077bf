"""The law of noise over depth: constant, proportional, or quadratic as for stereo.

Whatever depends on the form of the law is in this file. A pass gets the numbers of a `DepthNoise` as arguments and the
rest as a choice: called as `f(surface, *growth.numbers, law=growth.law)`, it computes with `law.at(*numbers)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.kernels.one_pass import one_pass

BINS, FEWEST = 8, 50  # of depth, and fewest errors in each
LEAST_RANGE = 1.3  # ratio of the start of the last bin to the end of the first; below, growth does not matter
NUMBERS = 1 + 2 * BINS  # that a device finds
Bins = tuple[NDArray[np.float64], NDArray[np.float64]]  # middle depth and median size of errors, (BINS,) or empty


@dataclass(frozen=True)
class DepthNoise:
    """Noise grows as (depth / middle)^power, relative to that at the middle depth."""

    middle: float
    power: int

    @staticmethod
    def fitted(middle: float, bins: Bins) -> DepthNoise:
        """The law that the sizes of errors follow: the nearest whole power from 0 to 2."""
        return DepthNoise(middle, min(max(round(exponent(*bins)), 0), 2))

    @property
    def numbers(self) -> tuple[np.float32, ...]:
        """What differs from surface to surface: arguments of a pass."""
        return (np.float32(self.middle),)

    @property
    def law(self) -> DepthNoise:
        """The law without its numbers, for which a pass is compiled."""
        return _law(self.power)

    def at(self, middle: Any) -> DepthNoise:
        """The law with these numbers."""
        return replace(self, middle=middle)

    def even(self, *, inverse: bool) -> bool:
        """Whether the noise is the same at any depth, of depth or of inverse depth."""
        return self.power == 2 * inverse

    @property
    def stated(self) -> tuple[float, ...]:
        """All of it, as choices report it."""
        return self.middle, self.power

    @staticmethod
    def of(stated: Sequence[float]) -> DepthNoise:
        """The law that choices report."""
        return DepthNoise(stated[0], int(stated[1]))

    def unit(self, depth: NDArray[Any]) -> NDArray[Any]:
        """The factor by which depths are divided to make their noise equal; one where depth is unknown."""
        return unit_of(depth, *self.numbers, law=self.law)

    def formula(self, depth: Any) -> Any:
        """The same inside a pass."""
        grown = np.abs(depth / self.middle) ** self.power
        return np.where(np.isfinite(grown), grown, np.float32(1)).astype(np.float32)

    def residual(self, depth: Any, surface: Any) -> Any:
        """|d - z| of a measurement of a surface in the unit at z, or in that at sqrt(d z) in front of it.

        With p = 2 residuals are those of disparities. With the unit at z anything in front of a distant surface would
        be its noise.
        """
        away = np.abs(depth - surface)
        if self.even(inverse=False):
            return away
        nearer = np.clip(depth / surface, np.float32(0), np.float32(1))
        return away / (self.formula(surface) * nearer ** (self.power / 2))

    def weight(self, depth: Any, *, inverse: bool) -> Any:
        """The weight of a depth or an inverse depth, over that at the middle: 1 / noise, (z / m)^(2 inverse - p)."""
        power = 2 * inverse - self.power
        grown = np.abs(depth / self.middle) ** abs(power)
        return grown if power > 0 else 1 / grown

    def of_constant_noise(self, depth: Any) -> Any:
        """A function of depth with constant noise: the integral of m^p / z^p. Not for p = 2: it is the inverse."""
        return self.middle * np.log(depth) if self.power else depth


@one_pass
def unit_of(depth: NDArray[Any], *numbers: np.float32, law: DepthNoise) -> NDArray[Any]:
    """The same as `DepthNoise.unit`."""
    unit: NDArray[Any] = law.at(*numbers).formula(depth)
    return unit


@cache
def _law(power: int) -> DepthNoise:
    return DepthNoise(1.0, power)


CONSTANT = DepthNoise(1.0, 0)


def sizes_over_depth(surface: NDArray[Any], depths: NDArray[Any], every: int) -> tuple[float, Bins]:
    """The median of x > 0 and sizes of |d_k - x| over x, from each `every`-th row and column."""
    if hasattr(type(surface), "__cuda_array_interface__"):
        found: tuple[float, Bins] = _on_gpu()(surface, depths, every)
        return found
    sample = np.concatenate([array[..., ::every, ::every] for array in (surface[None], depths)])
    depth, measured = sample[0], sample[1:]
    bins = binned(np.broadcast_to(depth, measured.shape), np.abs(measured - depth))
    known = depth[depth > 0]
    return float(np.median(known)) if known.size else float("nan"), bins


def taken_apart(found: NDArray[np.float64]) -> tuple[float, Bins]:
    """The same from one array, with NaN for empty bins."""
    middle, depths, sizes = found[0], found[1 : 1 + BINS], found[1 + BINS :]
    return float(middle), (depths[~np.isnan(depths)], sizes[~np.isnan(sizes)])


@cache
def _on_gpu() -> Any:
    return import_module("cfusion.kernels.cuda.growth").sizes_over_depth


def binned(depths: NDArray[Any], sizes: NDArray[Any]) -> Bins:
    """Sizes of errors at these depths, in bins of equal counts; empty if the range or the number is too small."""
    usable = np.isfinite(sizes) & (sizes > 0) & (depths > 0)
    depths, sizes = depths[usable], sizes[usable]
    each = depths.size // BINS
    if each < FEWEST:
        return np.empty(0), np.empty(0)
    near, far = np.partition(depths, [each - 1, (BINS - 1) * each])[[each - 1, (BINS - 1) * each]]
    if far < LEAST_RANGE * near:
        return np.empty(0), np.empty(0)
    order = np.argsort(depths)[: each * BINS].reshape(BINS, each)
    level = np.partition(sizes[order], each // 2, axis=1)[:, each // 2]
    return depths[order[:, each // 2]].astype(np.float64), level.astype(np.float64)


def exponent(depths: NDArray[np.float64], sizes: NDArray[np.float64]) -> float:
    """The exponent p of sizes that grow as depth^p; zero for empty bins."""
    if not depths.size:
        return 0.0
    place = np.log(depths)
    place -= place.mean()
    return float(place @ np.log(sizes) / (place @ place))
