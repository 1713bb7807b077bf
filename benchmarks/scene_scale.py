"""What a scene costs: overhead per task, one worker against two, a scene against its fuses, memory over the views.

python -m benchmarks.scene_scale [overhead | workers | shared | memory | rate] ...
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from cfusion import Pinhole, Pose, View, fuse, kernels
from cfusion.datasets import write_bundle
from cfusion.scene.cluster import Cluster
from cfusion.scene.job import Job, Task, code_version, open_job
from cfusion.scene.record import Record, folder_of, write_record
from cfusion.scene.runner import Here
from cfusion.scene.whole import Scene, prepare


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


def overhead(folder: Path) -> None:
    """Tasks that are done already: what is left is the scheduler, the client and the reading of a record."""
    job = scene_of(folder, 4, 64, "median", "numpy")
    count = 1000
    tasks = [Task("fuse", view, (), "there") for view in range(count)]
    for task in tasks:
        write_record(folder_of(job.folder, task.view), Record(task.view, str(task.view), "there"))
    with Cluster(2).open() as cluster:
        list(cluster.run(job, tasks[:20]))
        began, cpu = time.perf_counter(), time.process_time()
        assert len(list(cluster.run(job, tasks))) == count
        spent, cpu = time.perf_counter() - began, time.process_time() - cpu
    began = time.perf_counter()
    list(Here().run(job, tasks))
    here = time.perf_counter() - began
    print(
        f"overhead: {1000 * spent / count:.2f} ms a task on two workers, {1000 * cpu / count:.2f} ms of them computing "
        f"in scheduler and client; {1000 * here / count:.2f} ms in this process"
    )


def workers(folder: Path) -> None:
    """The same views on one worker of one thread and on two, alternately, workers warm; by the clock and in CPU time.

    On a busy machine the clock says little: there the CPU seconds of one worker alone over those of the busier of two
    say what two would reach if nobody else had the cores (waiting between tasks apart, which is `overhead`).
    """
    views, width = 16, 240
    job = scene_of(folder, views, width, "auto")
    scene = prepare(job)  # the graph is made once
    threads, os.environ["NUMBA_NUM_THREADS"] = os.environ.get("NUMBA_NUM_THREADS"), "1"
    found: dict[int, list[tuple[float, list[float]]]] = {1: [], 2: []}
    for turn in range(2):
        for count in (1, 2):
            found[count].append(_on_workers(replace(job, output=str(folder / f"out-{turn}-{count}")), scene, count))
    if threads is not None:
        os.environ["NUMBA_NUM_THREADS"] = threads
    for count in (1, 2):
        for spent, cpu in found[count]:
            each = " + ".join(f"{seconds:.1f}" for seconds in cpu)
            print(f"workers: {count}: {spent:.1f} s by the clock, {each} s of CPU, load {os.getloadavg()[0]:.1f}")
    turns = list(zip(found[1], found[2], strict=True))
    said = {
        "two against one by the clock": [one[0] / two[0] for one, two in turns],
        "by the CPU time of the busier worker": [sum(one[1]) / max(two[1]) for one, two in turns],
        "CPU time of both over that of one": [sum(two[1]) / sum(one[1]) for one, two in turns],
    }
    for what, ratios in said.items():
        print(f"workers: {what}: " + ", ".join(f"{ratio:.2f}" for ratio in ratios) + " (each turn)")
    cpu = 1000 * min(sum(one[1]) for one, _ in turns) / views
    print(f"workers: {cpu:.0f} ms of CPU a view of {width} x {3 * width // 4}, 11 views")


def _on_workers(job: Job, scene: Scene, count: int) -> tuple[float, list[float]]:
    """Seconds by the clock, and of CPU for every worker, of all views on so many warm workers."""
    import distributed

    with Cluster(count).open() as cluster:
        list(cluster.run(replace(job, output=f"{job.output}-warm"), scene.tasks[: 2 * count]))
        with distributed.Client(cluster.address, set_as_default=False) as client:
            before = client.run(time.process_time)
            began = time.perf_counter()
            records = list(cluster.run(job, scene.tasks))
            spent = time.perf_counter() - began
            after = client.run(time.process_time)
    assert not [record for record in records if record.failure]
    return spent, [after[worker] - before[worker] for worker in before]


def shared(folder: Path) -> None:
    """A scene in this process against the same fuses one by one, each reading its views anew, in CPU time."""
    job = scene_of(folder, 12, 320, "auto")
    scene = prepare(job)
    fuse(tuple(open_job(job).views[number] for number in range(3)), backend="cpu")  # compiled
    dataset, whole, alone = open_job(job).dataset, 0.0, 0.0
    for task in scene.tasks:  # alternately, so that a busy machine slows both
        began = time.process_time()
        (record,) = Here().run(job, [task])
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
from cfusion.scene.runner import Here
from cfusion.scene.whole import fuse_scene, prepare
folder, count = Path(sys.argv[1]), int(sys.argv[2])
def peak():  # of this process alone: getrusage's starts at what the parent held when it forked
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
job = replace(scene_of(folder, count, 96, "median", "cpu"), kept_bytes=2 << 20)
scene = prepare(job)
before = peak()
fuse_scene(scene)
write_cloud(job, scene.graph, range(count), Here())
print(before, peak())
"""


def memory(folder: Path) -> None:
    """Peak memory of a process that fuses a walk of 100 to 2000 views of 96 x 72 and makes its cloud."""
    for count in (100, 500, 2000):
        place = folder / str(count)
        place.mkdir()
        command = [sys.executable, "-c", MEMORY, str(place), str(count)]
        scene_of(place, count, 96, "median")
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(
            f"memory: {count} views, {float(found[1]):.0f} MB at the peak ({float(found[0]):.0f} MB before fusing)",
            flush=True,
        )


def rate(folder: Path) -> None:
    """Views of 640 x 480 a second, `auto` with ten neighbours, from files to files in this process.

    On a GPU if there is one. The graph is made and kernels are compiled before.
    """
    backend = "cuda" if "cuda" in kernels.available() else "cpu"
    job = scene_of(folder, 200 if backend == "cuda" else 12, 640, "auto", backend)
    scene = prepare(job)
    first, rest = scene.tasks[:4], scene.tasks[4:]
    list(Here().run(job, first))
    began = time.perf_counter()
    records = list(Here().run(job, rest))
    spent = time.perf_counter() - began
    assert not [record for record in records if record.failure]
    print(f"rate: {len(rest) / spent:.1f} views a second on {backend}, {len(rest)} views of 640 x 480")


PARTS = {"overhead": overhead, "shared": shared, "workers": workers, "memory": memory, "rate": rate}


def main() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, page size {resource.getpagesize()}")
    for name in sys.argv[1:] or [part for part in PARTS if part != "rate"]:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main()
