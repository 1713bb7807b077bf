"""The CUDA device, and our kernels, compiled when first used (CuPy caches them on disk)."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from typing import Any

import cupy
import numpy as np

from cfusion.errors import BackendUnavailable
from cfusion.kernels.contract import Window
from cfusion.kernels.cuda.launching import Kernel

NOTHING = np.uint64(0)  # a null pointer, for arrays that a kind of problem does not have
HANDS, PARTS = 4, 6  # threads that copy maps into pinned memory, and parts that are transferred one by one
OLDEST_CAPABILITY = 70  # 128-bit accesses are atomic from here on


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
    cooperative: bool = False,
) -> Kernel:
    """A compiled kernel from source files of this folder, concatenated, with macros such as ORDER=2."""
    unit = (sources, defines, cooperative)
    with _units_lock:
        foreseen = _units.get(unit)
    module = _compiled(unit, cupy.cuda.runtime.getDevice()) if foreseen is None else foreseen.result()
    return Kernel(module.get_function(name), cooperative)


Unit = tuple[tuple[str, ...], tuple[str, ...], bool]  # sources, macros, whether its kernels are cooperative
_units: dict[Unit, Future[Any]] = {}
_units_lock = threading.Lock()


def compile_ahead(units: Iterable[Unit]) -> None:
    """Compile in other threads, or load from disk, kernels that will be needed."""
    device = cupy.cuda.runtime.getDevice()
    with _units_lock:
        missing = [unit for unit in units if unit not in _units]
        if missing:
            pool = ThreadPoolExecutor(min(len(missing), 2 * (os.cpu_count() or 1)))
            _units.update({unit: pool.submit(_compiled, unit, device) for unit in missing})
            pool.shutdown(wait=False)


@cache
def _compiled(unit: Unit, device: int) -> Any:
    sources, defines, cooperative = unit
    code = "\n".join(map(source, sources))
    options = ("-std=c++17", *(f"-D{define}" for define in defines))
    with cupy.cuda.Device(device):
        module = cupy.RawModule(code=code, options=options, enable_cooperative_groups=cooperative)
        module.compile()
    return module


def source(name: str) -> str:
    """The text of a file of this folder."""
    return files(__package__).joinpath(name).read_text()


def kernel_of(code: str, name: str, options: tuple[str, ...] = ()) -> Kernel:
    """A kernel from source text."""
    return Kernel(cupy.RawModule(code=code, options=("-std=c++17", *options)).get_function(name), cooperative=False)


def multiprocessors() -> int:
    return _attribute(cupy.cuda.runtime.getDevice(), "MultiProcessorCount")


def shared_memory() -> int:
    """Bytes of shared memory that one block may use."""
    return _attribute(cupy.cuda.runtime.getDevice(), "MaxSharedMemoryPerBlockOptin")


@cache
def _attribute(device: int, name: str) -> int:
    return int(cupy.cuda.Device(device).attributes[name])


class Desk:
    """The destination of a few sums: kernels write the totals directly into host memory."""

    BLOCKS, THREADS, MOST = 512, 256, 24  # the same on every device, so that sums have the same bits

    def __init__(self) -> None:
        self.memory = cupy.cuda.alloc_pinned_memory(8 * self.MOST)
        self.totals = np.frombuffer(self.memory, np.float64, self.MOST)
        self.parts = cupy.empty(self.BLOCKS * self.MOST)
        self.arrived = cupy.zeros(1, np.uint32)
        self.argument = by_value(np.array([self.parts.data.ptr, self.arrived.data.ptr, self.memory.ptr], np.uint64))
        self.done = cupy.cuda.Event(disable_timing=True)
        self.gate = cupy.zeros(1, np.uint32)  # counter of the grid-wide barrier
        self.passed = 0  # number of passes
        self.leaf: Any = None
        self.written = np.empty(0)
        self.words: Any = None
        self.boards: list[Any] = []  # of solves to come
        self.nobody = cupy.empty(self.MOST)
        self.unread = np.uint64(self.nobody.data.ptr)  # for what a kernel writes and nobody reads

    def read(self, count: int, meanwhile: Callable[[], None] | None = None) -> list[float]:
        """The totals, after all work so far; `meanwhile` submits more work to the device, but no more sums."""
        self.done.record()
        if meanwhile is not None:
            meanwhile()
        self.done.synchronize()
        out: list[float] = self.totals[:count].tolist()
        return out

    def page(self, count: int) -> np.uint64:
        """The address of host memory to which a kernel may write `count` numbers, to be read by `turn`."""
        if len(self.written) < count:
            self.leaf = cupy.cuda.alloc_pinned_memory(8 * count)
            self.written = np.frombuffer(self.leaf, np.float64, count)
        return np.uint64(self.leaf.ptr)

    def turn(self, count: int) -> Any:
        """The numbers written there, after all work so far."""
        self.done.record()
        self.done.synchronize()
        return self.written[:count].copy()

    def room(self, words: int) -> Any:
        """Integers on the device that are zero, and that a kernel leaves zero."""
        if self.words is None or len(self.words) < words:
            self.words = cupy.zeros(words, np.uint32)
        return self.words

    def pass_gate(self, times: int) -> np.uint32:
        """How often the barrier was passed before the coming `times`."""
        before, self.passed = self.passed, (self.passed + times) % (1 << 32)
        return np.uint32(before)


class Dock:
    """Pinned host memory through which maps are transferred to the device."""

    hands = ThreadPoolExecutor(HANDS)  # copying releases the interpreter's lock

    def __init__(self) -> None:
        self.memory: Any = None
        self.left: Any = None  # event: the device has read the memory

    def load(self, maps: Sequence[Any], target: Any) -> None:
        """Copy maps into a device array, transferring some while others are copied into pinned memory."""
        if self.left is not None:
            self.left.synchronize()
        if self.memory is None or self.memory.nbytes < target.nbytes:
            pinned = cupy.cuda.alloc_pinned_memory(target.nbytes)
            self.memory = np.frombuffer(pinned, np.uint8, target.nbytes)
        there = self.memory[: target.nbytes].view(target.dtype).reshape(target.shape)
        stream = cupy.cuda.get_current_stream()
        each = blocks_of(len(maps), PARTS)
        shares = [slice(first, min(first + each, len(maps))) for first in range(0, len(maps), each)]
        put_down = [self.hands.submit(_put_down, maps[share], there[share]) for share in shares]
        for share, done in zip(shares, put_down, strict=True):
            done.result()
            target[share].set(there[share], stream)
        self.left = stream.record()


def _put_down(maps: Sequence[Any], there: Any) -> None:
    for source, place in zip(maps, there, strict=True):
        np.copyto(place, source)


class _Desks(threading.local):
    """One desk per thread, device and stream, so that none waits for or reads another's sums."""

    stream: Any

    def __init__(self) -> None:
        self.by_place: dict[tuple[int, int], Desk] = {}
        self.dock = Dock()


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


