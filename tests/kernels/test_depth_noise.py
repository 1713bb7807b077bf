"""How noise grows with depth: the power is found, or nothing is claimed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.emulation import Emulator
from tests.noise_laws import LAWS

from cfusion import kernels
from cfusion.errors import BackendUnavailable
from cfusion.kernels.depth_noise import (
    BINS,
    CONSTANT,
    FEWEST,
    LEAST_RANGE,
    NUMBERS,
    Bins,
    DepthNoise,
    binned,
    exponent,
    sizes_over_depth,
    taken_apart,
)

Found = Callable[[np.ndarray, np.ndarray, int], tuple[float, Bins]]


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_powers_are_found(power, seed):
    rng = np.random.default_rng(seed)
    depths = rng.uniform(2, 20, (3, 60, 60)).astype(np.float32)
    sizes = np.abs(rng.laplace(0, 0.01 * depths**power)).astype(np.float32)
    sizes[rng.random(sizes.shape) < 0.1] = np.nan
    found = exponent(*binned(depths, sizes))
    assert found == pytest.approx(power, abs=0.2)
    assert exponent(*binned(1000 * depths, 1e-3 * sizes)) == pytest.approx(found, abs=1e-3)


def test_too_little_says_nothing():
    rng = np.random.default_rng(0)
    narrow = rng.uniform(4, 5, 5000)
    assert exponent(*binned(narrow, np.abs(rng.laplace(0, narrow**2)))) == 0
    assert exponent(*binned(rng.uniform(2, 20, 300), rng.uniform(0, 1, 300))) == 0
    assert exponent(*binned(-rng.uniform(2, 20, 5000), rng.uniform(0, 1, 5000))) == 0


def test_units_even_the_noise_out():
    depth = np.array([1.0, 2.0, 4.0, np.nan], np.float32)
    assert DepthNoise(2.0, 2).unit(depth).tolist() == [0.25, 1.0, 4.0, 1.0]
    assert DepthNoise(2.0, 1).unit(depth).tolist() == [0.5, 1.0, 2.0, 1.0]
    assert CONSTANT.unit(depth).tolist() == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_what_is_said_of_a_law_follows_from_its_unit(law: DepthNoise) -> None:
    """Weights are 1 / noise, the variable of constant noise is the integral of 1 / unit, in front counts sqrt(d z)."""
    depth = np.geomspace(0.3, 30, 400)
    unit, middle = law.unit(depth), law.middle
    assert law.unit(np.array([middle])) == pytest.approx(1)
    for inverse in (False, True):
        if law.even(inverse=inverse):
            np.testing.assert_allclose((depth / middle) ** (2 * inverse), unit, rtol=1e-5)
        else:
            weight = law.weight(depth, inverse=inverse)
            np.testing.assert_allclose(weight, (depth / middle) ** (2 * inverse) / unit, rtol=1e-5)
    if not law.even(inverse=True):
        slopes = np.gradient(law.of_constant_noise(depth), depth)[1:-1]
        np.testing.assert_allclose(slopes, 1 / unit[1:-1], rtol=2e-3)
    measured = depth[:, None] * np.array([0.25, 0.5, 1.0, 1.5])
    between = np.sqrt(np.minimum(measured, depth[:, None]) * depth[:, None])
    wanted = np.abs(measured - depth[:, None]) / law.unit(between)
    np.testing.assert_allclose(law.residual(measured, depth[:, None]), wanted, rtol=1e-5)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_law_is_its_numbers_and_its_form(law: DepthNoise) -> None:
    assert law.law.at(*law.numbers) == law == DepthNoise.of(law.stated)
    other = type(law).of((2 * law.middle, *law.stated[1:]))
    assert other != law
    assert other.law == law.law  # one kernel for any numbers


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_law_of_some_sizes_is_found(law: DepthNoise) -> None:
    depth = np.geomspace(0.5, 20, BINS)
    found = DepthNoise.fitted(law.middle, (depth, 0.01 * law.unit(depth)))
    assert found.stated == pytest.approx(law.stated)
    assert DepthNoise.fitted(law.middle, (np.empty(0), np.empty(0))) == DepthNoise(law.middle, 0)


def emulated(folder: Path) -> Found:
    """The kernel of `kernels/cuda/growth.cu`, its keys in a buffer."""
    law = f"BINS={BINS}", f"FEWEST={FEWEST}", f"LEAST_RANGE={LEAST_RANGE}"
    launch = Emulator(folder).kernel(
        ("reduce.cuh", "growth.cu"), "sizes_over_depth", (*law, "THREADS=1024", "IN_SHARED=0")
    )

    def run(surface: np.ndarray, depths: np.ndarray, every: int) -> tuple[float, Bins]:
        places = surface[::every, ::every].size
        items = [-(-number // 1024) for number in (places, len(depths) * places)]
        room, found = np.empty(1024 * items[1], np.uint64), np.empty(NUMBERS)
        sizes = (np.int32(each) for each in (*depths.shape, every, *items))
        launch((1,), (1024,), (surface, depths, *sizes, room, found))
        return taken_apart(found)

    return run


@pytest.fixture(scope="module", params=["emulated", "gpu"])
def on_device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    if request.param == "emulated":
        return emulated(tmp_path_factory.getbasetemp())
    try:
        backend = kernels.load("cuda")
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    return lambda *maps, every: sizes_over_depth(*(backend.to_device(each, np.float32) for each in maps), every)


@pytest.mark.parametrize(
    ("shape", "every", "deepest"),
    [((3, 60, 61), 1, 20.0), ((3, 60, 61), 2, 20.0), ((2, 7, 9), 3, 20.0), ((4, 40, 50), 1, 2.4), ((1, 1, 1), 1, 3.0)],
)
@pytest.mark.parametrize("power", [0, 1, 2])
def test_a_device_finds_the_same_sizes(on_device: Found, shape, every, deepest, power):
    """Of a surface with holes and ties; also where the sample is too small, or of too small a range."""
    rng = np.random.default_rng(power)
    surface = rng.uniform(2, deepest, shape[1:]).astype(np.float32).round(2)
    surface[rng.random(surface.shape) < 0.1] = np.nan
    surface[rng.random(surface.shape) < 0.02] *= -1
    surface.flat[0] = 2.5
    depths = (surface + rng.laplace(0, 0.01 * np.nan_to_num(np.abs(surface)) ** power, shape)).astype(np.float32)
    depths[rng.random(shape) < 0.1] = np.nan
    middle, (places, sizes) = on_device(surface, depths, every=every)
    known, (defined, levels) = sizes_over_depth(surface, depths, every)
    assert middle == known
    np.testing.assert_array_equal(places, defined)
    np.testing.assert_allclose(sizes, levels, rtol=0.05)  # ties may fall into another bin
    assert exponent(places, sizes) == pytest.approx(exponent(defined, levels), abs=0.02)


def test_a_device_finds_no_sizes_where_nothing_is_known(on_device: Found):
    unknown = np.full((5, 6), np.nan, np.float32)
    middle, (places, sizes) = on_device(unknown, unknown[None], every=1)
    assert places.size == sizes.size == 0
    assert np.isnan(middle)
