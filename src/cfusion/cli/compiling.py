"""Compile the kernels before the work is timed, as a stage of its own: a first run spends most of its time there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfusion.cli.progress import ProgressCallback
    from cfusion.geometry import View
    from cfusion.kernels.contract import Backend

PREPARING = "loading kernels"
COMPILED = ("cpu",)  # backends whose kernels are compiled on this machine when they are first called
WIDTH, HEIGHT, VIEWS = 40, 30, 5
MANY = 1 << 15  # values from which a kernel finds the median
PRIOR = 3.0  # seconds of compilation at the typical pace, assumed to have passed
MOST = 0.97  # of the work, until the end: an unforeseen kernel may follow
A_KERNEL, A_SWEEP = 0.36, 5.0  # seconds to compile on a typical machine, about
LONG = {"sweep": A_SWEEP, "_repair": 2.1}
KERNELS = {  # of each method: how many beside the sweep, long ones as several (they are among those of a method with
    # more), and the sweep's kind
    "input": (7, None),
    "mean": (14, None),
    "median": (14, None),
    "rof": (20, "order 1"),
    "rof-adapt": (20, "order 1"),
    "mosaic": (18, "Huber"),
    "tgv-fusion": (25, "Huber"),
    "l1": (26, "L1"),
    "l1-adapt": (26, "L1"),
    "auto": (35, "L1"),
}
KERNELS_OF_OTHERS = 27, "L1"


@contextmanager
def kernels_ready(methods: Sequence[str], backend: str, progress: ProgressCallback) -> Iterator[None]:
    """Fuse a few tiny views with each method, so that its kernels are compiled; later kernels are reported too."""
    from cfusion import kernels

    loaded = kernels.load(backend)
    if loaded.NAME not in COMPILED:
        yield
        return
    from cfusion.kernels.cpu.foresight import crew

    with naming(methods, progress, crew()) as reached:
        _compile(methods, loaded, progress, reached)
        yield


def compile_kernels(methods: Sequence[str], backend: str, progress: ProgressCallback) -> None:
    """Compile the kernels of these methods only."""
    with kernels_ready(methods, backend, progress):
        pass


def _compile(
    methods: Sequence[str], backend: Backend, progress: ProgressCallback, reached: Callable[[float], None]
) -> None:
    import numpy as np

    from cfusion.cli.progress import Step
    from cfusion.fuse import fuse

    progress(Step(PREPARING, 0.0))
    views = _tiny_views()
    backend.medians(np.zeros((1, MANY), np.float32))  # small maps need no kernel
    for number, method in enumerate(methods):
        fuse(views, method, reference=VIEWS // 2, backend=backend.NAME, check=False)
        reached(seconds_for(methods[: number + 1]))  # kernels from the cache count as done
    progress(Step(PREPARING, 1.0))


@contextmanager
def naming(methods: Sequence[str], progress: ProgressCallback, processes: int = 1) -> Iterator[Callable[[float], None]]:
    """Report progress by compiled kernels; nothing is reported if all come from the cache or Numba is missing.

    Only the kernels that this one of `processes` compiles are heard of. Yields a function to call with the seconds of
    work (`seconds_for`) that are done.
    """
    try:
        from cfusion.kernels.cpu.compiling import hearing
    except ImportError:  # without Numba nothing is compiled
        yield lambda seconds: None
        return
    work = _Work(seconds_for(methods) / processes, progress, processes)
    with hearing(work.kernel_event):
        yield work.reached


class _Work:
    """The compilation of one run's kernels: its expected seconds in this process, and how many are done."""

    def __init__(self, seconds: float, progress: ProgressCallback, processes: int = 1) -> None:
        self.seconds, self.progress, self.processes = seconds, progress, processes
        self.done, self.spent, self.began = 0.0, 0.0, 0.0

    def kernel_event(self, kernel: str, ready: bool) -> None:
        """A kernel is about to be compiled, or is ready."""
        from cfusion.cli.progress import Step

        if ready:
            self.spent += time.monotonic() - self.began
            self.done += seconds_of(kernel)
        self.began = time.monotonic()
        pace = (self.spent + PRIOR) / (self.done + PRIOR)
        about = in_round_numbers(pace * max(self.seconds, self.done))
        share = min(MOST, self.done / self.seconds)
        words = f"compiling kernels, once, about {about} s"
        self.progress(Step(words, share, seconds=self.seconds, rests=ready))

    def reached(self, seconds: float) -> None:
        """This many seconds of all processes' work are done, compiled or from the cache."""
        self.done = max(self.done, seconds / self.processes)


def seconds_of(kernel: str) -> float:
    """Expected seconds to compile one kernel."""
    return LONG.get(kernel, A_KERNEL)


def seconds_for(methods: Iterable[str]) -> float:
    """Expected seconds to compile all kernels of some methods, each once."""
    needed = [KERNELS.get(method, KERNELS_OF_OTHERS) for method in methods]
    sweeps = {kind for _, kind in needed if kind is not None}
    return A_KERNEL * max(count for count, _ in needed) + A_SWEEP * len(sweeps)


def in_round_numbers(seconds: float) -> int:
    """Rounded to tens from twenty on, to fives below: the estimate is no better."""
    step = 10 if seconds >= 20 else 5
    return max(step, step * round(seconds / step))


def _tiny_views() -> list[View]:
    """Noisy views of a slanted plane with a step and holes, from slightly different places."""
    import numpy as np

    from cfusion.geometry import Pinhole, Pose, View

    rng = np.random.default_rng(0)
    camera = Pinhole(WIDTH, WIDTH, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)
    column = np.arange(WIDTH) / WIDTH
    depth = np.tile(3 + 0.3 * column + (column > 0.6), (HEIGHT, 1))
    views: list[View] = []
    for k in range(VIEWS):
        noisy = (depth + rng.laplace(0, 0.02, depth.shape)).astype(np.float32)
        noisy[rng.random(depth.shape) < 0.02] = np.nan
        pose = Pose(np.eye(3), np.array([0.02 * (k - VIEWS // 2), 0.0, 0.0]))
        views.append(View(noisy, camera, pose, image=np.full(depth.shape, 0.5, np.float32)))
    return views
