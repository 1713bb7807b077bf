"""What is chosen for a mosaic, and the sample it is chosen from."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from tests.rasters.conftest import ground

from cfusion.rasters import choose
from cfusion.rasters.mosaic import _energy_floor
from cfusion.rasters.sample import Sample
from cfusion.rasters.work import align_block


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
    (first, second), corner = trial.search()
    assert first * corner == pytest.approx(choose.LADDER[-1] * max(choose.FINE))
    assert second == pytest.approx(choose.RATIOS[0] * first)


def test_with_weights_given_the_corner_is_the_robust_one() -> None:
    """As where nothing can be left out to judge by."""
    heights = (ground(40, 40) + np.random.default_rng(0).normal(0, 0.5, (2, 40, 40))).astype(np.float32)
    found = choose.choose(heights, None, "numpy", alpha=(0.5, 1.0))
    assert found.delta == pytest.approx(min(choose.CORNERS) * np.median(found.noise))
    assert found.factors == (1.0, 1.0)


def test_the_energy_of_rounding_grows_with_heights_and_pixels() -> None:

    def floor(spread: float, rows: int) -> float:
        return _energy_floor((0.5, 1.0), spread, 50, SimpleNamespace(height=rows, width=5))  # type: ignore[arg-type]

    small, wide, many = floor(10, 5), floor(40, 5), floor(10, 10)
    assert wide == pytest.approx(4 * small)
    assert small < many < 2 * small


@pytest.mark.parametrize(
    ("factors", "error", "helps"), [((1, 1), 0.0, False), ((1, 2), 0.5, True), ((1, 2), 2.0, False)]
)
def test_rasters_are_weighed_where_that_predicts_better(factors: tuple[int, int], error: float, helps: bool) -> None:
    trial = object.__new__(choose._Trial)
    trial.kept, trial.judges = np.zeros((2, 3, 3), np.float32), np.ones(choose.FEWEST_JUDGES, bool)
    trial._losses = lambda candidate: np.ones(9)  # type: ignore[method-assign]
    trial._fit = lambda alpha, corner, weights: np.full(9, error)  # type: ignore[method-assign]
    assert trial.weighing_helps(factors, (0.5, 1.0), 1.5) is helps


def test_a_height_without_weight_is_unknown() -> None:
    heights, weights = np.full((1, 4), 5, np.float32), np.array([[0, 0.5, 2, 0]], np.float32)
    file = SimpleNamespace(name="a.tif", stored=lambda heights: heights)
    raster = SimpleNamespace(read=lambda rows, columns: heights.copy(), raster=file)
    belief = SimpleNamespace(weights=lambda rows, columns, one: weights)
    kept = SimpleNamespace(weights=MagicMock(), heights=MagicMock())
    block = SimpleNamespace(core=(slice(0, 1), slice(0, 4)))
    low, high, known = align_block(kept, (raster,), (belief,), block)  # type: ignore[arg-type]
    assert (low, high, known) == (5, 5, [2])
    np.testing.assert_array_equal(kept.heights.write.call_args.args[0], [[[np.nan, 5, 5, np.nan]]])
