"""The views read at a surface, interpolated between pixels where noise is smaller than the surface's changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import DepthMap, chunks, some_columns
from cfusion.auto.noise import LAPLACE_MEDIAN, SCALE_SAMPLE, depth_noise, middle_of, not_too_loud, usual_slope
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import one_pass
from cfusion.source import Reading, Source

BETWEEN = 6.0  # noise scales: neighbours that differ by less are of one surface, and are interpolated


@dataclass(frozen=True, eq=False)
class Read:
    """A reading and its noise."""

    reading: Reading
    growth: DepthNoise
    scales: list[float]  # (K,) Laplace scales of the views' residuals, in the unit of the noise
    slope: float  # median change of the surface between pixels, in that unit
    between: bool  # whether views were interpolated between pixels, instead of read at the nearest one


def read_surface(source: Source, surface: DepthMap, backend: Backend) -> Read:
    """Read every view at the surface."""
    reading = source.at(surface, [0.0] * source.n_views, backend)
    growth = depth_noise(reading.depths, surface, backend)
    slope = usual_slope(surface, growth, backend)
    scales = residual_sizes(reading, surface, growth, backend)
    between = middle_of(scales) < slope
    if between:
        reading = source.at(surface, [BETWEEN * max(scale, slope) for scale in scales], backend)
        scales = residual_sizes(reading, surface, growth, backend)
    return Read(reading, growth, scales, slope, between)


def residual_sizes(reading: Reading, surface: DepthMap, growth: DepthNoise, backend: Backend) -> list[float]:
    """The Laplace scale (K,) of each view's residuals, by their median size."""
    depths, surface, unit = (
        some_columns(each, SCALE_SAMPLE) for each in (reading.depths, surface, growth.unit(surface))
    )
    sizes = [backend.medians(_sizes(part, surface, unit))[0] for part in chunks(depths)]
    return not_too_loud([size / LAPLACE_MEDIAN for some in sizes for size in some])


@one_pass
def _sizes(depths: Floats, depth: Floats, unit: Floats) -> Floats:
    sizes: Floats = np.abs(depths - depth) / unit
    return sizes
