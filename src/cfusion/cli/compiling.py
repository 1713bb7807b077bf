"""Compile the kernels before the clock starts, under that name: a first run spends most of its time there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfusion.cli.progress import Listener
    from cfusion.geometry import View

STAGE = "compiling kernels, once, about 10 s"
COMPILED = ("cpu",)  # backends whose kernels are compiled on this machine when they are first called
WIDTH, HEIGHT, VIEWS = 40, 30, 5


def compile_kernels(methods: Sequence[str], backend: str, progress: Listener) -> None:
    """Fuse a few tiny views with each method, so that its kernels are there; nothing where none are."""
    from cfusion import kernels
    from cfusion.cli.progress import Step
    from cfusion.fuse import fuse

    if kernels.load(backend).NAME not in COMPILED:
        return
    views = _tiny_views()
    for done, method in enumerate(methods):
        progress(Step(STAGE, done / len(methods)))
        fuse(views, method, reference=VIEWS // 2, backend=backend)


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
