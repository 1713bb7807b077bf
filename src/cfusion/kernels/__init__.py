"""Backends: `load` imports one when it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from cfusion.errors import BackendUnavailable

if TYPE_CHECKING:
    from cfusion.kernels.contract import Backend

# name -> (module, the library it needs, how to get it)
BACKENDS = {
    "cpu": ("cfusion.kernels.cpu", "numba", "cfusion[cpu]"),
    "reference": ("cfusion.kernels.reference", "numpy", "cfusion"),
}


def load(name: str = "auto") -> Backend:
    """The backend of that name; `auto` is the fastest one that is installed."""
    if name == "auto":
        name = available()[0]
    if name not in BACKENDS:
        raise BackendUnavailable(f"there is no backend {name!r}; choose one of: auto, {', '.join(BACKENDS)}")
    module, library, extra = BACKENDS[name]
    if find_spec(library) is None:
        raise BackendUnavailable(
            f"backend {name!r} needs {library}: pip install '{extra}', or pass backend='reference'"
        )
    return cast("Backend", import_module(module))


def available() -> list[str]:
    """The backends that can be loaded here, fastest first."""
    return [name for name, (_, library, _) in BACKENDS.items() if find_spec(library) is not None]
