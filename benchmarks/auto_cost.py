"""What `auto` costs on a CPU, in CPU seconds of one thread: its parts, and beside another tree of cfusion in one run.

python -m benchmarks.auto_cost                        the parts, by the function that is called
python -m benchmarks.auto_cost --against ../old/src   alternately with that tree, best of three, as a ratio
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 3
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
    parser.add_argument("--method", default="auto")
    parser.add_argument("--against", type=Path, help="the src folder of another tree")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(_seconds(given))
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
            done = subprocess.run([*script, "--method", given.method], env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            best[tree] = min(best[tree], float(done.stdout.split()[-1]))
    ours, theirs = best.values()
    print(f"{given.method}, {given.scene}: {ours:.2f} s here, {theirs:.2f} s there: {ours / theirs:.2f}x")


def _seconds(given: argparse.Namespace) -> float:
    from cfusion import fuse

    views = _views(given)
    fuse(_views(argparse.Namespace(scene=given.scene, scale=0.2)), given.method)  # compiles
    began = time.process_time()
    fuse(views, given.method)
    return time.process_time() - began


def _views(given: argparse.Namespace):  # type: ignore[no-untyped-def]
    """Eleven views, as `benchmarks.scenes` has them; said again, for trees that have no benchmarks."""
    import numpy as np

    from cfusion import synthetic

    rng, camera = np.random.default_rng(0), synthetic.PAPER_CAMERA.scaled(given.scale)
    if given.scene == "object":
        return synthetic.object_bundle(synthetic.blob(), synthetic.Laplace(0.6), rng, camera=camera)[0]
    return synthetic.city_bundle(None, synthetic.Laplace(6.0), rng, camera=camera)[0]


def _print_parts(given: argparse.Namespace) -> None:
    """CPU seconds within each part (parts hold one another)."""
    from cfusion import fuse

    views = _views(given)
    fuse(_views(argparse.Namespace(scene=given.scene, scale=0.2)), given.method)
    profile = cProfile.Profile(time.process_time)
    profile.runcall(fuse, views, given.method)
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
