"""The viewer opens what fuse and sequences write, serves it, and writes recordings."""

import re
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from cfusion import Pose, Result, View
from cfusion.cli.main import main
from cfusion.datasets import write_bundle, write_result
from cfusion.errors import FileError
from cfusion.view import rerun_file
from cfusion.view.clouds import colours_of, limits_of, points_and_colours
from cfusion.view.frames import near_origin, open_frames
from cfusion.view.input_views import InputViews
from cfusion.view.levels import MOST_POINTS, strides
from cfusion.view.scene_page import write_view_page


@pytest.fixture
def sequence(result: Result, tmp_path: Path) -> Path:
    for number in range(3):
        moved = replace(result, pose=Pose(np.eye(3), np.array([0.1 * number, 0.0, 0.0])))
        write_result(moved, tmp_path / "out" / f"{number:06d}", ("npy",))
    return tmp_path / "out"


def test_frames_of_a_sequence_come_back(sequence: Path, result: Result) -> None:
    frames = open_frames(sequence)
    assert [frame.name for frame in frames] == ["000000", "000001", "000002"]
    np.testing.assert_array_equal(frames[1].maps().depth, result.depth)
    assert set(frames[1].maps().others) == {"sigma", "confidence", "provenance"}
    assert frames[2].pose.matrix()[0, 3] == pytest.approx(0.2)
    assert len(open_frames(sequence / "000000")) == 1
    with pytest.raises(FileError, match="holds no result"):
        open_frames(sequence.parent)


def test_frames_in_a_map_projection_are_drawn_near_the_origin(sequence: Path, result: Result) -> None:
    frames = open_frames(sequence)
    assert near_origin(frames) is frames
    there = np.array([500000.0, 5400000.0, 300.0])
    far = [replace(each, pose=Pose(np.eye(3), each.pose.translation + there)) for each in frames]
    for moved, given in zip(near_origin(far), frames, strict=True):
        np.testing.assert_allclose(moved.pose.matrix(), given.pose.matrix(), atol=1e-8)


def test_points_are_those_of_the_result(sequence: Path, result: Result) -> None:
    frame = open_frames(sequence)[1]
    points, colours = points_and_colours(frame, frame.maps(), "sigma", 1)
    moved = replace(result, pose=frame.pose)
    known = moved.provenance[np.isfinite(moved.depth)] > 0
    np.testing.assert_allclose(points[known], moved.points(), rtol=1e-6)
    assert colours.shape == points.shape
    assert len(points_and_colours(frame, frame.maps(), "views", 2)[0]) == np.isfinite(result.depth[::2, ::2]).sum()
    assert colours_of(frame.maps(), image=True) == ("depth", "sigma", "views", "confidence", "image")
    low, high = limits_of(open_frames(sequence), "depth") or (0.0, 0.0)
    assert np.nanmin(result.depth) <= low < high <= np.nanmax(result.depth)


def test_large_scenes_are_coarse_but_where_the_eye_is() -> None:
    assert strides([1.0, 2.0], 100) == [1, 1]
    found = strides([float(each) for each in range(400)], 300_000)
    assert sum(300_000 / each**2 for each in found) <= MOST_POINTS
    assert found == sorted(found)  # the nearest are the finest
    assert found[0] < found[-1]
    assert strides([2.0, 1.0, 3.0], 1_000_000) == [2, 1, 2]


def test_the_viewer_serves_frames_and_their_pages(sequence: Path, result: Result, tmp_path: Path) -> None:
    pytest.importorskip("viser")
    from cfusion.view.viewer import BASE, CHOSEN, ONE, Viewer

    (sequence / "000001" / "report.html").write_text("<html>its page")
    views = [View(result.depth + 1, result.camera, Pose.identity()) for _ in range(3)]
    write_bundle(views, tmp_path / "data")
    frames = open_frames(sequence)
    viewer = Viewer(frames, InputViews(frames, tmp_path / "data"), "127.0.0.1", 18080)
    try:
        with urllib.request.urlopen(viewer.address, timeout=20) as answer:
            assert b"<html" in answer.read()
        waited_for(lambda: len(viewer.drawn) == 3)
        viewer.colour.value, viewer.side.value = "sigma", "before"
        viewer.select(1)
        waited_for(lambda: viewer.drawn == {1: ("sigma", True, 1)} and viewer.which.value == ONE)
        assert viewer.limits["sigma"] == limits_of(frames, "sigma")  # one scale for all frames
        assert [tuple(camera.color) for camera in viewer.cameras] == [BASE, CHOSEN, BASE]
        address = re.search(r"\((http://localhost:\d+/1)\)", viewer.words.content)
        assert address, viewer.words.content
        with urllib.request.urlopen(address.group(1), timeout=20) as answer:
            assert answer.read() == b"<html>its page"
        with pytest.raises(urllib.error.HTTPError):  # it has none
            urllib.request.urlopen(address.group(1)[:-1] + "2", timeout=20)
    finally:
        viewer.stop()
    assert not viewer.drawing.is_alive()  # nothing is left that draws
    with pytest.raises(OSError, match=r"refused|reset|urlopen"):
        urllib.request.urlopen(viewer.address, timeout=5)


