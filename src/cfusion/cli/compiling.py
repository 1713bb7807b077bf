"""Compile the kernels before the clock starts, under that name: a first run spends most of its time there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cfusion.cli.forecast import Part

if TYPE_CHECKING:
    from cfusion.cli.progress import Listener
    from cfusion.geometry import View

STAGE = "compiling kernels, once, about 10 s"
PREPARING = "loading kernels"
COMPILED = ("cpu",)  # backends whose kernels are compiled on this machine when they are first called
COMPILING = Part("compiling", 12.0, surprise=True)
PARTS = (Part("loading", 2.0), COMPILING)
WIDTH, HEIGHT, VIEWS = 40, 30, 5
LONG = {"sweep": 6.0, "_fill": 4.0}  # kernels by name: times the usual time to compile one
WORK = {"auto": 40.0}  # usual kernels that a method compiles, the long ones counted so
WORK_OF_OTHERS = 20.0


def compile_kernels(methods: Sequence[str], backend: str, progress: Listener) -> None:
    """Fuse a few tiny views with each method, so that its kernels are there; nothing where none are."""
    from cfusion import kernels
    from cfusion.cli.progress import Step
    from cfusion.fuse import fuse

    if kernels.load(backend).NAME not in COMPILED:
        return
    progress(Step(PREPARING, 0.0))
    views = _tiny_views()
    with naming(methods, progress):
        for method in methods:
            fuse(views, method, reference=VIEWS // 2, backend=backend)


@contextmanager
def naming(methods: Sequence[str], progress: Listener) -> Iterator[None]:
    """Progress by the kernels that are compiled; nothing is said where all come from the cache, or none can be."""
    from cfusion.cli.progress import Step

    try:
        from cfusion.kernels.cpu.compiling import hearing
    except ImportError:  # without Numba nothing is compiled
        yield
        return

    everything = sum(WORK.get(method, WORK_OF_OTHERS) for method in methods)
    done = 0.0

    def told(name: str, ready: bool) -> None:
        nonlocal done
        done += LONG.get(name, 1.0) if ready else 0.0
        progress(Step(STAGE, min(0.97, done / everything)))

    with hearing(told):
        yield


def _tiny_views() -> list[View]:
    """A slanted plane with a step, noisy, from places a little apart; holes, so that those are closed too."""
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
