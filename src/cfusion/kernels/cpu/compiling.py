"""Reports every kernel that is compiled in this process; kernels from the cache are not reported."""

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
    """Call `told(name, done)` when a kernel's compilation begins and ends, while the block runs."""
    with event.install_listener("numba:compile", _Listener(told)):
        yield


class _Uncollected(event.Listener):  # type: ignore[misc]
    """Disables garbage collection during compilation: Numba makes little garbage, and collecting takes a tenth."""

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
    """Apply to every kernel of this process from now on; Numba compiles one at a time."""
    event.register("numba:compile", _Uncollected())


def _name(happening: Any) -> str:
    return str(getattr(happening.data.get("dispatcher"), "__name__", ""))
