"""Tiles of a mosaic on the workers of a scheduler, which a stand-in for dask's plays."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cfusion.errors import BackendUnavailable, CFusionError
from cfusion.rasters import cluster


class KilledWorker(Exception):
    """What dask raises for a task that killed several workers."""


class Completed:
    """Futures in the order in which they end: here, last come, first served."""

    def __init__(self, loop: object) -> None:
        self.running: list[Any] = []
        self.most = 0

    def add(self, future: Any) -> None:
        self.running.append(future)
        self.most = max(self.most, len(self.running))

    def __iter__(self) -> Iterator[Any]:
        while self.running:
            yield self.running.pop()


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two workers of one core each; `made` are the completions, `closed` whether the client was."""
    here = SimpleNamespace(made=[], closed=False, KilledWorker=KilledWorker)

    class Client:
        loop = None

        def __init__(self, address: str, timeout: float, set_as_default: bool) -> None:
            if address != "tcp://here:1":
                raise OSError(f"nobody at {address}")

        def ncores(self) -> dict[str, int]:
            return {"a": 1, "b": 1}

        def submit(self, function: Callable[..., Any], *job: Any, pure: bool) -> Any:
            assert not pure
            return SimpleNamespace(key=object(), result=lambda: function(*job))

        def close(self) -> None:
            here.closed = True

    def as_completed(loop: object) -> Completed:
        here.made.append(Completed(loop))
        return here.made[-1]

    here.Client, here.as_completed = Client, as_completed
    monkeypatch.setattr(cluster, "optional_module", lambda name, missing: here)
    return here


def test_every_tile_is_done_once_and_a_few_are_under_way(dask: SimpleNamespace) -> None:
    found: dict[int, int] = {}
    with cluster.ClusterCrew("tcp://here:1") as crew:
        crew.run(lambda a, b: a * b, [(number, number + 1) for number in range(20)], found.__setitem__)
    assert found == {number: number * (number + 1) for number in range(20)}
    assert dask.made[0].most == 2 * cluster.AHEAD
    assert dask.closed


def test_a_tile_that_kills_workers_is_an_error_and_so_is_nobody_at_the_address(dask: SimpleNamespace) -> None:
    def kill() -> None:
        raise KilledWorker

    with pytest.raises(CFusionError, match="several workers died at one tile"):
        cluster.ClusterCrew("tcp://here:1").run(kill, [()], lambda number, made: None)
    with pytest.raises(BackendUnavailable, match=r"no dask scheduler answers at tcp://there:1 \(nobody at"):
        cluster.ClusterCrew("tcp://there:1")
