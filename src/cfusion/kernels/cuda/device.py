"""The CUDA device, and our kernels compiled for it when they are first used (CuPy keeps them on disk)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import cupy
import numpy as np

from cfusion.errors import BackendUnavailable

NOTHING = np.uint64(0)  # a null pointer, for arrays that a kind of problem does not have
BESIDE = 12  # streams for work that goes on side by side
OLDEST_CAPABILITY = 70  # 128-bit accesses that are never torn


def check() -> None:
    """Raise `BackendUnavailable` with one sentence if no kernel can run here."""
    instead = "pass backend='cpu'"
    driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    if driver == 0:
        raise BackendUnavailable(f"no CUDA driver was found on this machine; install NVIDIA's driver, or {instead}")
    if driver // 1000 < runtime // 1000:
        raise BackendUnavailable(
            f"the CUDA driver ({_version(driver)}) is too old for this CuPy (CUDA {_version(runtime)}); "
            f"update the driver, install cupy-cuda{driver // 1000}x, or {instead}"
        )
    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendUnavailable(f"no CUDA device is usable ({error}); {instead}, or check the driver") from error
    if devices == 0:
        raise BackendUnavailable(f"no CUDA device is visible; {instead}, or set CUDA_VISIBLE_DEVICES")
    capability = int(cupy.cuda.Device().compute_capability)
    if capability < OLDEST_CAPABILITY:
        raise BackendUnavailable(
            f"the CUDA device has compute capability {capability / 10:.1f}, and "
            f"{OLDEST_CAPABILITY / 10:.1f} is the least our kernels run on; {instead}"
        )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


@cache
def kernel(
    sources: tuple[str, ...],
    name: str,
    defines: tuple[str, ...] = (),
    *,
    shared: int = 0,
    cooperative: bool = False,
) -> Any:
    """A compiled kernel: source files of this folder, read one after the other, with macros such as ORDER=2."""
    code = "\n".join(files(__package__).joinpath(source).read_text() for source in sources)
    options = ("-std=c++17", *(f"-D{define}" for define in defines))
    function = cupy.RawModule(code=code, options=options, enable_cooperative_groups=cooperative).get_function(name)
    if shared > 48 << 10:
        function.max_dynamic_shared_size_bytes = shared
    return function


@cache
def multiprocessors() -> int:
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])


@cache
def shared_memory() -> int:
    """Bytes that one block may use."""
    return int(cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])


class Desk:
    """Where kernels leave a few sums: they write the totals straight into memory of the host."""

    BLOCKS, THREADS, MOST = 256, 256, 16  # the same on every device, so that sums have the same bits

    def __init__(self) -> None:
        self.memory = cupy.cuda.alloc_pinned_memory(8 * self.MOST)
        self.totals = np.frombuffer(self.memory, np.float64, self.MOST)
        self.parts = cupy.empty(self.BLOCKS * self.MOST)
        self.arrived = cupy.zeros(1, np.uint32)
        self.argument = by_value(np.array([self.parts.data.ptr, self.arrived.data.ptr, self.memory.ptr], np.uint64))
        self.gate = cupy.zeros(1, np.uint32)  # of the barrier of a whole grid
        self.passed = 0  # how often

    def read(self, count: int) -> list[float]:
        """The totals, once all work so far is done."""
        cupy.cuda.get_current_stream().synchronize()
        out: list[float] = self.totals[:count].tolist()
        return out

    def pass_gate(self, times: int) -> np.uint32:
        """How often the gate was passed before the coming `times`."""
        before, self.passed = self.passed, (self.passed + times) % (1 << 32)
        return np.uint32(before)


class _Desks(threading.local):
    """One desk per thread, device and stream: nobody waits for, or reads, what another one asked for."""

    stream: Any
    beside: list[Any]

    def __init__(self) -> None:
        self.by_place: dict[tuple[int, int], Desk] = {}


_desks = _Desks()


def desk() -> Desk:
    place = (cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr)
    if place not in _desks.by_place:
        _desks.by_place[place] = Desk()
    return _desks.by_place[place]


def real_define(array: Any) -> str:
    """The macro for the floating type of an array."""
    return "REAL=float" if array.dtype == np.float32 else "REAL=double"


def or_nothing(array: Any) -> Any:
    """The array as a kernel argument, or a null pointer."""
    return NOTHING if array is None else array


def by_value(array: Any) -> Any:
    """A small host array as one kernel argument: a structure of its numbers."""
    return np.ascontiguousarray(array).ravel().view(np.dtype([("numbers", array.dtype, (array.size,))]))


def to_device(array: Any, dtype: Any) -> Any:
    """As `Backend.to_device`."""
    if isinstance(array, cupy.ndarray):
        return cupy.array(array, dtype)
    return cupy.asarray(np.ascontiguousarray(array, dtype))


def to_host(array: Any) -> Any:
    """As `Backend.to_host`."""
    return cupy.asnumpy(array)


def lane() -> Any:
    """As `Backend.lane`: a stream of this thread's own, the same one every time, as what was made for it is kept."""
    if not hasattr(_desks, "stream"):
        _desks.stream = cupy.cuda.Stream(non_blocking=True)
    return _desks.stream


def side_by_side(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """As `Backend.side_by_side`: each on the next of a few streams, between all work before and all work after."""
    if not hasattr(_desks, "beside"):
        _desks.beside = [cupy.cuda.Stream(non_blocking=True) for _ in range(BESIDE)]
    here, done = cupy.cuda.get_current_stream(), []
    before = here.record()
    for stream in _desks.beside:
        stream.wait_event(before)
    for k, item in enumerate(items):
        with _desks.beside[k % BESIDE]:
            done.append(work(item))
    for stream in _desks.beside:
        here.wait_event(stream.record())
    return done


def on_device(array: Any, dtype: Any) -> Any:
    """A contiguous device array of that type; a copy only where it is not one yet."""
    return cupy.ascontiguousarray(cupy.asarray(array, dtype))


def as_given(result: Any, given: Any) -> Any:
    """The result on the host if what was given lies there: no caller finds arrays where it did not put them."""
    return cupy.asnumpy(result) if isinstance(given, np.ndarray) else result


def blocks_of(items: int, threads: int) -> int:
    return -(-items // threads)
