"""What reading, checking and associating a sequence costs against fusing it, and memory against its length.

python -m benchmarks.reading; 7-Scenes lies where CFUSION_DATA says. Lengths are measured in processes of their own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.scenes import data_folder
from cfusion import METHODS, kernels, read
from cfusion.datasets.check import check, warning
from cfusion.scene import fuse_every, in_time

METHOD = "l1"
LENGTHS = (15, 30, 60, 240)
# Of this process alone: getrusage's ru_maxrss starts at what the parent held when it forked.
PEAK = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"


def main() -> None:
    place = data_folder() / "seven_scenes"
    if not place.is_dir():
        print("skipped, no seven_scenes in the data folder (CFUSION_DATA)")
        return
    list(fuse_every(read(place), METHOD, neighbours=in_time(60, 3), into=[0]))  # compile what has to be compiled
    _costs(place)
    _memory(place)


def _costs(place: Path) -> None:
    """Seconds of each part on one machine, in one run, against the fusing of the same windows."""
    backend = kernels.load("auto")
    views = read(place)
    graph, chosen = in_time(len(views)), range(0, len(views), 5)
    seconds: dict[str, float] = {}
    began = time.perf_counter()
    for view in views:
        assert view.depth.size
    seconds["reading"] = time.perf_counter() - began
    for name, judge in (("the check that fuse makes", warning), ("cfusion check", check)):
        began = time.perf_counter()
        judge(read(place))
        seconds[name] = time.perf_counter() - began
    seconds["associating"] = 0.0
    for reference in chosen:
        seen = [views[frame] for frame in graph.bundle(reference)]
        began = time.perf_counter()
        METHODS[METHOD].splat(seen, 0, backend=backend)
        seconds["associating"] += time.perf_counter() - began
    before = seconds["reading"] + seconds["the check that fuse makes"] + seconds["associating"]
    for method in (METHOD, "auto"):
        few = chosen if method == METHOD else chosen[2:10:4]
        solving = (
            sum(each.seconds for each in fuse_every(views, method, neighbours=graph, into=few)) * len(chosen) / len(few)
        )
        if method == METHOD:
            solving -= seconds["associating"]  # of this method, a part of fuse
        print(f"\n{len(views)} frames, {len(chosen)} windows of 11, against fusing them with {method}")
        for name, spent in (*seconds.items(), ("reading, fuse's check and associating together", before)):
            print(f"  {name:46} {spent / solving:7.3f}")


def _memory(place: Path) -> None:
    """Peak memory of `cfusion fuse --every 5 --window 11` on sequences of several lengths."""
    print("\nframes  peak memory, MiB")
    for length in LENGTHS:
        with TemporaryDirectory() as folder:
            _repeated(place, Path(folder) / "sequence", length)
            command = ("fuse", f"{folder}/sequence", "-o", f"{folder}/out", "--every", "5", "--method", "median")
            program = f"from cfusion.cli.main import main; main({[*command, '--quiet', '--write', 'npy']!r}); {PEAK}"
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            print(f"{length:6} {int(done.stdout) / 1024:12.0f}", flush=True)


def _repeated(place: Path, folder: Path, length: int) -> None:
    """A sequence of that length: the one at hand, there and back again, as links."""
    folder.mkdir()
    count = len(list(place.glob("frame-*.pose.txt")))
    for number in range(length):
        there = number % (2 * count)
        source = min(there, 2 * count - 1 - there)
        for ending in ("color.jpg", "depth.png", "pose.txt"):
            (folder / f"frame-{number:06d}.{ending}").symlink_to(place / f"frame-{source:06d}.{ending}")


if __name__ == "__main__":
    main()
