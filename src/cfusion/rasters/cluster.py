"""Tiles on the workers of a dask scheduler, which have to see the same folders.

If a worker dies the scheduler gives its tile to another. Results are those of one process.
"""

from collections.abc import Callable, Sequence
from typing import Any

from cfusion.errors import BackendUnavailable, CFusionError, optional_module
from cfusion.rasters.runner import Crew, Done

AHEAD = 3  # tiles submitted per worker
CONNECT = 10.0  # seconds to wait for the connection


class ClusterCrew(Crew):
    """Workers of the scheduler at an address such as tcp://host:8786."""

    def __init__(self, address: str) -> None:
        super().__init__(1)
        self._dask = optional_module("distributed", missing="--scheduler needs dask: pip install 'cfusion[cluster]'")
        try:
            self._client = self._dask.Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise BackendUnavailable(f"no dask scheduler answers at {address} ({str(error)[:80]}); start one") from None

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    def run(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], done: Done) -> None:
        """As `Crew.run`, with AHEAD tiles per worker submitted at a time."""
        ahead = AHEAD * max(1, sum(self._client.ncores().values()))
        left = iter(enumerate(jobs))
        running = self._dask.as_completed(loop=self._client.loop)
        numbers: dict[Any, int] = {}

        def hand_out() -> None:
            for number, job in left:
                future = self._client.submit(function, *job, pure=False)
                numbers[future.key] = number
                running.add(future)
                return

        for _ in range(ahead):
            hand_out()
        for future in running:
            try:
                done(numbers[future.key], future.result())
            except self._dask.KilledWorker:
                raise CFusionError(
                    "several workers died at one tile, probably for lack of memory; pass a smaller --tile"
                ) from None
            hand_out()
