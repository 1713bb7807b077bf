"""The CUDA backend on one device: time per iteration against the ceilings of the machine, and what surrounds it.

Run `python -m benchmarks.cuda`; `--check` first compares every kernel with the definition. Times are medians over
many runs after warm-up: of kernels between CUDA events, of whole calls by the clock, from host arrays to host arrays.
Kernels see a smooth surface with steps, Laplace noise of scale 0.6, every pixel. Whole calls see eleven views of a
sphere on the paper's orbit with that noise, or five of a street with the noise of stereo; both need no renderer.
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

from benchmarks.scenes import iterate
from cfusion import METHODS, Pinhole, Pose, View, fuse, fuse_many, kernels
from cfusion.kernels.contract import Box, Fidelity, Problem, State, Steps, links_of
from cfusion.solvers import PDHG, prepare
from cfusion.solvers.pdhg import REPAIR_ROUNDS, fixed_confidence, relative_gap
from cfusion.solvers.steps import StepBalancer, choose_steps
from cfusion.synthetic import PAPER_CAMERA, orbit

NOISE = 0.6
ALPHA = (3.0, 6.0)
REPEATS = 15
BUNDLES = {"adapt-hprior": 200, "auto": 50}  # of a sequence
OPERATIONS = 75  # additions, multiply-adds, minima of one pixel in one iteration: about, by hand in sweep.cu (order 2)
MEMORY, ARITHMETIC, BUS = "memory: copy of 1 GiB, read and written", "arithmetic: float32 multiply-adds", "upload"


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
    for height, width, views, weighted in ((480, 640, 11, False), (480, 640, 11, True), (375, 1242, 5, False)):
        iteration(backend, height, width, views, weighted, figures)
    fixed_confidence_solve(backend, figures)
    whole_calls(figures)
    surroundings(backend, figures)
    iteration(backend, 4096, 4096, 5, False, figures)
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
    source = cupy.zeros((1 << 28,), np.float32)
    target = cupy.empty_like(source)
    elapsed = seconds(lambda: cupy.copyto(target, source))
    note(figures, MEMORY, 2 * source.nbytes / elapsed / 1e12, "TB/s")
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
    note(figures, ARITHMETIC, blocks * 1024 * 4096 * 4 / elapsed / 1e12, "T/s")
    maps = np.zeros((11, 480, 640), np.float32)
    note(figures, BUS, maps.nbytes / wall(lambda: maps, cupy.asarray) / 1e9, "GB/s", "(of ordinary host memory)")


def roofline(figures: dict[str, float], pixels: int, views: int, weighted: bool) -> tuple[float, float]:
    """Seconds of one iteration if every byte crossed the memory once, and if only the arithmetic counted."""
    moved = (8 + 8 + views * (2 if weighted else 1) + 2) * 4 + 2  # bytes a pixel
    bytes_a_second, operations = figures[f"{MEMORY} [TB/s]"] * 1e12, figures[f"{ARITHMETIC} [T/s]"] * 1e12
    return moved * pixels / bytes_a_second, OPERATIONS * pixels / operations


def example(height: int, width: int, views: int, weighted: bool) -> tuple[Problem, State, Steps, Box]:
    """A problem on the device, and the state at its median."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    surface = 0.3 * np.sin(x / 90) * np.cos(y / 70) + 0.5 * (x > width / 2) + 0.002 * y
    depths = cupy.empty((views, height, width), np.float32)
    low, high = np.inf, -np.inf
    for k in range(views):
        drawn = rng.standard_exponential((height, width), np.float32) - rng.standard_exponential(
            (height, width), np.float32
        )
        noisy = surface + np.float32(NOISE) * drawn
        low, high = min(low, float(noisy.min())), max(high, float(noisy.max()))
        depths[k] = cupy.asarray(noisy)
    weights = cupy.asarray(rng.random(depths.shape, np.float32) + np.float32(0.1)) if weighted else None
    found = _sorted(depths, weights)
    seen, start = found.observations, found.median
    links = cupy.asarray(links_of(np.ones((height, width), np.bool_)))
    problem = Problem(Fidelity.L1, 1.0, seen, cupy.ones((height, width), np.float32), links, ALPHA)
    state = State(cupy.zeros((3, height, width), np.float32), cupy.zeros((5, height, width), np.float32))
    state.primal[0] = start
    margin = high - low
    return problem, state, choose_steps(ALPHA, NOISE / np.sqrt(views)), Box(low - margin, high + margin)


def _sorted(depths: Any, weights: Any) -> Any:
    """The observations of whole maps in order."""
    everything = (slice(0, depths.shape[1]), slice(0, depths.shape[2]))
    return kernels.load("cuda").sort_observations(depths, weights, everything, 0.0, False, Fidelity.L1, np.float32)


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
    each, (memory, arithmetic) = (long - short) / (many - few), roofline(figures, pixels, views, weighted)
    beside = f"(memory, each byte once: {1e6 * memory:.1f} us; arithmetic {1e6 * arithmetic:.1f} us)"
    note(figures, what, 1e6 * each, "us", beside)
    note(figures, "  share of the memory limit", 100 * memory / each, "%", "(above 100: several iterations per pass)")
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
        "bound, 160 repair steps": lambda: backend.bound(problem, state, box, 160),
        "sort of the observations": lambda: _sorted(problem.observations.values, None),
    }.items():
        note(figures, f"{what}, 640 x 480, K = 11", 1e6 * seconds(run), "us")
    began = time.perf_counter()
    for _ in range(100):
        backend.iterate(problem, state, steps, 1)
    note(figures, "host time of one call of iterate", 1e4 * (time.perf_counter() - began), "us")


