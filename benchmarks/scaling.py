"""Time against pixels and views, peak memory in images, auto against one solve, compilation."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc

import numpy as np

from benchmarks.scenes import KINDS, bundle, splatted
from cfusion import METHODS, Stack, fuse, kernels
from cfusion.energy import L1, TGV, Energy
from cfusion.kernels.cpu import foresight
from cfusion.solvers import PDHG, prepare
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.steps import choose_steps

CPU = kernels.load("cpu")
SIZES = ((48, 64), (120, 160), (480, 640), (1024, 1024), (2048, 2048), (4096, 4096))
VIEWS = (1, 3, 5, 11, 21, 33, 64)


def main() -> None:
    _compilation()
    rng = np.random.default_rng(0)
    cost = {size: _iteration(rng, *size, 5) for size in SIZES}
    base = cost[(480, 640)] / (480 * 640)
    print("time per pixel and iteration, K = 5, relative to 640x480:", end=" ")
    print(", ".join(f"{w}x{h} {seconds / (h * w) / base:.2f}" for (h, w), seconds in cost.items()))
    cost_k = {views: _iteration(rng, 480, 640, views) for views in VIEWS}
    print("time per iteration at 640x480, relative to K = 11:", end=" ")
    print(", ".join(f"K={views} {seconds / cost_k[11]:.2f}" for views, seconds in cost_k.items()))
    for views in (5, 11):
        print(f"peak memory of a solve beyond its input, 640x480, K = {views}: {_memory(rng, views):.1f} images")
    _auto()


def _stack(rng: np.random.Generator, height: int, width: int, views: int) -> Stack:
    return Stack(rng.laplace(3.0, 0.6, (views, height, width)).astype(np.float32))


def _iteration(rng: np.random.Generator, height: int, width: int, views: int) -> float:
    task = prepare(Energy(L1(), TGV(2)), _stack(rng, height, width, views), CPU)
    problem, state = task.problem(fixed_confidence(task)), task.initial_state()
    steps = choose_steps(problem.alpha, task.step_scale)
    CPU.iterate(problem, state, steps, 8)
    best, count = np.inf, 48 if height * width <= 480 * 640 else 8
    for _ in range(7 if height * width <= 480 * 640 else 3):
        began = time.perf_counter()
        CPU.iterate(problem, state, steps, count)
        best = min(best, (time.perf_counter() - began) / count)
    return float(best)


def _memory(rng: np.random.Generator, views: int) -> float:
    """NumPy reports its arrays to tracemalloc; what Numba allocates inside kernels is a few rows per thread."""
    stack = _stack(rng, 480, 640, views)
    PDHG(iterations=24)(prepare(Energy(L1(), TGV(2)), stack, CPU))
    tracemalloc.start()
    PDHG(iterations=48)(prepare(Energy(L1(), TGV(2)), stack, CPU))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (480 * 640 * 4)


def _auto() -> None:
    for kind in KINDS:
        views, _ = bundle(kind)
        stack = splatted(views)
        method = METHODS["l1"]
        best = {"solve": np.inf, "auto": np.inf}
        for _ in range(3):
            began = time.perf_counter()
            method.solver(prepare(method.energy, stack, CPU))
            best["solve"] = min(best["solve"], time.perf_counter() - began)
            began = time.perf_counter()
            fuse(views)
            best["auto"] = min(best["auto"], time.perf_counter() - began)
        print(
            f"auto end to end over one fixed-confidence solve, {kind}: {best['auto'] / best['solve']:.1f}x", flush=True
        )


def _compilation() -> None:
    """The first `auto` in a process with an empty cache, with and without helpers in turn, and with a full one."""
    code = (
        "import sys, time, numpy as np\n"
        "from cfusion import Pinhole, Pose, View, fuse\n"
        "from cfusion.kernels.cpu import foresight\n"
        "foresight.MOST_HELPERS = int(sys.argv[1])\n"
        "rng, camera = np.random.default_rng(0), Pinhole(60.0, 60.0, 31.5, 23.5, 64, 48)\n"
        "maps = (2 + rng.normal(0, 0.02, (5, 48, 64))).astype(np.float32)\n"
        "views = [View(each, camera, Pose(np.eye(3), np.array([0.02 * k, 0, 0]))) for k, each in enumerate(maps)]\n"
        "began = time.perf_counter(); fuse(views); print(time.perf_counter() - began)"
    )

    def seconds(helpers: int, folder: str) -> float:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", code, str(helpers)]
        return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)

    best = {"alone": np.inf, "helped": np.inf, "cached": np.inf}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            best["alone"] = min(best["alone"], seconds(0, folder))
        with tempfile.TemporaryDirectory() as folder:
            best["helped"] = min(best["helped"], seconds(foresight.MOST_HELPERS, folder))
            best["cached"] = min(best["cached"], seconds(0, folder))
    print("first auto, 64x48, K = 5:", ", ".join(f"{name} {each:.1f} s" for name, each in best.items()), flush=True)


if __name__ == "__main__":
    main()
