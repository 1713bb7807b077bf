"""What becomes of views, tasks and workers that fail, without a cluster; and of maps without perspective."""

import json
import math
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose
from cfusion.datasets.read import Reader
from cfusion.errors import FileError, InputError, OutOfMemory
from cfusion.forecast import SolveForecast, Step
from cfusion.scene import cloud, cluster, places, work
from cfusion.scene.job import Task
from cfusion.scene.progress import TaskProgress
from cfusion.scene.record import Record, folder_of, read_record, require_record, write_record
from cfusion.scene.sketch import towards_camera

TASK = Task("fuse", 3, (1, 2), "key")


class TestRecords:
    """A view is taken as done only by a whole record whose files are still those that it lists."""

    def written(self, tmp_path: Path) -> Path:
        folder = folder_of(tmp_path, 3)
        folder.mkdir(parents=True)
        (folder / "depth.npy").write_bytes(b"depth")
        write_record(folder, Record(3, "view 3", "key"))
        assert read_record(folder, "key") == Record(3, "view 3", "key")
        return folder

    @pytest.mark.parametrize("content", ["", "[]", "3", '{"files": {}}', '{"files": {}, "view": 3}', '{"view": 3}'])
    def test_what_is_no_record_is_none(self, tmp_path: Path, content: str) -> None:
        folder = self.written(tmp_path)
        (folder / "record.json").write_text(content)
        assert read_record(folder) is None
        with pytest.raises(FileError, match="holds no fused view"):
            require_record(folder)

    def test_what_it_lists_is_there_as_it_was(self, tmp_path: Path) -> None:
        folder = self.written(tmp_path)
        assert read_record(folder, "another key") is None
        stated = (folder / "record.json").read_text()
        for files in ("3", '{"depth.npy": [1]}', '{"depth.npy": 7}', '{"\\u0000": [5, 1, "a"]}'):
            changed = json.loads(stated) | {"files": json.loads(files)}
            (folder / "record.json").write_text(json.dumps(changed))
            assert read_record(folder, "key") is None
            assert read_record(folder) is not None  # nobody asked whether it still holds
        (folder / "record.json").write_text(stated)
        (folder / "depth.npy").write_bytes(b"other")
        assert read_record(folder, "key") is None
        (folder / "depth.npy").unlink()
        assert read_record(folder, "key") is None


