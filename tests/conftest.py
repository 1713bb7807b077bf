"""What tests of several modules share."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cfusion import Outer, Pinhole, Pose, Result, Status, kernels
from cfusion.errors import BackendUnavailable

try:
    from hypothesis import settings
except ImportError:  # as on a GPU machine with little else: its tests are skipped, and say so
    pass
else:  # the same examples in every run, and no stopwatch: the machine may be busy
    settings.register_profile("same-every-time", derandomize=True, deadline=None)
    settings.load_profile("same-every-time")


def load_or_skip(name: str) -> Any:
    """The backend, or a test that is skipped with the reason."""
    try:
        return kernels.load(name)
    except BackendUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["cpu", "cuda"])
def compiled(request: pytest.FixtureRequest) -> Any:
    """The backends that are not the definition, one after the other."""
    return load_or_skip(request.param)


@pytest.fixture(params=["numpy", "cpu", "cuda"])
def every_backend(request: pytest.FixtureRequest) -> Any:
    return load_or_skip(request.param)


@pytest.fixture(params=["numpy", "cuda"])
def backend(request: pytest.FixtureRequest) -> Any:
    """The definition, and the backend whose arrays are not NumPy's."""
    return load_or_skip(request.param)


def make_result(**changes: Any) -> Result:
    """A small result with an unknown pixel, a filled one and a slope, as any method might return."""
    depth = np.linspace(1, 2, 20, dtype=np.float32).reshape(4, 5)
    depth[0, 0] = np.nan
    provenance = np.full((4, 5), 3, np.int16)
    provenance[0, 0], provenance[0, 1] = -1, 0
    plain = Result(
        depth=depth,
        confidence=np.where(np.isnan(depth), 0, 0.5).astype(np.float32),
        sigma=np.where(np.isnan(depth), np.nan, 0.125).astype(np.float32),
        provenance=provenance,
        history=(Outer(energy=2.0, gap=float("nan"), iterations=10),),
        gap=1e-3,
        energies={"regulariser": 1.0, "fidelity": 1.0, "prior": float("inf"), "total": 2.0},
        status=Status.converged,
        seconds=0.25,
        iterations=10,
        method="l1",
        parameters={"lam": np.float32(0.5), "alpha": (1.0, 2.0), "order": 2},
        backend="numpy",
        camera=Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4),
        pose=Pose(np.eye(3), np.array([0.0, 0.0, 7.0])),
    )
    return replace(plain, **changes)


@pytest.fixture
def result() -> Result:
    return make_result()
