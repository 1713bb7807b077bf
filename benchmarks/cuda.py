"""The CUDA backend on one device: time per iteration against the ceilings of the machine, and what surrounds it.

Run `python -m benchmarks.cuda`; `--check` first compares every kernel with the definition. Times are medians over
many runs after warm-up, between CUDA events. Depth: a smooth surface with steps, Laplace noise of scale 0.6, every
pixel seen.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from cfusion import kernels
from cfusion.energy import L1, TGV, Energy, Prior
from cfusion.geometry import Stack
from cfusion.kernels.contract import Box, Fidelity, Problem, State, Steps, links_of
from cfusion.solvers import ACS, PDHG, prepare, solve
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.steps import Pace, choose_steps

NOISE = 0.6
ALPHA = (3.0, 6.0)
REPEATS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the definition first (a minute)")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    arguments = parser.parse_args()
    backend = kernels.load("cuda")
    figures: dict[str, float] = {}
    name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    print(f"{name}, CuPy {cupy.__version__}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}")
    if arguments.check:
        check(backend, figures)
    ceilings(figures)
    for height, width, views in ((480, 640, 11), (375, 1242, 5), (4096, 4096, 5)):
        for weighted in (False, True):
            iteration(backend, height, width, views, weighted, figures)
    surroundings(backend, figures)
    solves(backend, figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


def note(figures: dict[str, float], what: str, value: float, unit: str, beside: str = "") -> None:
    figures[f"{what} [{unit}]"] = value
    print(f"{what:<58} {value:>10.4g} {unit:<8} {beside}", flush=True)


def seconds(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The median time of one run on the device."""
    run()
    run()
    times = []
    for _ in range(repeats):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return float(np.median(times))


def ceilings(figures: dict[str, float]) -> None:
    """What the memory and the arithmetic units of this device can do, measured."""
    source = cupy.random.random((1 << 28,), dtype=np.float32)
    target = cupy.empty_like(source)
    elapsed = seconds(lambda: cupy.copyto(target, source))
    note(figures, "memory: copy of 1 GiB, read and written", 2 * source.nbytes / elapsed / 1e12, "TB/s")
    small = source[: 1 << 21]
    room = target[: 1 << 21]
    elapsed = seconds(lambda: [cupy.copyto(room, small) for _ in range(50)]) / 50
    note(figures, "cache: copy of 8 MiB, launch included", 2 * small.nbytes / elapsed / 1e12, "TB/s")
    code = r"""extern "C" __global__ void burn(float* out) {
        float a = threadIdx.x, b = 1.0001f, c = a + 1, d = a + 2, e = a + 3;
        for (int k = 0; k < 4096; k++) { a = a * b + c; c = c * b + d; d = d * b + e; e = e * b + a; }
        out[blockIdx.x * blockDim.x + threadIdx.x] = a + c + d + e; }"""
    burn = cupy.RawKernel(code, "burn")
    blocks = 8 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    out = cupy.empty(blocks * 1024, np.float32)
    elapsed = seconds(lambda: burn((blocks,), (1024,), (out,)))
    note(figures, "arithmetic: float32 multiply-adds", blocks * 1024 * 4096 * 4 / elapsed / 1e12, "T/s")


def example(height: int, width: int, views: int, weighted: bool) -> tuple[Problem, State, Steps, Box]:
    """A problem made on the device, and the state at its median."""
    rng = cupy.random.default_rng(7)
    y, x = cupy.mgrid[:height, :width].astype(np.float32)
    surface = 0.3 * cupy.sin(x / 90) * cupy.cos(y / 70) + 0.5 * (x > width / 2) + 0.002 * y
    depths = cupy.empty((views, height, width), np.float32)
    for k in range(views):
        sign = cupy.where(rng.random((height, width)) < 0.5, -1, 1)
        depths[k] = surface + NOISE * sign * rng.exponential(1.0, (height, width)) * 1.0
    weights = rng.random(depths.shape, dtype=np.float32) + np.float32(0.1) if weighted else None
    backend = kernels.load("cuda")
    seen, start = backend.order_observations(depths, weights, Fidelity.L1)
    links = cupy.asarray(links_of(np.ones((height, width), np.bool_)))
    problem = Problem(Fidelity.L1, 1.0, seen, cupy.ones((height, width), np.float32), links, ALPHA)
    state = State(cupy.zeros((3, height, width), np.float32), cupy.zeros((5, height, width), np.float32))
    state.primal[0] = start
    low, high = float(depths.min()), float(depths.max())
    margin = high - low
    return problem, state, choose_steps(ALPHA, NOISE / np.sqrt(views)), Box(low - margin, high + margin)


