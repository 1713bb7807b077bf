"""How noise grows with depth: the power is found, or nothing is claimed."""

import numpy as np
import pytest

from cfusion.kernels.depth_noise import CONSTANT, DepthNoise, fit_power_law


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
