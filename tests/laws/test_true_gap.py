"""The gap is a part of the energy itself, also where noise is small against the range of depths."""

import numpy as np
import pytest

from cfusion import Stack, Status, fuse_stack


def slope(noise: float) -> Stack:
    """A plane across the whole range of depths, seen three times: what is left of the energy is the noise."""
    rng = np.random.default_rng(3)
    plane = 1 + np.linspace(0, 1, 40)[None, :] + 0.5 * np.linspace(0, 1, 40)[:, None]
    return Stack(plane + noise * rng.normal(size=(3, 40, 40)))


@pytest.mark.parametrize("noise", [1e-3, 1e-4, 1e-5, 1e-6])
def test_the_energy_is_at_most_that_part_above_its_minimum(noise: float) -> None:
    given = {"lam": 1.0, "alpha": (1.0, 2.0), "backend": "numpy"}
    found = fuse_stack(slope(noise), "l1", **given)
    finer = fuse_stack(slope(noise), "l1", tolerance=0.0, iterations=3000, **given)
    lowest = min(found.energies["total"], finer.energies["total"])
    assert (found.energies["total"] - lowest) / found.energies["total"] <= found.gap
    assert (found.status is Status.converged) == (found.gap <= 1e-3)
    if noise <= 1e-5:
        assert found.status is Status.at_rounding


def test_a_plane_without_noise_is_exact() -> None:
    rows = np.linspace(1, 2, 20)[:, None] * np.ones((1, 24))
    found = fuse_stack(Stack(np.stack([rows] * 3)), "l1", backend="numpy")
    assert found.status in (Status.at_rounding, Status.converged)
    np.testing.assert_allclose(found.depth, rows, rtol=1e-5)
