"""What is chosen for a mosaic, and the sample it is chosen from."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.rasters.conftest import ground

from cfusion.rasters import choose
from cfusion.rasters.mosaic import _energy_floor
from cfusion.rasters.sample import Sample


def test_windows_of_a_sample_stand_side_by_side_and_apart() -> None:
    parts = tuple(np.full((2, 3, 4), number, np.float32) for number in range(3))
    whole = Sample((), parts).stacked()
    assert whole.shape == (2, 2 * 3 + 1, 2 * 4 + 1)
    assert np.isnan(whole[:, 3]).all()
    assert np.isnan(whole[:, :, 4]).all()
    for number, (top, left) in enumerate([(0, 0), (0, 5), (4, 0)]):
        assert (whole[:, top : top + 3, left : left + 4] == number).all()
    assert Sample((), parts[:1]).stacked() is parts[0]


def test_the_search_goes_up_as_long_as_smoother_is_better() -> None:
    trial = object.__new__(choose._Trial)
    trial.kept_views, trial.judges = 1.0, np.ones(choose.FEWEST_JUDGES, bool)
    trial._losses = lambda candidate: np.full(4, 1 / candidate[0])  # type: ignore[method-assign]
    (first, _), corner = trial.search()
    assert first * corner == pytest.approx(choose.LADDER[-1] * max(choose.FINE))


def test_with_weights_given_the_corner_is_the_robust_one() -> None:
    """As where nothing can be left out to judge by."""
    heights = (ground(40, 40) + np.random.default_rng(0).normal(0, 0.5, (2, 40, 40))).astype(np.float32)
    found = choose.choose(heights, None, "numpy", alpha=(0.5, 1.0))
    assert found.delta == pytest.approx(min(choose.CORNERS) * np.median(found.noise))


def test_the_energy_of_rounding_grows_with_heights_and_pixels() -> None:

    def floor(spread: float, rows: int) -> float:
        return _energy_floor((0.5, 1.0), spread, 50, SimpleNamespace(height=rows, width=5))  # type: ignore[arg-type]

    small, wide, many = floor(10, 5), floor(40, 5), floor(10, 10)
    assert wide == pytest.approx(4 * small)
    assert small < many < 2 * small