def iteration(backend: Any, height: int, width: int, views: int, weighted: bool, figures: dict[str, float]) -> None:
    """One iteration, by the difference of a long and a short run, and as the short run has it."""
    problem, state, steps, _ = example(height, width, views, weighted)
    what = f"iteration, {width} x {height}, K = {views}{', weighted' if weighted else ''}"
    pixels = height * width
    few, many = (24, 240) if pixels < 1 << 22 else (8, 40)
    fresh = State(state.primal.copy(), state.dual.copy())

    def run(count: int) -> None:
        state.primal[...], state.dual[...] = fresh.primal, fresh.dual
        backend.iterate(problem, state, steps, count)

    reset = seconds(lambda: run(0))
    short, long = seconds(lambda: run(few)) - reset, seconds(lambda: run(many)) - reset
    moved = (8 + 8 + views * (2 if weighted else 1) + 2) * 4 + 2  # bytes a pixel, everything once
    floor = moved * pixels / (figures["memory: copy of 1 GiB, read and written [TB/s]"] * 1e12)
    note(
        figures,
        what,
        1e6 * (long - short) / (many - few),
        "us",
        f"(memory alone, each byte once: {1e6 * floor:.1f} us)",
    )
    note(figures, f"  of {few} iterations from and to memory", 1e6 * short / few, "us")
    backend.iterate(problem, state, steps, many)
    settled = seconds(lambda: backend.iterate(problem, state, steps, many))
    note(figures, "  the same later, when few observations are crossed", 1e6 * settled / many, "us")


def surroundings(backend: Any, figures: dict[str, float]) -> None:
    """What a solve needs beside iterations."""
    problem, state, steps, box = example(480, 640, 11, weighted=False)
    backend.iterate(problem, state, steps, 100)
    for what, run in {
        "energy": lambda: backend.energy(problem, state),
        "misfit": lambda: backend.misfit(problem, state.primal[0]),
        "bound, 40 repair steps": lambda: backend.bound(problem, state, box, 40),
        "sort of the observations": lambda: backend.order_observations(problem.observations.values, None, Fidelity.L1),
    }.items():
        note(figures, f"{what}, 640 x 480, K = 11", 1e6 * seconds(run), "us")
    began = time.perf_counter()
    for _ in range(100):
        backend.iterate(problem, state, steps, 1)
    note(figures, "host time of one call of iterate", 1e4 * (time.perf_counter() - began), "us")


def solves(backend: Any, figures: dict[str, float]) -> None:
    """From the median to an excess of 1e-3 and to a certificate of it; ACS from host arrays to host arrays."""
    problem, _, _, _ = example(480, 640, 11, weighted=False)
    stack = Stack(cupy.asnumpy(problem.observations.values) + np.float32(5))
    energy = Energy(L1(), TGV(2, ALPHA))
    task = prepare(energy, stack, backend)
    problem, start = task.problem(fixed_confidence(task)), task.initial_state()

    def fresh() -> State:
        return State(start.primal.copy(), start.dual.copy())

    def after(count: int) -> State:
        state = fresh()
        Pace(backend, task.noise).run(problem, state, count)
        return state

    least = backend.energy(problem, after(6000)).total
    count = 24
    while backend.energy(problem, after(count)).total > least * 1.001:
        count += 24
    note(figures, "iterations to an excess of 1e-3", count, "")
    note(
        figures,
        "fixed confidence to an excess of 1e-3",
        1e3 * wall(fresh, lambda state: Pace(backend, task.noise).run(problem, state, count)),
        "ms",
    )
    note(
        figures,
        "  to a certified gap of 1e-3",
        1e3 * wall(fresh, lambda state: PDHG().minimise(task, problem, state)),
        "ms",
    )
    outcome = PDHG().minimise(task, problem, fresh())
    note(figures, "  the gap, certified", outcome.gap, "", f"({outcome.iterations} iterations, {outcome.status.name})")
    note(
        figures,
        "prepare: upload, sort, start",
        1e3 * wall(lambda: stack, lambda given: prepare(energy, given, backend)),
        "ms",
    )
    joint = Energy(L1(), TGV(2, ALPHA), Prior())
    note(
        figures,
        "ACS from host to host arrays",
        1e3 * wall(lambda: stack, lambda given: solve(joint, given, ACS(), backend=backend)),
        "ms",
    )


def wall(make: Callable[[], Any], run: Callable[[Any], Any], repeats: int = REPEATS) -> float:
    """The median time of a run as its caller sees it, what it is given made before."""
    times = []
    for _ in range(repeats + 2):
        given = make()
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        run(given)
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - began)
    return float(np.median(times[2:]))


def check(backend: Any, figures: dict[str, float]) -> None:
    """The largest differences from the definition, in float32 after 200 iterations."""
    reference = kernels.load("reference")
    for weighted in (False, True):
        problem, state, steps, box = example(95, 131, 5, weighted)
        on_host = _on_host(problem)
        defined = State(state.primal.get(), state.dual.get())
        backend.iterate(problem, state, steps, 200)
        reference.iterate(on_host, defined, steps, 200)
        apart = float(np.abs(state.primal.get() - defined.primal).max())
        note(figures, f"largest difference after 200 iterations, weighted={weighted}", apart, "")
        ours, theirs = backend.energy(problem, state).total, reference.energy(on_host, defined).total
        note(figures, "  of the energy, relative", abs(ours - theirs) / theirs, "")
        bounds = backend.bound(problem, state, box, 40), reference.bound(on_host, defined, box, 40)
        note(figures, "  of the bound, relative to the energy", abs(bounds[0] - bounds[1]) / theirs, "")


def _on_host(problem: Problem) -> Problem:
    from dataclasses import fields, replace

    def there(part: Any) -> Any:
        return {
            f.name: cupy.asnumpy(v) if isinstance(v := getattr(part, f.name), cupy.ndarray) else v for f in fields(part)
        }

    changed = there(problem)
    changed["observations"] = replace(problem.observations, **there(problem.observations))
    return replace(problem, **changed)


if __name__ == "__main__":
    main()
