"""How noise grows with depth: the power is found, or nothing is claimed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.emulation import Emulator

from cfusion import kernels
from cfusion.errors import BackendUnavailable
from cfusion.kernels.depth_noise import BINS, CONSTANT, FEWEST, LEAST_RANGE, DepthNoise, fit_power_law, growth

Growth = Callable[[np.ndarray, np.ndarray, int], tuple[float, float]]


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_powers_are_found(power, seed):
    rng = np.random.default_rng(seed)
    depths = rng.uniform(2, 20, (3, 60, 60)).astype(np.float32)
    sizes = np.abs(rng.laplace(0, 0.01 * depths**power)).astype(np.float32)
    sizes[rng.random(sizes.shape) < 0.1] = np.nan
    assert fit_power_law(depths, sizes) == pytest.approx(power, abs=0.2)
    assert fit_power_law(1000 * depths, 1e-3 * sizes) == pytest.approx(fit_power_law(depths, sizes), abs=1e-3)


def test_too_little_says_nothing():
    rng = np.random.default_rng(0)
    narrow = rng.uniform(4, 5, 5000)
    assert fit_power_law(narrow, np.abs(rng.laplace(0, narrow**2))) == 0
    assert fit_power_law(rng.uniform(2, 20, 300), rng.uniform(0, 1, 300)) == 0
    assert fit_power_law(-rng.uniform(2, 20, 5000), rng.uniform(0, 1, 5000)) == 0


def test_units_even_the_noise_out():
    depth = np.array([1.0, 2.0, 4.0, np.nan], np.float32)
    assert DepthNoise(2.0, 2).unit(depth).tolist() == [0.25, 1.0, 4.0, 1.0]
    assert DepthNoise(2.0, 1).unit(depth).tolist() == [0.5, 1.0, 2.0, 1.0]
    assert CONSTANT.unit(depth).tolist() == [1.0, 1.0, 1.0, 1.0]


def emulated(folder: Path) -> Growth:
    """The kernel of `kernels/cuda/growth.cu`, its keys in a buffer."""
    law = f"BINS={BINS}", f"FEWEST={FEWEST}", f"LEAST_RANGE={LEAST_RANGE}"
    launch = Emulator(folder).kernel(("reduce.cuh", "growth.cu"), "growth", (*law, "THREADS=1024", "IN_SHARED=0"))

    def run(surface: np.ndarray, depths: np.ndarray, every: int) -> tuple[float, float]:
        places = surface[::every, ::every].size
        items = [-(-number // 1024) for number in (places, len(depths) * places)]
        room, found = np.empty(1024 * items[1], np.uint64), np.empty(2)
        sizes = (np.int32(each) for each in (*depths.shape, every, *items))
        launch((1,), (1024,), (surface, depths, *sizes, room, found))
        return float(found[0]), float(found[1])

    return run


@pytest.fixture(scope="module", params=["emulated", "gpu"])
def on_device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Growth:
    if request.param == "emulated":
        return emulated(tmp_path_factory.getbasetemp())
    try:
        backend = kernels.load("cuda")
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    return lambda *maps, every: growth(*(backend.to_device(each, np.float32) for each in maps), every)


@pytest.mark.parametrize(
    ("shape", "every", "deepest"),
    [((3, 60, 61), 1, 20.0), ((3, 60, 61), 2, 20.0), ((2, 7, 9), 3, 20.0), ((4, 40, 50), 1, 2.4), ((1, 1, 1), 1, 3.0)],
)
@pytest.mark.parametrize("power", [0, 1, 2])
def test_a_device_finds_the_same_growth(on_device: Growth, shape, every, deepest, power):
    """Of a surface with holes and ties; also where the sample is too small, or of too small a range."""
    rng = np.random.default_rng(power)
    surface = rng.uniform(2, deepest, shape[1:]).astype(np.float32).round(2)
    surface[rng.random(surface.shape) < 0.1] = np.nan
    surface[rng.random(surface.shape) < 0.02] *= -1
    surface.flat[0] = 2.5
    depths = (surface + rng.laplace(0, 0.01 * np.nan_to_num(np.abs(surface)) ** power, shape)).astype(np.float32)
    depths[rng.random(shape) < 0.1] = np.nan
    found, middle = on_device(surface, depths, every=every)
    defined, known = growth(surface, depths, every)
    assert found == pytest.approx(defined, abs=0.02)  # ties may fall into another bin
    assert middle == known


def test_a_device_finds_no_growth_where_nothing_is_known(on_device: Growth):
    unknown = np.full((5, 6), np.nan, np.float32)
    found, middle = on_device(unknown, unknown[None], every=1)
    assert found == 0
    assert np.isnan(middle)
