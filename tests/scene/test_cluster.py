"""The same bits on a cluster, whatever dies: real processes, really killed."""

import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from walls import QUICK, disk_is_full, lay, never_ends, run, short_of_memory, walk, wall_depth

from cfusion import Pinhole, View
from cfusion.errors import BackendUnavailable, InputError
from cfusion.scene.cluster import Cluster, _local
from cfusion.scene.job import Job, Task, code_version
from cfusion.scene.record import Record
from cfusion.scene.whole import fuse_scene, prepare

distributed = pytest.importorskip("distributed", reason="dask.distributed is missing: pip install 'cfusion[cluster]'")
VIEWS = 10
SOURCE, HERE = str(Path(__file__).parents[2] / "src"), str(Path(__file__).parent)
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join([SOURCE, HERE, os.environ.get("PYTHONPATH", "")]),
    "DASK_LOGGING__DISTRIBUTED": "critical",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s",
}


def test_workers_keep_the_memory_that_they_will_need_again() -> None:
    """dask has glibc hand it back at once: a third of a worker's time then goes into pages that are cleared anew."""
    with _local(1, "1 GB") as address, distributed.Client(address) as client:
        kept = client.run(lambda: [os.environ.get(name) for name in ("MALLOC_TRIM_THRESHOLD_", "NUMBA_NUM_THREADS")])
    assert list(kept.values()) == [[os.environ.get("MALLOC_TRIM_THRESHOLD_"), str(os.cpu_count() or 1)]]


def test_ctrl_c_of_a_terminal_is_not_the_workers() -> None:
    """It reaches every process; each worker printed a traceback, and the main one ends them anyway."""

    def deaf() -> bool:
        return signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    with _local(1, "1 GB") as address, distributed.Client(address) as client:
        assert list(client.run(deaf).values()) == [True]
    assert not deaf()


def test_workers_are_not_profiled_for_a_dashboard_that_nobody_opens() -> None:
    """dask looks at every thread each 10 ms; two workers then take a tenth longer than one."""

    def profiled() -> object:
        return importlib.import_module("dask").config.get("distributed.worker.profile.enabled")

    with _local(1, "1 GB") as address, distributed.Client(address) as client:
        kept = client.run(profiled)
    assert list(kept.values()) == [False]
    assert profiled() is True  # of the user's own clusters


