"""Hear of every kernel that is compiled here, as it is done; kernels that come from the cache are not heard of."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event


class _Listener(event.Listener):  # type: ignore[misc]  # Numba has no types
    """Counts kernels, not the functions inside them."""

    def __init__(self, told: Callable[[str, bool], None]) -> None:
        self.told, self.depth = told, 0

    def on_start(self, happening: Any) -> None:
        if self.depth == 0:
            self.told(_name(happening), False)
        self.depth += 1

    def on_end(self, happening: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.told(_name(happening), True)


@contextmanager
def hearing(told: Callable[[str, bool], None]) -> Iterator[None]:
    """`told(name, done)` when a kernel begins to be compiled and when it is done, while the block runs."""
    with event.install_listener("numba:compile", _Listener(told)):
        yield


class _Uncollected(event.Listener):  # type: ignore[misc]
    """While a kernel is compiled no garbage is looked for: Numba makes little of it, and the search takes a tenth."""

    def __init__(self) -> None:
        self.depth, self.enabled = 0, False

    def on_start(self, happening: Any) -> None:
        if self.depth == 0:
            self.enabled = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, happening: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.enabled:
            gc.enable()


def without_collection() -> None:
    """From now on, for every kernel of this process; Numba compiles one at a time."""
    event.register("numba:compile", _Uncollected())


def _name(happening: Any) -> str:
    return str(getattr(happening.data.get("dispatcher"), "__name__", ""))