def waited_for(happened: Callable[[], bool]) -> None:
    for _ in range(400):
        if happened():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def test_the_page_of_a_view_of_a_scene_is_made_when_asked_for(result: Result, tmp_path: Path) -> None:
    poses = [Pose(np.eye(3), np.array([0.01 * k, 0.0, 0.0])) for k in range(3)]
    write_bundle(
        [View(result.depth, result.camera, pose, name=f"<{k}>") for k, pose in enumerate(poses)], tmp_path / "in"
    )
    out = tmp_path / "out"
    assert (
        main(["scene", str(tmp_path / "in"), "-o", str(out), "--method", "median", "--backend", "numpy", "--quiet"])
        == 0
    )
    frames = open_frames(out)
    assert [frame.number for frame in frames] == [0, 1, 2]
    assert set(frames[0].maps().others) == {"sigma", "provenance", "confidence"}
    measured = InputViews(frames)  # the scene remembers its data
    assert measured.known
    np.testing.assert_array_equal(measured.of(2).depth, result.depth.astype(np.float32))  # type: ignore[union-attr]
    page = write_view_page(out, 2, tmp_path / "page.html").read_text()
    assert "in: &lt;2&gt;" in page
    assert "fused from itself and 2 others" in page


def test_the_command_prints_where_it_is_and_ends(
    sequence: Path, result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("viser")
    depth = np.where(np.isnan(result.depth), np.nan, 2.0)
    write_bundle([View(depth, result.camera, Pose.identity())], tmp_path / "data")
    arguments = ["view", str(sequence), "--port", "18090", "--seconds", "0.2", "--data", str(tmp_path / "data")]
    assert main(arguments) == 0
    assert "open http://localhost:" in capsys.readouterr().out
    assert main(["view", str(tmp_path / "nowhere")]) == 2


def test_a_recording_is_read_back_by_rerun(sequence: Path, tmp_path: Path) -> None:
    """By rerun's own reader: every frame at its place on the timeline, with the values of the result."""
    pytest.importorskip("rerun")
    assert main(["view", str(sequence), "--rerun", str(tmp_path / "out.rrd")]) == 0
    reader = pytest.importorskip("rerun.chunk").RrdReader(str(tmp_path / "out.rrd"))
    (recording,) = reader.recordings()
    assert recording.application_id == "cfusion"
    rows: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for chunk in reader.stream():
        batch = chunk.to_record_batch()
        for row in batch.to_pylist() if "frame" in batch.schema.names else ():
            rows[chunk.entity_path][row["frame"]] = row
    frames = open_frames(sequence)
    kinds = ("points", "camera", "camera/image", "camera/image/depth")
    assert {path: sorted(found) for path, found in rows.items()} == {f"/world/{kind}": [0, 1, 2] for kind in kinds}
    for number, frame in enumerate(frames):
        points, _ = points_and_colours(frame, frame.maps(), "depth", 1)
        np.testing.assert_allclose(rows["/world/points"][number]["Points3D:positions"], points, rtol=1e-6)
        camera, image = rows["/world/camera"][number], rows["/world/camera/image"][number]
        np.testing.assert_allclose(camera["Transform3D:translation"][0], frame.pose.translation, atol=1e-7)
        np.testing.assert_allclose(
            np.reshape(image["Pinhole:image_from_camera"][0], (3, 3)).T, frame.camera.matrix, rtol=1e-6
        )
        depth = rows["/world/camera/image/depth"][number]["DepthImage:buffer"][0]
        shown = np.frombuffer(bytes(depth), frame.maps().depth.dtype).reshape(frame.camera.shape)
        np.testing.assert_array_equal(shown, np.nan_to_num(frame.maps().depth))


def test_a_recording_has_points_and_camera_of_every_frame(
    sequence: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rerun = MagicMock()
    monkeypatch.setattr(rerun_file, "optional_module", lambda name, missing: rerun)
    frames = open_frames(sequence)
    rerun_file.write_rerun(frames, tmp_path / "out.rrd")
    stream = rerun.RecordingStream.return_value
    said = Counter(call.args[0] for call in stream.log.call_args_list)
    kinds = ("points", "camera", "camera/image", "camera/image/depth")
    assert said == Counter({f"world/{kind}": len(frames) for kind in kinds} | {"world": 1})
    for call, frame in zip(rerun.Pinhole.call_args_list, frames, strict=True):
        np.testing.assert_array_equal(call.kwargs["image_from_camera"], frame.camera.matrix)
        assert call.kwargs["resolution"] == [frame.camera.width, frame.camera.height]
    assert [call.kwargs["sequence"] for call in stream.set_time.call_args_list] == list(range(len(frames)))
    for call, frame in zip(rerun.Transform3D.call_args_list, frames, strict=True):
        np.testing.assert_array_equal(call.kwargs["translation"], frame.pose.translation)
        np.testing.assert_array_equal(call.kwargs["mat3x3"], frame.pose.rotation)


def test_nothing_is_drawn_until_it_is_wanted_and_then_once() -> None:
    """Else it would keep a core busy for as long as the page is open."""
    from cfusion.view.viewer import Viewer

    viewer: Any = object.__new__(Viewer)
    viewer.ended, viewer.wanted, drawn = False, threading.Event(), threading.Semaphore(0)
    viewer._draw = drawn.release
    thread = threading.Thread(target=viewer._keep_drawing, daemon=True)
    thread.start()
    assert not drawn.acquire(timeout=0.1)
    viewer.wanted.set()
    assert drawn.acquire(timeout=10)
    assert not drawn.acquire(timeout=0.1)
    viewer.ended = True
    viewer.wanted.set()
    thread.join(10)
    assert not thread.is_alive()
