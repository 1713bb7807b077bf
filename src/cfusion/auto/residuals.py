"""The views read at a surface, their residuals, and the noise that these show: what every decision starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto import noise
from cfusion.auto.misreading import independence, usual_parallax
from cfusion.auto.reading import Read
from cfusion.auto.settings import NO_NOISE
from cfusion.auto.votes import in_units
from cfusion.geometry import Pinhole
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.source import Reading, Source


@dataclass(frozen=True, eq=False)
class Residuals:
    """A reading of the surface, and the noise that it shows; lengths in the unit of the noise."""

    reading: Reading
    growth: DepthNoise
    unit: Floats  # (H, W) of the noise, in the unit of depth
    away: Floats  # (K, H, W) measured minus surface
    scales: list[float]  # (K,) noise of the views
    usual: float  # noise of the median view
    least: float  # that of exact maps
    slope: float  # usual change of the surface between pixels
    blind: float  # error of a reading, below which residuals tell nothing
    gate: float  # noise scales from which a measurement is of another surface
    independent: float  # from one (errors of neighbouring pixels are independent) to zero
    parallax: Floats  # (K, H, W) pixels per unit of depth
    moved: list[float]  # (K,) the usual one

    @property
    def size(self) -> np.float32:
        """The usual residual of a point of the surface."""
        return np.float32(max(self.usual, self.slope))

    @property
    def far(self) -> np.float32:
        """The residual from which a measurement is usually of another surface."""
        return np.float32(self.gate) * self.size

    @property
    def limits(self) -> list[float]:
        """(K,) beyond which a measurement of the view is of another surface."""
        return [self.gate * max(scale, self.slope, NO_NOISE) for scale in self.scales]


def residuals_at(source: Source, surface: DepthMap, gate: float, read: Read | None, backend: Backend) -> Residuals:
    """The views read at the surface, between pixels if their noise is below its change from pixel to pixel.

    `read` is a reading at the nearest pixels, if there is one already.
    """
    reading = source.at(surface, [0.0] * source.n_views, backend) if read is None else read.reading
    growth = noise.depth_noise(reading.depths, surface, backend) if read is None else read.growth
    unit = growth.unit(surface)
    slope = noise.usual_slope(surface, growth, backend) if read is None else read.slope
    least = noise.least_scale(growth.middle, perspective=isinstance(source.frame.camera, Pinhole))
    away = in_units(reading.depths, surface, unit)
    scales, sides = noise.residual_scales(away, backend, least)
    if noise.middle_of(scales) < slope:
        agreements = [gate * max(scale, slope) for scale in scales]
        reading = source.at(surface, agreements, backend)
        away = in_units(reading.depths, surface, unit)
        scales, sides = noise.residual_scales(away, backend, least)
    usual = noise.middle_of(scales)
    usual = usual if usual > 0 else NO_NOISE
    blind = noise.reading_error(source.frame.camera, growth.middle)
    independent = independence(away, sides, usual, blind) if source.n_views > 1 else 1.0
    parallax = source.parallax(surface, backend)
    moved = usual_parallax(parallax, backend)
    return Residuals(
        *(reading, growth, unit, away, scales, usual, least, slope, blind, gate, independent, parallax, moved)
    )
