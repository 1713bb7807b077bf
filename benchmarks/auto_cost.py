"""What `auto` costs on a CPU, in CPU seconds of one thread: its parts, and beside another tree of cfusion in one run.

python -m benchmarks.auto_cost                        the parts, by the function that is called
python -m benchmarks.auto_cost --count                iterations times megapixels by stage, alike on every machine
python -m benchmarks.auto_cost --against ../old/src   alternately with that tree, best of three, as a ratio
python -m benchmarks.auto_cost --tsdf                 beside Open3D's TSDF: all views integrated, one ray-cast
python -m benchmarks.auto_cost --scale 6.4 --views 5 --scene city --per-pixel    a megapixel beside one of 640 x 480
"""

from __future__ import annotations

import argparse
import cProfile
import inspect
import os
import pstats
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

ROUNDS = 3
STAGES = ("first_surface", "choose", "refit_halves")  # functions; other iterations are those of the fits of the turns
PARTS = (
    ("splats", "source.py", "first"),
    ("first surface", "first_surface.py", "first_surface"),
    ("readings", "source.py", "at"),
    ("observe", "occlusion.py", "observe"),
    ("choose", "cross_validation.py", "choose"),
    ("halves", "halves.py", "refit_halves"),
    ("assess", "assess.py", "assess"),
    ("solves", "pdhg.py", "minimise"),
    ("iterations", "iteration.py", "iterate"),
    ("certificate", "certificate.py", "bound"),
    ("medians", "host.py", "medians"),
    ("preparing", "task.py", "prepare"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", default="object", choices=("object", "city"))
    parser.add_argument("--scale", type=float, default=1.0, help="of 640 x 480")
    parser.add_argument("--views", type=int, default=11, help="those around the reference")
    parser.add_argument("--per-pixel", action="store_true", help="beside 640 x 480, in one run")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--count", action="store_true", help="iterations times megapixels, by stage")
    parser.add_argument("--against", type=Path, help="the src folder of another tree")
    parser.add_argument("--tsdf", action="store_true", help="beside Open3D's TSDF at its defaults, best of three")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(_seconds(given))
    elif given.tsdf:
        _print_beside_tsdf()
    elif given.per_pixel:
        _print_per_pixel(given)
    elif given.count:
        _print_counts(given)
    elif given.against is None:
        _print_parts(given)
    else:
        _compare(given)


def _compare(given: argparse.Namespace) -> None:
    """Both trees alternately, each time in a process of its own; the fastest of each counts."""
    here = Path(__file__).parents[1] / "src"
    best = {here: float("inf"), given.against: float("inf")}
    for _ in range(ROUNDS):
        for tree in best:
            environment = {**os.environ, "PYTHONPATH": f"{tree.resolve()}", "NUMBA_NUM_THREADS": "1"}
            script = [sys.executable, __file__, "--once", "--scene", given.scene, "--scale", str(given.scale)]
            script += ["--views", str(given.views), "--method", given.method]
            done = subprocess.run(script, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            best[tree] = min(best[tree], float(done.stdout.split()[-1]))
    ours, theirs = best.values()
    print(f"{given.method}, {given.scene}: {ours:.2f} s here, {theirs:.2f} s there: {ours / theirs:.2f}x")


def _fused(views: Any, method: str) -> Any:
    """The result of the tree that is measured, without the check of conventions, which older ones have not."""
    from cfusion import fuse

    unchecked = {"check": False} if "check" in inspect.signature(fuse).parameters else {}
    return fuse(views, method, backend="cpu", **unchecked)


def _seconds(given: argparse.Namespace) -> float:
    views = _views(given)
    _fused(_views(argparse.Namespace(**vars(given) | {"scale": 0.2})), given.method)  # compiles
    began = time.process_time()
    _fused(views, given.method)
    return time.process_time() - began


def _views(given: argparse.Namespace):  # type: ignore[no-untyped-def]
    """Eleven views, as `benchmarks.scenes` has them; said again, for trees that have no benchmarks."""
    import numpy as np

    from cfusion import synthetic

    rng, camera = np.random.default_rng(0), synthetic.PAPER_CAMERA.scaled(given.scale)
    if given.scene == "object":
        views = synthetic.object_bundle(synthetic.blob(), synthetic.Laplace(0.6), rng, camera=camera)[0]
    else:
        views = synthetic.city_bundle(None, synthetic.Laplace(6.0), rng, camera=camera)[0]
    middle = len(views) // 2
    return views[middle - given.views // 2 : middle + (given.views + 1) // 2]


def _print_beside_tsdf() -> None:
    """An object in a room, Kinect-like noise, eleven views of 640 x 480: CPU seconds of `auto` and of a TSDF."""
    import numpy as np

    from benchmarks.tsdf import Setting, integrated, ray_cast
    from cfusion import synthetic

    rng, camera = np.random.default_rng(0), synthetic.PAPER_CAMERA
    room, noise = synthetic.room(synthetic.blob()), synthetic.Kinect(focal=camera.fx)
    views, _ = synthetic.object_bundle(room, noise, rng, camera=camera)
    usual = Setting()

    def by_tsdf() -> None:
        ray_cast(integrated(views, usual.voxel, usual.truncation), views[len(views) // 2], usual)

    best = {"TSDF": float("inf"), "auto": float("inf")}
    for _ in range(ROUNDS):
        for name, run in (("TSDF", by_tsdf), ("auto", lambda: _fused(views, "auto"))):
            began = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - began)
    print(f"auto {best['auto']:.2f} s, TSDF {best['TSDF']:.2f} s: {best['auto'] / best['TSDF']:.1f}x")


def _print_per_pixel(given: argparse.Namespace) -> None:
    """CPU seconds a megapixel at the scale given, and at 640 x 480."""
    cost = {}
    for scale in (1.0, given.scale):
        seconds = _seconds(argparse.Namespace(**vars(given) | {"scale": scale}))
        cost[scale] = seconds / (0.3072 * scale**2)
        print(
            f"{640 * scale:.0f} x {480 * scale:.0f} x {given.views}: {seconds:.1f} s, {cost[scale]:.1f} s a megapixel"
        )
    print(f"a pixel costs {cost[given.scale] / cost[1.0]:.2f}x")


def _print_counts(given: argparse.Namespace) -> None:
    """Iterations times megapixels of the domain, by stage."""
    from cfusion.kernels import cpu

    plain, spent = cpu.iterate, Counter[str]()

    def counted(problem: Any, state: Any, steps: Any, count: int, plan: Any = None, *more: Any) -> Any:
        if plan is None:  # with a plan, a backend is asked whether it monitors a solve itself
            frame, callers = sys._getframe(1), set()
            while frame is not None:
                callers.add(frame.f_code.co_name)
                frame = frame.f_back  # type: ignore[assignment]
            stage = next((each for each in STAGES if each in callers), "turns")
            spent[stage] += count * float((problem.links > 0).sum()) / 1e6
        return plain(problem, state, steps, count, plan, *more)

    with mock.patch.object(cpu, "iterate", counted):
        _fused(_views(given), given.method)
    print(f"{given.method}, {given.scene}: {spent.total():.1f} iterations x megapixels")
    for stage, amount in spent.most_common():
        print(f"  {stage:14} {amount:7.1f}  {100 * amount / spent.total():3.0f} %")


def _print_parts(given: argparse.Namespace) -> None:
    """CPU seconds within each part (parts hold one another)."""
    views = _views(given)
    _fused(_views(argparse.Namespace(**vars(given) | {"scale": 0.2})), given.method)
    profile = cProfile.Profile(time.process_time)
    profile.runcall(_fused, views, given.method)
    entries = pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
    total = max(cumulative for _, (_, _, _, cumulative, _) in entries)
    print(f"{given.method}, {given.scene}: {total:.2f} s")
    for what, file, function in PARTS:
        found = [entry for (path, _, name), entry in entries if Path(path).name == file and name == function]
        if found:
            calls, seconds = sum(entry[1] for entry in found), sum(entry[3] for entry in found)
            print(f"  {what:14} {seconds:6.2f} s  {100 * seconds / total:4.0f} %  {calls} calls")


if __name__ == "__main__":
    main()