def contiguous(array: Any) -> Any:
    """A contiguous array as a kernel argument, or a null pointer."""
    return NOTHING if array is None else cupy.ascontiguousarray(array)


def by_value(array: Any) -> bytes:
    """A small host array as one kernel argument: a structure of its numbers."""
    out: bytes = array.tobytes()
    return out


def frame_of(shape: tuple[int, ...], window: Window) -> Any:
    """`Window` of window.cuh, in an image of that shape."""
    (top, bottom), (left, right) = ((part.start, part.stop) for part in window)
    return np.array([*shape, top, left, bottom - top, right - left], np.int32)


def rows_of(mask: Any) -> tuple[Any, np.int32]:
    """A mask with contiguous rows, and their stride."""
    if mask.strides[1] != 1 or mask.strides[0] < mask.shape[1]:
        mask = cupy.ascontiguousarray(mask)
    return mask, np.int32(mask.strides[0])


def to_device(array: Any, dtype: Any) -> Any:
    """As `Backend.to_device`."""
    if isinstance(array, cupy.ndarray):
        return cupy.array(array, dtype)
    if isinstance(array, list) and array and isinstance(array[0], np.ndarray):
        target = cupy.empty((len(array), *array[0].shape), dtype)
        _desks.dock.load(array, target)
        return target
    return cupy.asarray(np.ascontiguousarray(array, dtype))


def to_host(array: Any) -> Any:
    """As `Backend.to_host`."""
    return cupy.asnumpy(array)


def stream() -> Any:
    """As `Backend.stream`: one stream per thread, reused, because its buffers are kept."""
    if not hasattr(_desks, "stream"):
        _desks.stream = cupy.cuda.Stream(non_blocking=True)
    return _desks.stream


def all_ones(shape: tuple[int, ...], dtype: Any) -> Any:
    """Unsigned integers whose bits are all set: the largest ones; `cupy.full` takes four times as long."""
    out = cupy.empty(shape, dtype)
    out.data.memset_async(0xFF, out.nbytes)
    return out


def on_device(array: Any, dtype: Any) -> Any:
    """A contiguous device array of that type; a copy only if necessary."""
    there = type(array) is cupy.ndarray and array.dtype == dtype  # asked first: `asarray` takes 5 us to say so
    return cupy.ascontiguousarray(array if there else cupy.asarray(array, dtype))


def as_given(result: Any, given: Any) -> Any:
    """The result in the memory of the input."""
    return cupy.asnumpy(result) if isinstance(given, np.ndarray) else result


def blocks_of(items: int, threads: int) -> int:
    return -(-items // threads)