class TestReasons:
    @pytest.mark.parametrize(
        ("error", "reason", "elsewhere"),
        [
            (InputError("a pose is wrong"), "a pose is wrong", False),
            (OutOfMemory("it needs 3 GB"), "it needs 3 GB", True),
            (MemoryError(), work.OUT_OF_MEMORY, True),
            (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero", True),
        ],
    )
    def test_in_words_and_where_to_try_again(
        self, error: Exception, reason: str, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(work, "open_job", lambda job: SimpleNamespace(names={3: "third"}))
        found = work._failure(None, TASK, error)  # type: ignore[arg-type]
        assert (found.view, found.name, found.key, found.neighbours) == (3, "third", "key", (1, 2))
        assert (found.failure, found.elsewhere) == (reason, elsewhere)

    def test_a_view_without_a_readable_name_has_its_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone(job: Any) -> Any:
            raise FileError("gone")

        monkeypatch.setattr(work, "open_job", gone)
        found = list(work.work(SimpleNamespace(folder=Path("nowhere")), [TASK]))  # type: ignore[arg-type]
        assert [(each.name, each.failure) for each in found] == [("000003", "gone")]

    def test_what_has_a_record_is_not_done_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another process may have been faster; a record of another key is of other inputs."""
        done = Record(3, "third", "key", density_after=0.5)
        write_record(folder_of(tmp_path, 3), done)

        def gone(job: Any) -> Any:
            raise FileError("gone")

        monkeypatch.setattr(work, "open_job", gone)
        job: Any = SimpleNamespace(folder=tmp_path)
        assert list(work.work(job, [TASK])) == [done]
        (found,) = work.work(job, [Task("fuse", 3, (1, 2), "another key")])
        assert found.failure == "gone"

    def test_a_piece_of_the_cloud_that_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(work, "open_job", lambda job: SimpleNamespace(names={3: "third"}))

        def piece(job: Any, task: Any) -> Any:
            raise MemoryError

        monkeypatch.setattr(cloud, "piece", piece)
        task = Task("cloud", 3, (1, 2), "key")
        (found,) = work.work(None, [task])  # type: ignore[arg-type]
        assert found.failure == work.OUT_OF_MEMORY

    def test_neighbours_that_cannot_be_read_are_named_and_left_out(self) -> None:
        class Views:
            def __getitem__(self, number: int) -> str:
                if number == 1:
                    raise FileError("cut short")
                return f"view {number}"

        bundles = work._Bundles(SimpleNamespace(views=Views()))  # type: ignore[arg-type]
        assert bundles(TASK) == ("view 3", "view 2")
        assert bundles.left_out[TASK] == ("1: cut short",)

    def test_what_cannot_be_written_is_a_failure_of_the_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*given: Any) -> None:
            raise FileError("the disk is full")

        usual = Record(3, "third", "key", (1, 2), status="done")
        monkeypatch.setattr(work, "_record", lambda *given: usual)
        monkeypatch.setattr(work, "_write", full)
        bundles: Any = SimpleNamespace(opened=SimpleNamespace(views=[None] * 4), left_out={TASK: ("1: x",)})
        bundles.began = {TASK: time.perf_counter() - 5}
        found = work._kept(None, TASK, bundles, None)  # type: ignore[arg-type]
        assert (found.failure, found.elsewhere, found.left_out) == ("the disk is full", True, ("1: x",))
        assert 5 <= found.seconds < 6

    def test_maps_are_kept_in_few_bytes(self, tmp_path: Path) -> None:
        job: Any = SimpleNamespace(output=str(tmp_path), write_back=False)
        maps = {"depth": np.ones((1, 4), np.float32), "sigma": np.ones((1, 4), np.float32)}
        confidence = np.array([[0.0, 0.25, 1.0, 1e9]], np.float32)
        counts = np.array([[-1, 0, 7, 999]], np.int16)
        result: Any = SimpleNamespace(**maps, confidence=confidence, provenance=counts)
        work._write(job, TASK, None, result, Record(3, "third", "key", (1, 2)))  # type: ignore[arg-type]
        (folder,) = (path.parent for path in tmp_path.rglob("observed.npy"))
        observed, trust = np.load(folder / "observed.npy"), np.load(folder / "confidence.npy")
        assert (observed.dtype, observed.tolist()) == (np.int16, [[-1, 0, 7, work.MOST_VIEWS]])
        assert trust.dtype == np.float16
        assert np.isfinite(trust).all()
        assert trust[0, :3].tolist() == [0.0, 0.25, 1.0]


class TestTogether:
    """Progress of several tasks under way."""

    def test_one_is_passed_on_and_several_are_summed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        heard: list[Step] = []
        monkeypatch.setattr(SolveForecast, "fraction", lambda self, now: 0.5)
        progress = TaskProgress(heard.append, 4, "view", "l1")
        told: Any = SimpleNamespace(stage="depth", done=0.5, gap=0.25, energy=1.0)
        progress.solver(0, told)
        assert (heard[-1].stage, heard[-1].done, heard[-1].inside) == ("view 1 of 4", 0.0, told)
        assert heard[-1].share == 0.25
        progress.solver(1, told)
        assert (heard[-1].done, heard[-1].gap, heard[-1].inside) == (0.25, 0.25, None)
        progress.finished()
        assert (heard[-1].stage, heard[-1].done) == ("view 2 of 4", 0.25)
        assert list(progress.running) == [1]
        for _ in range(5):
            progress.finished()
        assert (heard[-1].stage, heard[-1].done) == ("view 4 of 4", 1.0)
        TaskProgress(None, 0, "view").finished()  # nobody listens, nothing to do


class Future:
    """Stands in for dask's."""

    status = "finished"

    def __init__(self, number: int, task: Task, workers: list[str] | None) -> None:
        self.key, self.task, self.workers, self.ended = f"key-{number}", task, workers, ""

    def cancel(self) -> None:
        self.ended = "cancelled"

    def release(self) -> None:
        self.ended = "released"


class Client:
    """Likewise; two workers of one thread each."""

    status = "running"

    def __init__(self) -> None:
        self.given: list[Future] = []

    def submit(self, function: Any, job: Any, task: Task, *, pure: bool, workers: list[str] | None) -> Future:
        assert not pure
        self.given.append(Future(len(self.given), task, workers))
        return self.given[-1]

    def nthreads(self) -> dict[str, int]:
        return {"tcp://a": 1, "tcp://b": 1}

    def processing(self) -> dict[str, list[str]]:
        return {"tcp://a": ["key-0"], "tcp://b": ["key-1"]}


def exchange_of(*tasks: Task) -> Any:
    return cluster._Exchange(Client(), None, dict.fromkeys(tasks, 0))  # type: ignore[arg-type]


class TestExchange:
    def test_a_few_tasks_per_worker_are_handed_out(self) -> None:
        tasks = [Task("fuse", number, (), "key") for number in range(20)]
        exchange = exchange_of(*tasks)
        exchange._submit_waiting()
        assert [future.task for future in exchange.client.given] == tasks[: 2 * cluster.TASKS_PER_THREAD]
        assert all(future.workers is None for future in exchange.client.given)
        exchange.running.pop(exchange.client.given[0])
        exchange._submit_waiting()
        assert len(exchange.client.given) == 2 * cluster.TASKS_PER_THREAD + 1
        nobody = exchange_of(*tasks)
        nobody.client.nthreads = dict  # workers are to come: a few tasks wait for them
        nobody._submit_waiting()
        assert len(nobody.client.given) == cluster.TASKS_PER_THREAD

    def test_all_of_many_tasks_have_their_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """More than are handed out at a time: the rest as others end, one by one."""
        tasks = [Task("fuse", number, (), "key") for number in range(20)]
        exchange = exchange_of(*tasks)
        monkeypatch.setattr(exchange, "_finished", lambda: [next(iter(exchange.running))])
        monkeypatch.setattr(cluster, "_record_of", lambda future, task: Record(task.view, "x", "key"))
        assert [record.view for record in exchange.records()] == [task.view for task in tasks]

    @pytest.mark.parametrize(
        ("failures", "tries", "ends"), [(0, 1, ""), (1, 2, ""), (2, 3, ""), (3, 3, "full"), (9, 3, "full")]
    )
    def test_what_fails_by_its_machine_is_tried_on_others(
        self, failures: int, tries: int, ends: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exchange = exchange_of(TASK)
        answers = iter(
            [Record(3, "x", "key", failure="full", elsewhere=True, worker="tcp://a")] * failures
            + [Record(3, "x", "key", seconds=4.0)]
        )
        monkeypatch.setattr(exchange, "_finished", lambda: list(exchange.running))
        monkeypatch.setattr(cluster, "_record_of", lambda future, task: next(answers))
        (found,) = exchange.records()
        assert found.failure == ends
        assert len(exchange.client.given) == tries
        assert [future.workers for future in exchange.client.given] == [None, ["tcp://b"], ["tcp://b"]][:tries]
        assert exchange.longest == (0.0 if ends else 4.0)
        assert all(future.ended == "released" for future in exchange.client.given)
        assert exchange.left == {}

    def test_a_mistake_in_the_data_is_told_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exchange = exchange_of(TASK)
        monkeypatch.setattr(exchange, "_finished", lambda: list(exchange.running))
        monkeypatch.setattr(cluster, "_record_of", lambda future, task: Record(3, "x", "key", failure="a pose"))
        assert [each.failure for each in exchange.records()] == ["a pose"]
        assert len(exchange.client.given) == 1

    @pytest.mark.parametrize("status", ["lost", "cancelled"])
    def test_a_connection_that_is_lost_is_told(self, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
        exchange = exchange_of(TASK)
        monkeypatch.setattr(exchange, "_finished", lambda: list(exchange.running))
        monkeypatch.setattr(Future, "status", status)
        with pytest.raises(cluster._SchedulerLost, match="connection lost"):
            list(exchange.records())
        assert exchange.left == {TASK: 0}

    def test_the_slower_of_two_workers_is_not_heard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exchange = exchange_of(TASK)
        monkeypatch.setattr(exchange, "_finished", lambda: list(exchange.running))
        monkeypatch.setattr(cluster, "_record_of", lambda future, task: Record(3, future.key, "key"))
        exchange._submit(TASK)
        assert [each.name for each in exchange.records()] == ["key-0"]

    def test_tasks_whose_only_workers_went_away_are_given_anew(self) -> None:
        other = Task("fuse", 4, (), "other")
        exchange = exchange_of(TASK, other)
        exchange._submit_waiting()
        exchange.failed_on[TASK] = {"tcp://a"}
        exchange._resubmit()
        first, second, third = exchange.client.given
        assert (first.ended, second.ended, third.task, third.workers) == ("cancelled", "", TASK, None)
        assert list(exchange.running) == [second, third]
        assert TASK not in exchange.failed_on

    def test_tasks_of_a_worker_that_is_stuck_are_given_to_another(self) -> None:
        exchange = exchange_of(TASK)
        exchange._submit_waiting()
        exchange._resubmit()
        exchange.longest, exchange.last_record = cluster.STUCK, time.monotonic() - 1.5 * cluster.STUCK
        exchange._resubmit()
        assert len(exchange.client.given) == 1  # the longest one took nearly as long
        exchange.longest = 0.0
        for _ in range(cluster.TRIES + 2):
            exchange.last_record = time.monotonic() - 1.5 * cluster.STUCK
            exchange._resubmit()
            assert time.monotonic() - exchange.last_record < 5
        assert len(exchange.client.given) == len(exchange.running) == cluster.TRIES
        assert exchange.client.given[1].workers == ["tcp://b"]

    def test_what_a_future_says(self) -> None:
        class KilledWorker(Exception):
            pass

        record = Record(3, "third", "key", (1, 2))
        done: Any = SimpleNamespace(status="finished", result=lambda: record)
        assert cluster._record_of(done, TASK) is record
        for error, words in (
            (KilledWorker(), "its worker died each time; give workers more memory, or use fewer neighbours"),
            (ValueError("odd"), "ValueError: odd"),
        ):
            failed: Any = SimpleNamespace(status="error", exception=lambda error=error: error)
            found = cluster._record_of(failed, TASK)
            assert (found.name, found.failure, found.key) == ("000003", words, "key")

    def test_nothing_to_do_starts_nothing(self) -> None:
        assert list(cluster.Cluster(address="tcp://nowhere:1").run(None, [])) == []  # type: ignore[arg-type]


class TestDevices:
    def test_those_that_the_user_shows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, ,5")
        assert cluster._devices() == ["3", "5"]
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert cluster._devices() == []

    def test_all_of_the_machine_by_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr("os.listdir", lambda place: ["nvidia10", "nvidia2", "nvidiactl", "null", "nvidia-uvm"])
        assert cluster._devices() == ["2", "10"]

        def no_folder(place: str) -> list[str]:
            raise FileNotFoundError

        monkeypatch.setattr("os.listdir", no_folder)
        assert cluster._devices() == []


class TestPoints:
    """Of maps with and without perspective."""

    DEPTH = np.array([[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]], np.float32)

    def view(self, camera: Any) -> Any:
        turn = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
        pose = Pose(turn, np.array([1.0, 2.0, 3.0]))
        return SimpleNamespace(camera=camera, pose=pose, depth=self.DEPTH)

    @pytest.mark.parametrize(
        "camera", [Pinhole(5.0, 7.0, 1.2, 0.4, 3, 2), Orthographic(0.5, 1.2, 0.4, 3, 2)], ids=["pinhole", "flat"]
    )
    def test_as_the_camera_has_them(self, camera: Any) -> None:
        view = self.view(camera)
        row, column = np.indices(self.DEPTH.shape).reshape(2, -1)
        found = cloud._points_at(view, row, column, self.DEPTH.ravel().astype(np.float64))
        expected = view.pose.apply(camera.back_project(self.DEPTH).reshape(-1, 3))
        np.testing.assert_allclose(found, expected, atol=1e-6)
        towards = towards_camera(view.camera, view.pose, found)
        np.testing.assert_allclose(np.linalg.norm(towards, axis=1), 1)
        if isinstance(camera, Orthographic):
            np.testing.assert_allclose(towards, np.broadcast_to(-view.pose.rotation[:, 2], towards.shape))
        else:
            np.testing.assert_allclose(np.cross(towards, view.pose.translation - found), 0, atol=1e-9)
            assert ((view.pose.translation - found) * towards).sum() > 0

    def test_the_size_of_a_pixel(self) -> None:
        flat, deep = self.view(Orthographic(0.5, 1, 1, 3, 2)), self.view(Pinhole(5.0, 7.0, 1, 1, 3, 2))
        assert (cloud.pixel_size(flat.camera, self.DEPTH) == 0.5).all()
        np.testing.assert_allclose(cloud.pixel_size(deep.camera, self.DEPTH), self.DEPTH / 5)
        assert cloud._rank(flat) == math.floor(cloud.RANKS_PER_OCTAVE * math.log2(0.5))
        assert cloud._rank(deep) == math.floor(cloud.RANKS_PER_OCTAVE * math.log2(4.5 / 5))
        blind = self.view(Orthographic(0.5, 1, 1, 3, 2))
        blind.depth = np.full((2, 3), np.nan)
        assert cloud._rank(blind) == 0


def test_a_reader_that_stumbles_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a folder with two formats both are named, also where a third cannot be asked."""

    def reader(answer: Any) -> Any:
        def recognises(place: Path) -> bool:
            if isinstance(answer, Exception):
                raise answer
            return bool(answer)

        found = Reader("a format", "module")
        monkeypatch.setattr(Reader, "load", lambda self: self.module, raising=True)
        object.__setattr__(found, "module", SimpleNamespace(recognises=recognises))
        return found

    answers = {"one": reader(True), "odd": reader(FileError("broken")), "two": reader(True), "no": reader(False)}
    monkeypatch.setattr(places, "READERS", answers)
    with pytest.raises(InputError, match=r"several data sets in one folder \(one, two\)"):
        places.format_of(tmp_path, None)


@pytest.mark.parametrize(
    ("folders", "told"), [(1, r"\(0\)"), (5, r"\(0, 1, 2, 3, 4\)"), (6, r"\(0, 1, 2, 3, 4, ...\)")]
)
def test_folders_that_are_data_sets_are_counted_and_the_first_five_are_named(
    folders: int, told: str, tmp_path: Path
) -> None:
    for number in range(folders):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "bundle.json").write_text('{"format": "cfusion-bundle"}')
    with pytest.raises(InputError, match=f"not a data set, but {folders} of its folders are {told}; give one of them"):
        places.format_of(tmp_path, None)


@pytest.mark.parametrize(("status", "lost"), [("running", False), ("closed", True)])
def test_a_long_silence_is_a_lost_scheduler_only_if_its_client_says_so(
    status: str, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the tasks are looked after, and waited for again."""

    def silence(*given: object, **more: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(cluster, "_distributed", lambda: SimpleNamespace(wait=silence))
    looked: list[bool] = []
    client = SimpleNamespace(as_current=nullcontext, status=status)
    exchange: Any = SimpleNamespace(client=client, running={}, _resubmit=lambda: looked.append(True))
    with pytest.raises(cluster._SchedulerLost) if lost else nullcontext():
        assert cluster._Exchange._finished(exchange) == []
    assert looked == ([] if lost else [True])
