"""Denoising one 640x480 image with TGV of order 2 and squared errors to a relative excess of 1e-3: ours against peers.

Each is judged in the energy it minimises itself (`peer_energies`), a peer's x with the best v there is for it. Runs
alternate, the best of several counts; compilation is left out. CCPi-Regularisation (ccpi.filters) and deepinv are
development-only and skipped with a word where absent. OMP_NUM_THREADS and NUMBA_NUM_THREADS set the threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from benchmarks.peer_energies import Floats, PeerEnergy
from benchmarks.scenes import bundle, iterate
from cfusion import Stack, kernels
from cfusion.energy import L2, TGV, Energy
from cfusion.solvers import PDHG, prepare
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.steps import BLOCK, StepBalancer

CPU = kernels.load("cpu")
ALPHA = (0.1, 0.15)  # deepinv fixes the ratio
ENERGY = Energy(L2(), TGV(2, ALPHA))

NOISE, TARGET, ROUNDS = 0.1, 1e-3, 5


@dataclass(frozen=True)
class Runner:
    """Something to be timed."""

    name: str
    threads: int
    iterations: int
    run: Callable[[], object]


def main() -> None:
    peers = []
    for name, peer in (("ccpi", _ccpi), ("deepinv", _deepinv)):
        try:
            peers.append(peer())
        except ImportError as missing:
            print(f"{name}: skipped, {missing}")
    for name, scene in (("disc on waves", _disc()), ("planar city", _city())):
        print(f"\n{name}", flush=True)
        rng = np.random.default_rng(0)
        image = (scene + NOISE * rng.normal(size=scene.shape)).astype(np.float32)
        _time([*_ours(image), *(peer(image) for peer in peers)])


def _disc() -> Floats:
    y, x = np.mgrid[:480, :640] / 480.0
    return 0.4 + 0.3 * x * y + 0.25 * (np.hypot(x - 0.6, y - 0.5) < 0.25) + 0.1 * np.sin(6 * x)


def _city() -> Floats:
    """The true depth of the built-in city, from 0 to 1: the peers' steps suit nothing else."""
    _, depth = bundle("city")
    return (depth - depth.min()) / np.ptp(depth)


def _time(runners: list[Runner]) -> None:
    """Wall clock and processor time of each, against the first."""
    seconds = np.full((len(runners), 2), np.inf)
    for _ in range(ROUNDS):
        for k, runner in enumerate(runners):
            began = time.perf_counter(), time.process_time()
            runner.run()
            ended = time.perf_counter(), time.process_time()
            seconds[k] = np.minimum(seconds[k], np.subtract(ended, began))
    for runner, (wall, processor) in zip(runners, seconds / seconds[0], strict=True):
        print(
            f"{runner.name:28} {runner.threads} threads {runner.iterations:5} iterations"
            f" {wall:7.1f}x our time, {processor:7.1f}x our processor time",
            flush=True,
        )


def _ours(image: Floats) -> list[Runner]:
    """To the excess, and as the solver ends by itself: with a certificate."""
    import numba

    exact = prepare(ENERGY, Stack(image[None]), CPU, dtype=np.float64)
    problem, state = exact.problem(fixed_confidence(exact)), exact.initial_state()
    iterate(StepBalancer(CPU, exact.step_scale), problem, state, 4000)
    least = CPU.energy(problem, state).total
    task = prepare(ENERGY, Stack(image[None]), CPU)
    problem, state, pace, needed = (
        task.problem(fixed_confidence(task)),
        task.initial_state(),
        StepBalancer(CPU, task.step_scale),
        0,
    )
    while CPU.energy(problem, state).total / least - 1 > TARGET:
        iterate(pace, problem, state, BLOCK)
        needed += BLOCK

    def alone() -> None:
        task = prepare(ENERGY, Stack(image[None]), CPU)
        iterate(StepBalancer(CPU, task.step_scale), task.problem(fixed_confidence(task)), task.initial_state(), needed)

    def certify() -> None:
        PDHG()(prepare(ENERGY, Stack(image[None]), CPU))

    certified = PDHG()(task)
    print(f"ours: least energy {least:.2f}; certified at a gap of {certified.gap:.1e}", flush=True)
    threads = numba.get_num_threads()
    return [
        Runner("ours", threads, needed, alone),
        Runner("ours, until certified", threads, certified.iterations, certify),
    ]


def _ccpi() -> Callable[[Floats], Runner]:
    if find_spec("ccpi") is None:
        raise ImportError("ccpi is not installed")
    from ccpi.filters.regularisers import TGV as CCPI

    def denoise(image: Floats, iterations: int) -> Floats:
        out = CCPI(image, 1.0, *ALPHA, iterations, 12.0, 0.0, "cpu")
        return np.asarray(out[0] if isinstance(out, tuple) else out)

    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    return lambda image: _peer("ccpi", threads, PeerEnergy(ALPHA, forward=True, symmetric=True), denoise, image)


def _deepinv() -> Callable[[Floats], Runner]:
    if find_spec("deepinv") is None:
        raise ImportError("deepinv is not installed")
    import torch
    from deepinv.models import TGVDenoiser

    def denoise(image: Floats, iterations: int) -> Floats:
        model = TGVDenoiser(n_it_max=iterations, crit=0.0)
        return np.asarray(model(torch.from_numpy(image)[None, None], ths=1.0)[0, 0])  # 0.1 and 0.15 times ths

    threads = torch.get_num_threads()
    return lambda image: _peer("deepinv", threads, PeerEnergy(ALPHA, forward=False, symmetric=False), denoise, image)


def _peer(
    name: str, threads: int, energy: PeerEnergy, denoise: Callable[[Floats, int], Floats], image: Floats
) -> Runner:
    """A peer with the fewest iterations, to 4 %, that reach the target."""
    minimum = energy.minimise(image)
    few, enough = 50, 3200
    while enough > 1.04 * few:
        middle = round((few * enough) ** 0.5)
        excess = energy.best(denoise(image, middle), image, minimum) / minimum.energy - 1
        few, enough = (few, middle) if excess <= TARGET else (middle, enough)
    print(f"{name}: least energy {minimum.energy:.2f}", flush=True)
    return Runner(name, threads, enough, lambda: denoise(image, enough))


if __name__ == "__main__":
    main()