def test_a_worker_has_the_threads_it_was_given() -> None:
    with Cluster(1, threads=3).open() as cluster, distributed.Client(cluster.address) as client:
        given = client.run(lambda: [os.environ.get(name) for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")])
    assert list(given.values()) == [["3", "3"]]


def test_how_an_address_and_a_memory_are_spelled() -> None:
    for address in ("tcp://head:8786", "head:8786", "10.0.0.1:80", "tls://[::1]:8786", "inproc://10.0.0.1/3/1"):
        Cluster(address=address)
    for memory in ("auto", "4GB", "500 MiB", "1.5gb", "1000000", "0.5", ".25", "0"):
        Cluster(1, memory=memory)
        if memory != "auto":
            distributed.worker_memory.parse_memory_limit(memory, 1, 1, logger=None)  # dask thinks so, too
    for memory in ("", "GB", "3XB", "-1GB", "4 G B", "nan"):
        with pytest.raises(InputError, match="memory of a worker"):
            Cluster(1, memory=memory)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten views, large enough that a task takes a moment."""
    return large(VIEWS, 160, tmp_path_factory.mktemp("scene") / "data")


def large(count: int, width: int, folder: Path) -> Path:
    """The wall in views of that width."""
    camera = Pinhole(1.25 * width, 1.25 * width, width / 2, 0.375 * width, width, 3 * width // 4)
    views = []
    for view in walk(count):
        depth = wall_depth(view.pose, camera)
        noise = np.random.default_rng(len(views)).normal(0, 0.01, depth.shape)
        views.append(View((depth + noise).astype(np.float32), camera, view.pose))
    return lay(views, folder, "bundle")


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scene, made in this process."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run(data, "-o", out, *QUICK) == 0
    return out


def job_of(data: Path, out: Path) -> Job:
    return Job(str(data), "bundle", str(out), code_version(), method="median", backend="numpy")


def require_same(out: Path, undisturbed: Path, *, cloud: bool = False) -> None:
    """Every map bit for bit; nothing half-made is left."""
    for path in sorted(undisturbed.rglob("*.npy")):
        inside = path.relative_to(undisturbed)
        if "cloud" not in path.name or cloud:
            assert (out / inside).read_bytes() == path.read_bytes(), inside
    if cloud:
        assert (out / "scene.ply").read_bytes() == (undisturbed / "scene.ply").read_bytes()


def stamps(out: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in (out / "cfusion" / "views").rglob("record.json")}


def wait_for(truth: Callable[[], bool], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not truth():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait(timeout=20)


def scheduler(port: int) -> "object":
    return started("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")


def worker(port: int, *more: str) -> "object":
    return started(
        *("distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny"),
        *("--no-dashboard", "--memory-limit", "0", *more),
    )


def test_the_command_gives_the_same_bits_on_workers(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(data, "-o", out, *QUICK, "--workers", 2) == 0
    require_same(out, undisturbed, cloud=True)


def test_workers_killed_at_random_moments(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    """Each SIGKILL costs the task in flight and no more."""
    import psutil

    out, rng = tmp_path / "out", np.random.default_rng(0)
    scene = prepare(job_of(data, out))
    records: list[Record] = []
    before: dict[str, int] = {}
    killed = 0
    for record in Cluster(2).run(scene.job, scene.tasks):
        records.append(record)
        if len(records) in (2, 5):
            workers = [
                child
                for child in psutil.Process().children(recursive=True)
                if child.is_running() and "spawn_main" in " ".join(child.cmdline())
            ]
            time.sleep(float(rng.uniform(0, 0.1)))
            before |= stamps(out)
            victim = workers[int(rng.integers(len(workers)))]
            victim.kill()
            killed += 1
    assert killed == 2
    assert sorted(record.view for record in records) == list(range(VIEWS))
    assert not [record for record in records if record.failure]
    assert {name: stamps(out)[name] for name in before} == before  # nothing finished was made again
    fuse_scene(prepare(scene.job))
    require_same(out, undisturbed)


def test_the_scheduler_is_restarted(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    out, port = tmp_path / "out", free_port()
    scene = prepare(job_of(data, out))
    records: list[Record] = []

    def serve() -> None:
        records.extend(Cluster(address=f"tcp://127.0.0.1:{port}").run(scene.job, scene.tasks))

    client = threading.Thread(target=serve)
    with scheduler(port), worker(port):
        client.start()
        wait_for(lambda: len(stamps(out)) >= 3)
        before = stamps(out)
    with scheduler(port), worker(port):
        client.join(60)
    assert not client.is_alive()
    assert sorted(record.view for record in records) == list(range(VIEWS))
    assert not [record for record in records if record.failure]
    assert {name: stamps(out)[name] for name in before} == before
    fuse_scene(prepare(scene.job))
    require_same(out, undisturbed)


def test_the_client_is_gone_and_the_same_command_comes_again(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    out, port = tmp_path / "out", free_port()
    command = ("cfusion", "scene", str(data), "-o", str(out), *QUICK, "--scheduler", f"tcp://127.0.0.1:{port}")
    with scheduler(port), worker(port):
        with started(*command) as client:
            wait_for(lambda: len(stamps(out)) >= 2)
            client.send_signal(signal.SIGKILL)
        before = stamps(out)
        assert run(*command[2:]) == 0
        after = stamps(out)
    assert {name: after[name] for name in before} == before
    require_same(out, undisturbed, cloud=True)
    assert not list(out.rglob(".cfusion-*"))


def beside(trouble: Callable[[], None], data: Path, out: Path) -> None:
    """A scene on a sound worker and one in trouble: every view is made, none by the latter."""
    port = free_port()
    scene = prepare(job_of(data, out))
    with scheduler(port), worker(port, "--name", "poor"), worker(port, "--name", "sound"):
        address = f"tcp://127.0.0.1:{port}"
        with distributed.Client(address, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=30)
            poor = [place for place, each in client.scheduler_info()["workers"].items() if each["name"] == "poor"]
            client.run(trouble, workers=poor)
        records = list(Cluster(address=address).run(scene.job, scene.tasks))
    assert sorted(record.view for record in records) == [0, 1, 2]
    assert not [record.failure for record in records if record.failure]
    assert not {record.worker for record in records} & set(poor)


@pytest.mark.parametrize(("trouble", "width"), [(disk_is_full, 64), (short_of_memory, 480)], ids=["disk", "memory"])
def test_a_worker_in_trouble_leaves_its_tasks_to_others(
    trouble: Callable[[], None], width: int, tmp_path: Path
) -> None:
    out, again, data = tmp_path / "out", tmp_path / "again", large(3, width, tmp_path / "data")
    beside(trouble, data, out)
    fuse_scene(prepare(job_of(data, again)))
    require_same(out, again)


def test_memory_that_runs_out_where_a_failure_is_told_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words for a failure may need memory too: the record says so all the same, and names the worker."""
    from cfusion.scene import cluster

    def no_memory(*given: object) -> object:
        raise MemoryError

    monkeypatch.setattr(cluster, "work", no_memory)
    monkeypatch.setattr(
        cluster, "_distributed", lambda: SimpleNamespace(get_worker=lambda: SimpleNamespace(address="w"))
    )
    record = cluster._run_task(None, Task("fuse", 3, (1, 2), "key"))  # type: ignore[arg-type]
    assert (record.view, record.worker, record.elsewhere) == (3, "w", True)
    assert "out of memory" in record.failure


def test_a_worker_that_is_stuck_does_not_hold_the_others_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives, it answers, and never ends its task: as when memory ran out in the wrong moment."""
    from cfusion.scene import cluster

    monkeypatch.setattr(cluster, "INSPECT_AFTER", 0.5)
    monkeypatch.setattr(cluster, "STUCK", 1.0)
    beside(never_ends, large(3, 64, tmp_path / "data"), tmp_path / "out")


def test_a_scheduler_that_never_answers_is_named(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cfusion.scene import cluster

    monkeypatch.setattr(cluster, "CONNECT", 0.5)
    scene = prepare(job_of(data, tmp_path / "out"))
    nobody = Cluster(address=f"tcp://127.0.0.1:{free_port()}", patience=0.1)
    with pytest.raises(BackendUnavailable, match="run the same command again"):
        list(nobody.run(scene.job, scene.tasks))
    with pytest.raises(InputError, match="at least 1"):
        Cluster()
