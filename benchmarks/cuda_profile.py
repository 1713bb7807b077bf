"""Where `auto` spends its time on one device: launches and the device's time by kernel, the clock by stage.

Run `python -m benchmarks.cuda_profile [--host] [--processes 1,2,4]`. Kernels are timed between two CUDA events each, in
runs of their own, as events take time themselves; stages by the clock, without waiting for the device at their ends, so
that a stage has the time of what it waits for. `--host`: the functions of Python that take longest, by samples.
`--processes`: bundles of the sphere a second with so many processes on the device, as workers of a scene share it.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest import mock

import cupy
import numpy as np

from benchmarks.cuda import sphere, street
from cfusion import View, fuse
from cfusion.kernels.cuda import device, launching

REPEATS = 12
SAMPLED, EVERY = 40, 5e-4  # runs whose stack is looked at, and seconds between two looks
STAGES = (
    "cfusion.auto.auto:first_surface",
    "cfusion.auto.registration:register",
    "cfusion.auto.auto:observe",
    "cfusion.auto.auto:edge_weights",
    "cfusion.auto.auto:choose",
    "cfusion.auto.auto:fit",
    "cfusion.auto.trust:assess",
    "cfusion.auto.assess:_read",
    "cfusion.auto.assess:collect",
    "cfusion.auto.assess:refit_halves",
    "cfusion.auto.registration:read_surface",
    "cfusion.auto.registration:_told",
    "cfusion.auto.cross_validation:advance",
    "cfusion.auto.cross_validation:prepare",
    "cfusion.auto.cross_validation:leave_out",
    "cfusion.auto.cross_validation:sample_of",
    "cfusion.auto.first_surface:prepare",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="store_true", help="functions of Python, by samples")
    parser.add_argument("--processes", default="", help="numbers of processes that share the device, as 1,2,4")
    arguments = parser.parse_args()
    if arguments.processes:
        for count in map(int, arguments.processes.split(",")):
            processes(count)
        return
    for name, make in (("sphere, 640 x 480 x 11", sphere), ("street, 1242 x 375 x 5", street)):
        views = make(np.random.default_rng(0))
        for _ in range(3):
            fuse(views, "auto", backend="cuda", check=False)
        print(f"\n{name}: {1e3 * np.median([_clock(views) for _ in range(REPEATS)]):.1f} ms")
        stages(views)
        kernels(views)
        if arguments.host:
            host(views)


def _clock(views: list[View]) -> float:
    began = time.perf_counter()
    fuse(views, "auto", backend="cuda", check=False)
    return time.perf_counter() - began


@contextmanager
def _wrapped(wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Every stage as `wrap` makes it."""
    patches = []
    for each in STAGES:
        module, name = each.split(":")
        patches.append(mock.patch.object(importlib.import_module(module), name, wrap(each, _of(module, name))))
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def _of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def stages(views: list[View]) -> None:
    """The clock and the calls of every stage."""
    spent: dict[str, list[float]] = defaultdict(list)

    def wrap(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                spent[stage].append(time.perf_counter() - began)

        return timed

    with _wrapped(wrap):
        for _ in range(REPEATS):
            fuse(views, "auto", backend="cuda", check=False)
    for stage, times in spent.items():
        print(f"  {stage:<48} {1e3 * sum(times) / REPEATS:7.2f} ms  {len(times) / REPEATS:5.1f} calls")


def kernels(views: list[View]) -> None:
    """Launches and the device's time, by kernel."""
    events: list[tuple[str, Any, Any]] = []
    waits = [0]
    plain, read, turn = launching.Kernel.__call__, device.Desk.read, device.Desk.turn

    def launch(self: Any, *arguments: Any, **named: Any) -> None:
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        plain(self, *arguments, **named)
        end.record()
        events.append((self.compiled.name, start, end))

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*arguments: Any) -> Any:
            waits[0] += 1
            return method(*arguments)

        return wait

    with (
        mock.patch.object(launching.Kernel, "__call__", launch),
        mock.patch.object(device.Desk, "read", counted(read)),
        mock.patch.object(device.Desk, "turn", counted(turn)),
    ):
        fuse(views, "auto", backend="cuda", check=False)
    cupy.cuda.Device().synchronize()
    spent: dict[str, list[float]] = defaultdict(list)
    for name, start, end in events:
        spent[name].append(cupy.cuda.get_elapsed_time(start, end))
    busy = sum(map(sum, spent.values()))
    print(f"  device busy {busy:.1f} ms, {len(events)} launches of ours, {waits[0]} waits for sums")
    for name, times in sorted(spent.items(), key=lambda item: -sum(item[1]))[:16]:
        print(f"    {name:<32} {sum(times):7.2f} ms  {len(times):4d} launches")


def host(views: list[View]) -> None:
    """The functions of Python that take longest, by samples of the stack: cProfile would double their time.

    The time of what is computed between two calls goes to the second one.
    """
    own, all_of = Counter[str](), Counter[str]()

    def look(_: int, frame: FrameType | None) -> None:
        names = []
        while frame is not None:
            names.append(f"{'/'.join(frame.f_code.co_filename.split('/')[-2:])}:{frame.f_code.co_qualname}")
            frame = frame.f_back
        own[names[0]] += 1
        all_of.update(set(names))

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    began = time.perf_counter()
    for _ in range(SAMPLED):
        fuse(views, "auto", backend="cuda", check=False)
    each = 1e3 * (time.perf_counter() - began) / SAMPLED / own.total()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    for what, counts in (("own", own), ("with what it calls", all_of)):
        print(f"  {what}")
        for name, count in counts.most_common(60):
            print(f"    {each * count:7.2f} ms  {name}")


CHILD = """
import sys, time
import numpy as np
from benchmarks.cuda import sphere
from cfusion import fuse
views = sphere(np.random.default_rng(0))
for _ in range(3):
    fuse(views, "auto", backend="cuda", check=False)
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
for _ in range(24):
    fuse(views, "auto", backend="cuda", check=False)
print(24 / (time.perf_counter() - began), flush=True)
"""


def processes(count: int) -> None:
    """Bundles a second of so many processes that begin together."""
    command = [sys.executable, "-c", CHILD]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    rates = [float(child.communicate()[0]) for child in children]
    print(f"{count} processes: {sum(rates):.1f} bundles a second")


if __name__ == "__main__":
    main()
