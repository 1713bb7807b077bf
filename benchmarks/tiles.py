"""One iteration: plain passes over memory against several iterations per cache tile."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.plain_passes import iterate as plain
from cfusion import Stack, kernels
from cfusion.energy import L1, TGV, Energy
from cfusion.kernels.cpu.iteration import iterate as tiled
from cfusion.solvers import prepare
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.steps import BLOCK, choose_steps


def main() -> None:
    for height, width, views in ((480, 640, 11), (4096, 4096, 5)):
        rng = np.random.default_rng(0)
        stack = Stack(rng.laplace(3.0, 0.6, (views, height, width)).astype(np.float32))
        task = prepare(Energy(L1(), TGV(2)), stack, kernels.load("cpu"))
        problem = task.problem(fixed_confidence(task))
        steps = choose_steps(problem.alpha, task.step_scale)
        best: dict[str, float] = {}
        for _ in range(5 if height < 1000 else 3):
            for name, run in (("plain", plain), ("tiled", tiled)):
                best[name] = min(best.get(name, np.inf), _time(run, problem, task.initial_state(), steps, BLOCK))
        print(f"{width}x{height}x{views}: tiles {best['plain'] / best['tiled']:.2f}x over plain passes", flush=True)


def _time(run: Any, problem: Any, state: Any, steps: Any, count: int) -> float:
    run(problem, state, steps, 1)
    began = time.perf_counter()
    run(problem, state, steps, count)
    return (time.perf_counter() - began) / count


if __name__ == "__main__":
    main()
