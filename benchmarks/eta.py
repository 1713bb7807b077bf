"""How right the time left is that commands tell, by what a terminal was shown: python -m benchmarks.eta [name ...]

Every command runs on a pseudo-terminal. From a quarter of the way on each picture of the bar is compared with the time
that the command then really took: outside is what is off by more than a factor of two and by more than a second (whole
seconds are shown). Cold: with an empty folder of compiled kernels. Printed besides: the worst factor of those that are
off by more than a second, and whether the share ever fell.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.mosaic import write
from benchmarks.terrain import terrain
from cfusion.datasets import write_bundle
from cfusion.synthetic import PAPER_CAMERA, Laplace, blob, object_bundle

QUARTER, FACTOR, SECOND = 0.25, 2.0, 1.0
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
PICTURE = re.compile(r"(\d+) %\s+(\d+) s\s+([\d.]+) (s|min|h) left")
Picture = tuple[float, float, float]  # seconds since the start, share in percent, seconds left


def bundle(place: Path, width: int, views: int) -> Path:
    """The demo's object."""
    camera = PAPER_CAMERA.scaled(width / PAPER_CAMERA.width)
    write_bundle(
        object_bundle(blob(), Laplace(0.2), np.random.default_rng(0), views, camera=camera)[0], place / "views"
    )
    return place / "views"


def rasters(place: Path, side: int) -> list[str]:
    """Four noisy height models of the same ground."""
    rng, ground = np.random.default_rng(0), terrain(slice(0, side), slice(0, side))
    files = [write(place / f"{k}.tif", ground + rng.normal(0, 0.4, ground.shape)) for k in range(4)]
    return [str(file) for file in files]


CASES: dict[str, tuple[bool, Callable[[Path], list[str]]]] = {  # whether cold; the command
    "demo, cold": (True, lambda place: ["demo", "--size", "320x240", "-o", str(place / "out")]),
    "demo, warm": (False, lambda place: ["demo", "--size", "320x240", "-o", str(place / "out")]),
    "fuse, cold": (True, lambda place: ["fuse", str(bundle(place, 320, 7)), "-o", str(place / "out")]),
    "fuse, warm": (False, lambda place: ["fuse", str(bundle(place, 320, 7)), "-o", str(place / "out")]),
    "mosaic": (False, lambda place: ["mosaic", *rasters(place, 700), "-o", str(place / "out.tif"), "--tile", "256"]),
    "scene": (False, lambda place: ["scene", str(bundle(place, 160, 9)), "-o", str(place / "out")]),
}


def recorded(arguments: list[str], cache: Path) -> tuple[list[Picture], float]:
    """What a terminal was shown, and the seconds that the command took."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "140", "NUMBA_CACHE_DIR": str(cache)}
    began = time.monotonic()
    command = [sys.executable, "-m", "cfusion", *arguments]
    process = subprocess.Popen(command, stderr=terminal, stdout=subprocess.DEVNULL, env=environment)
    os.close(terminal)
    pictures: list[Picture] = []
    while True:
        try:
            piece = os.read(controller, 65536).decode(errors="replace")
        except OSError:
            break
        for share, _, left, unit in PICTURE.findall(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", piece)):
            pictures.append((time.monotonic() - began, float(share), float(left) * UNITS[unit]))
    os.close(controller)
    if process.wait() != 0:
        raise SystemExit(f"cfusion {' '.join(arguments)} failed")
    return pictures, time.monotonic() - began


def judged(pictures: list[Picture], total: float) -> tuple[int, int, float, bool]:
    """How many are outside, of how many; the worst factor; whether the share never fell."""
    late = [(left, total - at) for at, _, left in pictures if at >= QUARTER * total]
    off = [max(left / real, real / left) for left, real in late if abs(left - real) > SECOND]
    shares = [share for _, share, _ in pictures]
    return sum(factor > FACTOR for factor in off), len(late), max(off, default=1.0), shares == sorted(shares)


def main() -> None:
    """A row for every case."""
    chosen = [name for name in CASES if name in (sys.argv[1:] or CASES)]
    print(f"{'command':12} {'seconds':>8} {'outside':>8} {'of':>5} {'worst':>6}  share")
    with tempfile.TemporaryDirectory() as compiled:
        for name in chosen:
            cold, command = CASES[name]
            with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as empty:
                if not cold and not os.listdir(compiled):
                    recorded(["demo", "--size", "80x60", "-o", place], Path(compiled))
                pictures, total = recorded(command(Path(place)), Path(empty if cold else compiled))
            outside, number, worst, rises = judged(pictures, total)
            fell = "never falls" if rises else "falls"
            print(f"{name:12} {total:8.1f} {outside:8} {number:5} {worst:6.1f}  {fell}", flush=True)


if __name__ == "__main__":
    main()
