"""The kernel that removes residuals by motions, emulated by a C++ compiler or on a GPU, against its definition."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.emulation import Emulator
from tests.kernels.test_contract import removal_of

from cfusion import kernels
from cfusion.errors import BackendUnavailable
from cfusion.kernels.contract import Removal
from cfusion.kernels.numpy.motions import LARGEST, OUTLIER, STEPS, by_blocks, removal


def emulated(folder: Path) -> Callable[..., Removal]:
    """As `kernels/cuda/motions.py` launches it."""
    law = f"STEPS={STEPS}", f"OUTLIER={OUTLIER}", f"LARGEST={LARGEST}", "EFFECTS=7", "THREADS=512"
    launch = Emulator(folder).kernel(("reduce.cuh", "motions.cu"), "removal", law)

    def run(residuals: Any, effects: Any, about: Any, blocks: Any, fewest: float, least: float) -> Removal:
        views, places = residuals.shape
        parts = [[part.astype(np.int32) for part in by_blocks(block)] for block in blocks]
        segments = [each for order, first in parts for each in (order, first, np.int32(len(first)))]
        limits = np.float64(fewest), np.float64(least)
        room, masks, out = np.empty(residuals.shape), np.empty(residuals.shape, np.bool_), np.empty((views, 206))
        given = (residuals, effects, np.ascontiguousarray(about), np.int32(places), *segments, *limits)
        launch((views,), (512,), (*given, room, masks, out))
        normals, chance, wide, squares = out[:, :196].reshape(views, 4, 7, 7).swapaxes(0, 1)
        sizes, told, count = out[:, 203:].T
        return Removal(out[:, 196:203], normals, sizes, told > 0, count, (chance, wide), squares)

    return run


@pytest.fixture(scope="module", params=["emulated", "gpu"])
def on_device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Removal]:
    if request.param == "emulated":
        return emulated(tmp_path_factory.getbasetemp())
    try:
        return kernels.load("cuda").removal
    except BackendUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("places", [40, 150, 1801])
def test_a_device_removes_what_the_definition_does(on_device: Callable[..., Removal], places: int):
    given = removal_of(np.random.default_rng(places), places)
    ours, defined = on_device(*given), removal(*given)
    assert ours.told.tolist() == defined.told.tolist()
    assert ours.count.tolist() == defined.count.tolist()
    np.testing.assert_allclose(ours.sizes, defined.sizes, rtol=1e-9)
    np.testing.assert_allclose(ours.found, defined.found, rtol=1e-7, atol=1e-12)
    for one, other in (
        (ours.normals, defined.normals),
        (ours.squares, defined.squares),
        *zip(ours.scores, defined.scores, strict=True),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * np.abs(other).max())


def test_sizes_are_the_medians_of_definition(on_device: Callable[..., Removal]):
    """Odd and even numbers of residuals, and equal ones in the middle."""
    residuals, *given = removal_of(np.random.default_rng(0), 300)
    residuals[1] = np.where(np.arange(300) % 3 < 2, 0.25, residuals[1])
    residuals[0, :2] = np.nan
    ours, defined = on_device(residuals, *given), removal(residuals, *given)
    np.testing.assert_allclose(ours.sizes, defined.sizes, rtol=1e-9)
