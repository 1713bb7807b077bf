"""Noise models: frozen, called with a depth map and a generator, joined by `+`.

Depths that noise makes zero or negative become NaN: sensors do not report them, and views cannot hold them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import isfinite

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Mask
from cfusion.errors import InputError


class Noise(ABC):
    """A model of a sensor's errors."""

    @abstractmethod
    def __call__(self, depth: DepthMap, rng: Generator) -> DepthMap:
        """The observed depth (H, W); unknown pixels stay unknown."""

    def __add__(self, other: "Noise") -> "Chain":
        """First this noise, then the other."""
        return Chain((self, other))


@dataclass(frozen=True)
class Chain(Noise):
    """Several noise models, one after the other."""

    links: tuple[Noise, ...]

    def __call__(self, depth: DepthMap, rng: Generator) -> DepthMap:
        for link in self.links:
            depth = link(depth, rng)
        return depth


class Additive(Noise):
    """Noise that is added to the depth."""

    @abstractmethod
    def residual(self, depth: DepthMap, rng: Generator) -> NDArray[np.float64]:
        """The error (H, W) that is added, drawn for every pixel."""

    def __call__(self, depth: DepthMap, rng: Generator) -> DepthMap:
        return positive(depth + self.residual(depth, rng))


@dataclass(frozen=True)
class Laplace(Additive):
    """Independent Laplace noise, density exp(-|n| / scale) / (2 scale), in the unit of depth."""

    scale: float

    def __post_init__(self) -> None:
        check_at_least_zero("scale", self.scale)

    def residual(self, depth: DepthMap, rng: Generator) -> NDArray[np.float64]:
        return rng.laplace(0.0, self.scale, depth.shape)


@dataclass(frozen=True)
class Gauss(Additive):
    """Independent Gaussian noise of standard deviation sigma, in the unit of depth."""

    sigma: float

    def __post_init__(self) -> None:
        check_at_least_zero("sigma", self.sigma)

    def residual(self, depth: DepthMap, rng: Generator) -> NDArray[np.float64]:
        return rng.normal(0.0, self.sigma, depth.shape)


@dataclass(frozen=True)
class Stereo(Additive):
    """Gaussian noise on disparity = focal_baseline / depth; in depth it grows as depth^2 / focal_baseline."""

    sigma_disparity: float  # pixels
    focal_baseline: float  # focal length in pixels times baseline in the unit of depth

    def __post_init__(self) -> None:
        check_at_least_zero("sigma_disparity", self.sigma_disparity)
        if not (isfinite(self.focal_baseline) and self.focal_baseline > 0):
            raise InputError(f"focal_baseline is {self.focal_baseline}; give a positive number")

    def residual(self, depth: DepthMap, rng: Generator) -> NDArray[np.float64]:
        disparity = self.focal_baseline / depth.astype(np.float64)
        disparity += rng.normal(0.0, self.sigma_disparity, depth.shape)
        seen = self.focal_baseline / np.where(disparity > 0, disparity, np.nan)
        return np.asarray(seen - depth)


@dataclass(frozen=True)
class Regional(Additive):
    """Noise that is `factor` times larger in a smooth random region of about `fraction` of the pixels.

    A new region is drawn at each call, so views are bad in different places.
    """

    fraction: float
    factor: float
    base: Additive = field(default_factory=lambda: Laplace(0.1))
    smoothness: float = 0.08  # correlation length of the region's shape over the longer side

    def __post_init__(self) -> None:
        check_fraction(self.fraction)
        check_at_least_zero("factor", self.factor)
        check_at_least_zero("smoothness", self.smoothness)

    def residual(self, depth: DepthMap, rng: Generator) -> NDArray[np.float64]:
        region = _smooth_region(~np.isnan(depth), self.fraction, self.smoothness * max(depth.shape), rng)
        return np.where(region, self.factor, 1.0) * self.base.residual(depth, rng)


@dataclass(frozen=True)
class Outliers(Noise):
    """Each known pixel is replaced, with probability `fraction`, by a depth uniform in [low, high]."""

    fraction: float
    low: float
    high: float

    def __post_init__(self) -> None:
        check_fraction(self.fraction)
        if not 0 < self.low <= self.high < np.inf:
            raise InputError(f"outliers from {self.low} to {self.high}; give 0 < low <= high")

    def __call__(self, depth: DepthMap, rng: Generator) -> DepthMap:
        struck = (rng.uniform(size=depth.shape) < self.fraction) & ~np.isnan(depth)
        return positive(np.where(struck, rng.uniform(self.low, self.high, depth.shape), depth))


@dataclass(frozen=True)
class Holes(Noise):
    """Random discs become unknown until `fraction` of the image is covered; the last disc may exceed it."""

    fraction: float
    radius: float  # pixels

    def __post_init__(self) -> None:
        check_fraction(self.fraction)
        if not self.radius > 0:
            raise InputError(f"radius is {self.radius}; give a positive radius in pixels")

    def __call__(self, depth: DepthMap, rng: Generator) -> DepthMap:
        holes = np.zeros(depth.shape, dtype=np.bool_)
        height, width = depth.shape
        covered = 0
        while covered < self.fraction * holes.size:
            y, x = rng.uniform(0, height), rng.uniform(0, width)
            rows = np.arange(max(0, int(y - self.radius)), min(height, int(y + self.radius) + 2))
            columns = np.arange(max(0, int(x - self.radius)), min(width, int(x + self.radius) + 2))
            disc = (rows[:, None] - y) ** 2 + (columns[None, :] - x) ** 2 <= self.radius**2
            window = holes[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            covered += int(np.count_nonzero(disc & ~window))
            window |= disc
        return np.where(holes, np.float32(np.nan), depth)


def _smooth_region(known: Mask, fraction: float, sigma: float, rng: Generator) -> Mask:
    """The pixels with the largest values of a random field blurred by a Gaussian of sigma pixels."""
    field = rng.normal(size=known.shape)
    rows, columns = np.fft.fftfreq(known.shape[0]), np.fft.rfftfreq(known.shape[1])
    squared = rows[:, None] ** 2 + columns[None, :] ** 2
    spectrum = np.fft.rfft2(field) * np.exp(-2.0 * (np.pi * sigma) ** 2 * squared)
    field = np.fft.irfft2(spectrum, known.shape)
    if not known.any():
        return np.zeros_like(known)
    return np.asarray(field > np.quantile(field[known], 1.0 - fraction))


def positive(depth: NDArray[np.floating]) -> DepthMap:
    """The depth in float32, NaN where it is not positive."""
    seen = depth.astype(np.float32)
    seen[~(seen > 0)] = np.nan
    return seen


def check_fraction(fraction: float) -> None:
    """Raise unless 0 <= fraction <= 1."""
    if not 0 <= fraction <= 1:
        raise InputError(f"fraction is {fraction}; give a number between 0 and 1")


def check_at_least_zero(name: str, value: float) -> None:
    """Raise if the value is negative or not a number."""
    if not (isfinite(value) and value >= 0):
        raise InputError(f"{name} is {value}; give a number of at least 0")
