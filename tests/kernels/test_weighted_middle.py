"""The middle of weights by weight: its meaning, and its kernel, emulated by a C++ compiler or on a GPU."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.emulation import Emulator

from cfusion import kernels
from cfusion.errors import BackendUnavailable
from cfusion.kernels.weighted_middle import weighted_middle

Middle = Callable[[np.ndarray, int], float]


@pytest.fixture(scope="module", params=["definition", "emulated", "gpu"])
def middle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Middle:
    if request.param == "definition":
        return weighted_middle
    if request.param == "emulated":
        sources = "reduce.cuh", "weighted_middle.cu"
        launch = Emulator(tmp_path_factory.getbasetemp()).kernel(sources, "weighted_middle", ("THREADS=256",))

        def run(weights: np.ndarray, every: int) -> float:
            parts, arrived, out = np.empty((2, 16)), np.full(1, 5, np.uint32), np.empty(1)
            sizes = map(np.int32, (*weights.shape, every))
            launch((1,), (256,), (weights, *sizes, parts, arrived, np.uint32(5), out))
            return float(out[0])

        return run
    try:
        backend = kernels.load("cuda")
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    return lambda weights, every: weighted_middle(backend.to_device(weights, np.float32), every)


@pytest.mark.parametrize(("shape", "every"), [((3, 20, 31), 1), ((3, 20, 31), 4), ((1, 1, 1), 1), ((2, 5, 1), 2)])
def test_half_of_the_weight_lies_up_to_it(middle: Middle, shape: tuple[int, int, int], every: int) -> None:
    weights = np.random.default_rng(1).lognormal(0, 3, shape).astype(np.float32)
    weights[np.random.default_rng(2).random(shape) < 0.3] = 0
    found, sample = middle(weights, every), weights[:, ::every, ::every].astype(np.float64)
    assert found == weighted_middle(weights, every)
    assert found in sample
    assert sample[sample <= found].sum() >= sample.sum() / 2 >= sample[sample < found].sum()


def test_many_tiny_weights_do_not_change_it(middle: Middle) -> None:
    weights = np.full((2, 30, 30), 1e-9, np.float32)
    weights[0, :3] = 2.0
    weights[1, :2] = 3.0
    assert middle(weights, 1) == 2.0
    assert middle(np.zeros((2, 3, 4), np.float32), 1) == 0.0
    assert middle(np.ones((2, 3, 4), np.float32), 1) == 1.0
