"""Backends; `load` imports one when it is requested."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from cfusion.errors import BackendUnavailable

if TYPE_CHECKING:
    from cfusion.kernels import cpu, cuda, numpy
    from cfusion.kernels.contract import Backend

    _: tuple[Backend, ...] = (numpy, cpu, cuda)  # each module is a backend: checked by mypy

# name -> (module, the library it needs, how to get it), fastest first
BACKENDS = {
    "cuda": ("cfusion.kernels.cuda", "cupy", "cfusion[cuda]"),
    "cpu": ("cfusion.kernels.cpu", "numba", "cfusion[cpu]"),
    "numpy": ("cfusion.kernels.numpy", "numpy", "cfusion"),
}
ALIASES = {"reference": "numpy"}  # former name, for one release


def load(name: str = "auto") -> Backend:
    """The backend of that name; `auto` is the fastest one that can run here."""
    if not isinstance(name, str):
        raise BackendUnavailable(f"backend is {str(name)[:40]!r}; choose one of: auto, {', '.join(BACKENDS)}")
    if name == "auto":
        name = available()[0]
    name = ALIASES.get(name, name)
    if name not in BACKENDS:
        raise BackendUnavailable(f"there is no backend {name!r}; choose one of: auto, {', '.join(BACKENDS)}")
    module, library, extra = BACKENDS[name]
    if find_spec(library) is None:
        raise BackendUnavailable(
            f"backend {name!r} needs {library}: pip install '{extra}', or pass backend='auto', the fastest one here"
        )
    try:
        return cast("Backend", import_module(module))
    except ImportError as error:
        first_line = str(error).strip().partition("\n")[0]
        message = f"backend {name!r}: {library} is installed and does not load ({first_line})"
        raise BackendUnavailable(message) from error


def available() -> list[str]:
    """The backends that can be loaded here, fastest first."""
    return [name for name, (_, library, _) in BACKENDS.items() if find_spec(library) is not None and _runs(name)]


def _runs(name: str) -> bool:
    """Whether the required hardware exists; only the CUDA backend needs any, and raises when loaded."""
    if name != "cuda":
        return True
    try:
        load(name)
    except BackendUnavailable:
        return False
    return True
