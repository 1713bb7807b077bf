"""The start of a fit: outliers of one view do not survive because a solve moves a pixel by little at a time."""

import numpy as np
import pytest

from cfusion import Pinhole, Stack, kernels
from cfusion.auto.fit import FAR, energy_of, fit
from cfusion.auto.settings import Choices
from cfusion.auto.variable import Weighing
from cfusion.kernels.depth_noise import CONSTANT
from cfusion.solvers import PDHG
from cfusion.solvers.task import prepare

CPU, NUMPY = kernels.load("cpu"), kernels.load("numpy")
CAMERA = Pinhole(70.0, 70.0, 39.5, 29.5, 80, 60)
SHAPE, NOISE, WALL = (60, 80), 0.1, 10.0
ROUGH = PDHG(tolerance=2e-4, iterations=480, certify=False)


def stack_of(spots: dict[tuple[int, int], float], count: int = 5) -> Stack:
    """A wall, in whose first map some pixels are elsewhere; the others know nothing there."""
    rng = np.random.default_rng(0)
    maps = WALL + rng.laplace(0, NOISE, (count, *SHAPE))
    for place, depth in spots.items():
        maps[(slice(None), *place)] = np.nan
        maps[(0, *place)] = depth
    return Stack(maps.astype(np.float32), camera=CAMERA)


def started(stack: Stack, surface: np.ndarray, noise: float = NOISE, *, inverse: bool = False) -> np.ndarray:
    """The depth at which a solve of the stack begins."""
    choices = Choices((2.0, 4.0), inverse=inverse)
    task = prepare(energy_of(choices, 1.0), stack, NUMPY)
    near = Weighing(surface.astype(np.float32), CONSTANT, np.full(SHAPE, noise, np.float32))
    nothing = PDHG(tolerance=1e30, iterations=1, certify=False)
    return np.asarray(fit(task, choices, nothing, 0, weighing=near).depth)


@pytest.mark.parametrize(("inverse", "outlier"), [(False, 64.0), (True, 0.3)])
def test_a_fit_does_not_end_at_an_outlier_of_one_view(inverse: bool, outlier: float) -> None:
    """It settles before the pixel has moved; with the surface to begin from it is where it belongs."""
    place = (0, 40)
    stack, wall = stack_of({place: outlier}), np.full(SHAPE, WALL, np.float32)
    choices = Choices((3.7, 7.4), inverse=inverse)
    task = prepare(energy_of(choices, 1.0), stack, CPU)
    told, untold = (Weighing(wall, CONSTANT, noise) for noise in (np.full(SHAPE, NOISE, np.float32), None))
    assert abs(fit(task, choices, ROUGH, 0, weighing=told).depth[place] - WALL) < 0.5
    assert abs(fit(task, choices, ROUGH, 0, weighing=untold).depth[place] - WALL) > 2  # so that this can fail


def test_only_single_pixels_far_from_all_around_them_and_from_the_surface_begin_elsewhere() -> None:
    wall = np.full(SHAPE, WALL)
    pair, lone, near = {(20, 20): 20.0, (20, 21): 20.0}, {(40, 40): 20.0}, {(50, 10): WALL + 0.9 * FAR * NOISE}
    found = started(stack_of(pair | lone | near), wall)
    assert found[20, 20] > 18  # two alike
    assert abs(found[40, 40] - WALL) < 0.5
    assert found[50, 10] > WALL + 0.5
    there = wall.copy()
    there[40, 40] = 20.0
    assert started(stack_of(lone), there)[40, 40] > 18  # the surface has it
    there[40, 40] = np.nan
    assert started(stack_of(lone), there)[40, 40] > 18  # there is none


def test_a_single_map_begins_at_itself() -> None:
    """Nobody tells its noise."""
    found = started(stack_of({(40, 40): 20.0}, count=1), np.full(SHAPE, WALL))
    assert found[40, 40] > 18
