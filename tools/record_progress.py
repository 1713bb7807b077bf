"""Record what commands tell of their progress, for tests/test_progress.py: python -m tools.record_progress

Each runs in a process of its own, on one thread, and its time is that of the processor: neighbours on the machine
change nothing. The first starts without compiled kernels, `fuse, l1 cold` too; the others find those of the first.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STORE = Path(__file__).parents[1] / "tests" / "progress.json"
DIGITS = 4  # of a fraction, significant of a gap
RUNS: dict[str, dict[str, Any]] = {
    "demo, cold": {"command": "demo", "method": "demo", "pixels": 76800, "views": 11},
    "demo, warm": {"command": "demo", "method": "demo", "pixels": 76800, "views": 11},
    "fuse, auto 400": {"command": "fuse", "method": "auto", "pixels": 120000, "views": 7},
    "fuse, auto 200": {"command": "fuse", "method": "auto", "pixels": 30000, "views": 7},
    "fuse, l1-heuristic 400": {"command": "fuse", "method": "l1-heuristic", "pixels": 120000, "views": 7},
    "fuse, l1 cold": {"command": "fuse", "method": "l1", "pixels": 120000, "views": 7},
    "fuse, median 400": {"command": "fuse", "method": "median", "pixels": 120000, "views": 7},
    "fuse, adapt-hprior 400": {"command": "fuse", "method": "adapt-hprior", "pixels": 120000, "views": 7},
    "scene, 160": {"command": "scene", "method": "auto", "pixels": 19200, "views": 9},
}


def words_of(run: dict[str, Any], place: Path) -> list[str]:
    """The command line; its data are written first."""
    from benchmarks.eta import bundle

    rest = ["-o", str(place / "out"), "--quiet"]
    if run["command"] == "demo":
        return ["demo", "--size", "320x240", *rest]
    width = round(math.sqrt(run["pixels"] * 4 / 3))
    return [run["command"], str(bundle(place, width, run["views"])), "--method", run["method"], *rest]


def main() -> None:
    """All of them, or one as the process of it."""
    if sys.argv[1:]:
        print(json.dumps(recorded(sys.argv[1:])))
        return
    found = []
    with tempfile.TemporaryDirectory() as kept:
        for name, run in RUNS.items():
            with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as empty:
                compiled = empty if name == "fuse, l1 cold" else kept
                environment = os.environ | {"NUMBA_NUM_THREADS": "1", "NUMBA_CACHE_DIR": compiled}
                command = [sys.executable, "-m", "tools.record_progress", *words_of(run, Path(place))]
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found.append({"name": name, **run, **json.loads(done.stdout.splitlines()[-1])})
            print(f"{name}: {found[-1]['total']} s, {len(found[-1]['events'])} events", flush=True)
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in found)
    STORE.write_text(f"[\n{lines}\n]\n")


def recorded(words: list[str]) -> dict[str, Any]:
    """Its events: [when, stage, done, gap, more], or [when, kernel, ready], or [when, how many methods are ready]."""
    from cfusion.cli import compiling, progress
    from cfusion.cli.main import main as command

    events: list[list[Any]] = []
    began: list[float] = []

    def note(*event: Any) -> None:
        events.append([round(time.process_time() - began[0], 2), *event])

    class Told(progress.ProgressDisplay):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            began.append(time.process_time())

        def __call__(self, event: progress.ProgressEvent) -> None:
            if not getattr(event, "seconds", 0.0):  # else it is of a kernel, which is noted as such
                note(*plain(event))
            super().__call__(event)

    class Work(compiling._Work):
        methods = 0

        def kernel_event(self, kernel: str, ready: bool) -> None:
            note(kernel, ready)
            super().kernel_event(kernel, ready)

        def reached(self, seconds: float) -> None:
            self.methods += 1
            note(self.methods)
            super().reached(seconds)

    progress.ProgressDisplay, compiling._Work = Told, Work  # type: ignore[misc]
    if command(words) != 0:
        raise SystemExit(f"cfusion {' '.join(words)} failed")
    return {"total": round(time.process_time() - began[0], 2), "events": events}


def plain(event: Any) -> list[Any]:
    """As JSON holds it."""
    gap = float(event.gap)
    more = {name: getattr(event, name) for name in ("share", "method") if getattr(event, name, None)}
    inside = getattr(event, "inside", None)
    if inside is not None:
        more["inside"] = plain(inside)
    told = float(f"{gap:.{DIGITS}g}") if math.isfinite(gap) else None
    return [event.stage, round(float(event.done), DIGITS), told, *([more] if more else [])]


if __name__ == "__main__":
    main()