def fixed_confidence_solve(backend: Any, figures: dict[str, float]) -> None:
    """From the median to an excess of 1e-3, and to a certificate of it: method l1, everything on the device."""
    method = METHODS["l1"]
    stack = method.splat(sphere(np.random.default_rng(0)), backend=backend)
    task = prepare(method.energy, stack, backend)
    problem, start = task.problem(fixed_confidence(task)), task.initial_state()

    def fresh() -> State:
        return State(start.primal.copy(), start.dual.copy())

    def after(count: int) -> State:
        state = fresh()
        iterate(StepBalancer(backend, task.step_scale), problem, state, count)
        return state

    least, first = backend.energy(problem, after(6000)).total, backend.energy(problem, start).total
    count = 24
    while backend.energy(problem, after(count)).total > least * 1.001:
        count += 24
    reached = after(count)
    bound = backend.bound(problem, reached, task.box, 4 * REPAIR_ROUNDS)
    gap = relative_gap(backend.energy(problem, reached).total, bound, first)
    arithmetic = count * roofline(figures, problem.links.size, len(problem.observations.values), False)[1]
    note(
        figures,
        "fixed confidence to an excess of 1e-3",
        1e3 * wall(fresh, lambda state: iterate(StepBalancer(backend, task.step_scale), problem, state, count)),
        "ms",
        f"({count} iterations of {problem.links.shape}, certified gap {gap:.1e}; arithmetic {1e3 * arithmetic:.2f} ms)",
    )
    outcome = PDHG().minimise(task, problem, fresh())
    note(
        figures,
        "  until that is certified",
        1e3 * wall(fresh, lambda state: PDHG().minimise(task, problem, state)),
        "ms",
        f"({outcome.iterations} iterations, {outcome.status.name}, gap {outcome.gap:.1e})",
    )


def whole_calls(figures: dict[str, float]) -> None:
    """`fuse` from host arrays to host arrays, alone and as a sequence."""
    views = sphere(np.random.default_rng(0))
    for method in BUNDLES:
        whole_call(f"{method}, 640 x 480, K = 11", views, method, figures)
        sequence(method, views, figures)
    whole_call("auto, 1242 x 375, K = 5", street(np.random.default_rng(0)), "auto", figures)


def sequence(method: str, views: list[View], figures: dict[str, float]) -> None:
    """Bundles one after the other, some at a time on the device."""
    count = BUNDLES[method]
    began = time.perf_counter()
    fused = sum(1 for _ in fuse_many((views for _ in range(count)), method, backend="cuda"))
    each = (time.perf_counter() - began) / fused
    upload = sum(view.depth.nbytes for view in views) / (figures[f"{BUS} [GB/s]"] * 1e9)
    note(figures, f"a sequence of {count} bundles, {method}", 1 / each, "/s", f"(uploads alone {1 / upload:.0f} /s)")


def whole_call(name: str, views: list[View], method: str, figures: dict[str, float]) -> None:
    began = time.perf_counter()
    result = fuse(views, method, backend="cuda", check=False)
    first = time.perf_counter() - began
    pixels = int((~np.isnan(result.depth)).sum())
    upload = sum(view.depth.nbytes for view in views) / (figures[f"{BUS} [GB/s]"] * 1e9)
    floor = upload + result.iterations * roofline(figures, pixels, len(views), True)[1]
    elapsed = wall(lambda: views, lambda given: fuse(given, method, backend="cuda", check=False))
    beside = f"({result.iterations} iterations in the last solve, gap {result.gap:.1e}; "
    beside += f"upload and their arithmetic {1e3 * floor:.1f} ms)"
    note(figures, name, 1e3 * elapsed, "ms", beside)
    note(figures, f"  the first time, compiling what is not on disk: {name}", first, "s")


def sphere(rng: np.random.Generator) -> list[View]:
    """Eleven views of a sphere of radius 1 at distance 3, around the reference of the paper's orbit."""
    camera = PAPER_CAMERA
    rays = camera.back_project(np.ones(camera.shape))
    views = []
    for pose in orbit()[30:41]:
        along, centre = np.einsum("hwc,hwc->hw", rays, rays), pose.inverse().translation
        half = rays @ centre
        root = half**2 - along * (centre @ centre - 1)
        with np.errstate(invalid="ignore"):
            depth = (half - np.sqrt(root)) / along
        noisy = depth + rng.laplace(0, NOISE, depth.shape)
        views.append(View(np.where(noisy > 0.1, noisy, np.nan), camera, pose))
    return views


def street(rng: np.random.Generator) -> list[View]:
    """Five views along a street between two walls, with half a pixel of noise in disparity."""
    camera = Pinhole(721.5, 721.5, 609.6, 172.9, 1242, 375)
    rays = camera.back_project(np.ones(camera.shape))
    views = []
    for place in range(5):
        with np.errstate(divide="ignore"):
            planes = [1.65 / rays[..., 1], 8 / rays[..., 0], -7 / rays[..., 0], np.full(camera.shape, 80.0 - place)]
        depth = np.min([np.where(plane > 0, plane, np.inf) for plane in planes], axis=0)
        disparity = 721.5 * 0.54 / depth + rng.laplace(0, 0.35, depth.shape)
        pose = Pose(np.eye(3), np.array([0.0, 0.0, float(place)]))
        views.append(View(np.where(disparity > 4, 721.5 * 0.54 / disparity, np.nan), camera, pose))
    return views


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
    reference = kernels.load("numpy")
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
