"""The growth of noise with depth: constant, proportional, or quadratic as for stereo."""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.kernels.one_pass import one_pass

BINS, FEWEST = 8, 50  # of depth, and fewest errors in each
LEAST_RANGE = 1.3  # ratio of the start of the last bin to the end of the first; below, growth does not matter


@dataclass(frozen=True)
class DepthNoise:
    """Noise grows as (depth / middle)^power, relative to that at the middle depth."""

    middle: float
    power: int

    def unit(self, depth: NDArray[Any]) -> NDArray[Any]:
        """The factor by which depths are divided to make their noise equal; one where depth is unknown."""
        return unit_of(depth, np.float32(self.middle), power=self.power)


@one_pass
def unit_of(depth: NDArray[Any], middle: np.float32, *, power: int) -> NDArray[Any]:
    """The same as `DepthNoise.unit`."""
    grown = np.abs(depth / middle) ** power
    return np.where(np.isfinite(grown), grown, np.float32(1)).astype(np.float32)


CONSTANT = DepthNoise(1.0, 0)


def growth(surface: NDArray[Any], depths: NDArray[Any], every: int) -> tuple[float, float]:
    """The power of x with which |d_k - x| grows, from each `every`-th row and column, and the median of x > 0."""
    if hasattr(type(surface), "__cuda_array_interface__"):
        found: tuple[float, float] = _on_gpu()(surface, depths, every)
        return found
    sample = np.concatenate([array[..., ::every, ::every] for array in (surface[None], depths)])
    depth, measured = sample[0], sample[1:]
    power = fit_power_law(np.broadcast_to(depth, measured.shape), np.abs(measured - depth))
    known = depth[depth > 0]
    return power, float(np.median(known)) if known.size else float("nan")


@cache
def _on_gpu() -> Any:
    return import_module("cfusion.kernels.cuda.growth").growth


def fit_power_law(depths: NDArray[Any], sizes: NDArray[Any]) -> float:
    """The exponent p of errors of these sizes that grow as depth^p; zero if the range or number is too small."""
    usable = np.isfinite(sizes) & (sizes > 0) & (depths > 0)
    depths, sizes = depths[usable], sizes[usable]
    each = depths.size // BINS
    if each < FEWEST:
        return 0.0
    near, far = np.partition(depths, [each - 1, (BINS - 1) * each])[[each - 1, (BINS - 1) * each]]
    if far < LEAST_RANGE * near:
        return 0.0
    order = np.argsort(depths)[: each * BINS].reshape(BINS, each)  # bins with equal counts
    middle = depths[order[:, each // 2]].astype(np.float64)
    level = np.partition(sizes[order], each // 2, axis=1)[:, each // 2]
    place, level = np.log(middle), np.log(level.astype(np.float64))
    place -= place.mean()
    return float(place @ level / (place @ place))
