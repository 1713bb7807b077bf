"""What a scene costs: overhead per task, one worker against two, a scene against its fuses, memory over the views.

python -m benchmarks.scene_scale [overhead | workers | shared | memory | rate] ... [--views N] [--width W] [--turns N]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.datasets import write_bundle
from cfusion.scene.cluster import Cluster
from cfusion.scene.job import Job, Task, code_version, open_job
from cfusion.scene.record import Record, folder_of, write_record
from cfusion.scene.runner import InProcess
from cfusion.scene.whole import Scene, prepare


@dataclass(frozen=True)
class Size:
    """What was asked for instead of each part's own size."""

    views: int | None = None
    width: int | None = None
    turns: int = 2


def walk_views(count: int, width: int) -> list[View]:
    """A wall of waves, along which a camera walks."""
    camera = Pinhole(1.2 * width, 1.2 * width, width / 2, 0.375 * width, width, 3 * width // 4)
    columns, rows = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    views = []
    for number in range(count):
        pose = Pose(np.eye(3), np.array([0.05 * number, 0.0, 0.0]))
        rng = np.random.default_rng(number)
        across = (columns - camera.cx) / camera.fx * 2.0 + pose.translation[0]
        depth = 2.0 + 0.05 * np.sin(3 * across) + 0.05 * np.cos(rows / 20) + rng.normal(0, 0.02, camera.shape)
        views.append(View(depth.astype(np.float32), camera, pose))
    return views


def scene_of(folder: Path, count: int, width: int, method: str, backend: str = "cpu") -> Job:
    """A walk on disk."""
    if not (folder / "data").exists():
        write_bundle(walk_views(count, width), folder / "data")
    return Job(str(folder / "data"), "bundle", str(folder / "out"), code_version(), method=method, backend=backend)


def overhead(folder: Path, size: Size) -> None:
    """Tasks that are done already: what is left is the scheduler, the client and the reading of a record."""
    job = scene_of(folder, 4, 64, "median", "numpy")
    count = size.views or 1000
    tasks = [Task("fuse", view, (), "there") for view in range(count)]
    for task in tasks:
        write_record(folder_of(job.folder, task.view), Record(task.view, str(task.view), "there"))
    with Cluster(2).open() as cluster:
        list(cluster.run(job, tasks[:20]))
        began, cpu = time.perf_counter(), time.process_time()
        assert len(list(cluster.run(job, tasks))) == count
        spent, cpu = time.perf_counter() - began, time.process_time() - cpu
    began = time.perf_counter()
    list(InProcess().run(job, tasks))
    here = time.perf_counter() - began
    print(
        f"overhead: {1000 * spent / count:.2f} ms a task on two workers, {1000 * cpu / count:.2f} ms of them computing "
        f"in scheduler and client; {1000 * here / count:.2f} ms in this process"
    )


def workers(folder: Path, size: Size) -> None:
    """The same views on one worker and on two, each of one thread, alternately, workers warm; and on one of all cores.

    One worker is given one thread only here: `cfusion scene --workers 1` gives it all cores, which the last row has.
    On a busy machine the clock says little: there the CPU seconds of one worker alone over those of the busier of two
    say what two would reach if nobody else had the cores (waiting between tasks apart, which is `overhead`).
    """
    views, width, cores = size.views or 16, size.width or 240, os.cpu_count() or 1
    job = scene_of(folder, views, width, "auto")
    scene = prepare(job)  # the graph is made once
    kinds = {
        "1 worker of 1 thread": (1, 1),
        "2 workers of 1 thread": (2, 1),
        f"1 worker of {cores} threads": (1, cores),
    }
    found: dict[str, list[tuple[float, list[float]]]] = {kind: [] for kind in kinds}
    for turn in range(size.turns):
        for place, (kind, (count, threads)) in enumerate(kinds.items()):
            output = str(folder / f"out-{turn}-{place}")
            spent = _on_workers(replace(job, output=output), scene, Cluster(count, threads=threads))
            found[kind].append(spent)
            each = " + ".join(f"{seconds:.1f}" for seconds in spent[1])
            load = os.getloadavg()[0]
            print(f"workers: {kind}: {spent[0]:.1f} s by the clock, {each} s of CPU, load {load:.1f}", flush=True)
    one, two, whole = found.values()
    turns = list(zip(one, two, whole, strict=True))
    said = {
        "2 workers of 1 thread against 1 of 1 thread, by the clock": [a[0] / b[0] for a, b, _ in turns],
        "by the CPU time of the busier worker": [sum(a[1]) / max(b[1]) for a, b, _ in turns],
        "CPU time of both over that of one": [sum(b[1]) / sum(a[1]) for a, b, _ in turns],
        f"2 workers of 1 thread against 1 of {cores} threads, by the clock": [c[0] / b[0] for _, b, c in turns],
    }
    for what, ratios in said.items():
        print(f"workers: {what}: " + ", ".join(f"{ratio:.2f}" for ratio in ratios) + " (each turn)")
    cpu = 1000 * min(sum(a[1]) for a, _, _ in turns) / views
    print(f"workers: {cpu:.0f} ms of CPU a view of {width} x {3 * width // 4}, 11 views")


def _on_workers(job: Job, scene: Scene, cluster: Cluster) -> tuple[float, list[float]]:
    """Seconds by the clock, and of CPU for every worker, of all views on warm workers."""
    import distributed

    with cluster.open() as there:
        list(there.run(replace(job, output=f"{job.output}-warm"), scene.tasks[: 2 * cluster.count]))
        with distributed.Client(there.address, set_as_default=False) as client:
            before = client.run(time.process_time)
            began = time.perf_counter()
            records = list(there.run(job, scene.tasks))
            spent = time.perf_counter() - began
            after = client.run(time.process_time)
    assert not [record for record in records if record.failure]
    return spent, [after[worker] - before[worker] for worker in before]


def shared(folder: Path, size: Size) -> None:
    """A scene in this process against the same fuses one by one, each reading its views anew, in CPU time."""
    job = scene_of(folder, size.views or 12, size.width or 320, "auto")
    scene = prepare(job)
    fuse(tuple(open_job(job).views[number] for number in range(3)), backend="cpu")  # compiled
    dataset, whole, alone = open_job(job).dataset, 0.0, 0.0
    for task in scene.tasks:  # alternately, so that a busy machine slows both
        began = time.process_time()
        (record,) = InProcess().run(job, [task])
        whole, began = whole + time.process_time() - began, time.process_time()
        fuse([dataset.views[number] for number in (task.view, *task.neighbours)], reference=0, backend="cpu")
        alone += time.process_time() - began
        assert not record.failure
    reads = open_job(job).views.reads
    print(f"shared: scene {whole:.1f} s, fuses one by one {alone:.1f} s, {whole / alone:.3f}x; {reads} reads")


MEMORY = """
import sys
from dataclasses import replace
from pathlib import Path
from benchmarks.scene_scale import scene_of
from cfusion.scene.cloud import write_cloud
from cfusion.scene.runner import InProcess
from cfusion.scene.whole import fuse_scene, prepare
folder, count = Path(sys.argv[1]), int(sys.argv[2])
def peak():  # of this process alone: getrusage's starts at what the parent held when it forked
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
width = int(sys.argv[3])
job = replace(scene_of(folder, count, width, "median", "cpu"), cache_bytes=2 << 20)
scene = prepare(job)
before = peak()
fuse_scene(scene)
write_cloud(job, scene.graph, range(count), InProcess(), None)
print(before, peak())
"""


def memory(folder: Path, size: Size) -> None:
    """Peak memory of a process that fuses a walk of 100 to 2000 views of 96 x 72 and makes its cloud."""
    width = size.width or 96
    for count in (100, 500, 2000) if size.views is None else (size.views,):
        place = folder / str(count)
        place.mkdir()
        command = [sys.executable, "-c", MEMORY, str(place), str(count), str(width)]
        scene_of(place, count, width, "median")
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(
            f"memory: {count} views, {float(found[1]):.0f} MB at the peak ({float(found[0]):.0f} MB before fusing)",
            flush=True,
        )


def rate(folder: Path, size: Size) -> None:
    """Views of 640 x 480 a second, `auto` with ten neighbours, from files to files in this process.

    On a GPU if there is one. The graph is made and kernels are compiled before.
    """
    backend = "cuda" if "cuda" in kernels.available() else "cpu"
    job = scene_of(folder, 200 if backend == "cuda" else 12, 640, "auto", backend)
    scene = prepare(job)
    first, rest = scene.tasks[:4], scene.tasks[4:]
    list(InProcess().run(job, first))
    began = time.perf_counter()
    records = list(InProcess().run(job, rest))
    spent = time.perf_counter() - began
    assert not [record for record in records if record.failure]
    print(f"rate: {len(rest) / spent:.1f} views a second on {backend}, {len(rest)} views of 640 x 480")


PARTS = {"overhead": overhead, "shared": shared, "workers": workers, "memory": memory, "rate": rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--views", type=int, help="instead of each part's own")
    parser.add_argument("--width", type=int, help="of the images, in pixels")
    parser.add_argument("--turns", type=int, default=2, help="of `workers`")
    chosen = parser.parse_args()
    size = Size(chosen.views, chosen.width, chosen.turns)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, page size {resource.getpagesize()}")
    for name in chosen.parts or [part for part in PARTS if part != "rate"]:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](Path(folder), size)


if __name__ == "__main__":
    main()
