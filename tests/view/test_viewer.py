"""The viewer opens what fuse and sequences write, serves it, and writes recordings."""

import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cfusion import Pose, Result, View
from cfusion.cli.main import main
from cfusion.datasets import write_bundle, write_result
from cfusion.errors import FileError
from cfusion.view.clouds import points_and_colours, stride_for
from cfusion.view.frames import open_frames


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


def test_points_are_those_of_the_result(sequence: Path, result: Result) -> None:
    frame = open_frames(sequence)[1]
    points, colours = points_and_colours(frame, frame.maps(), "sigma", 1)
    moved = replace(result, pose=frame.pose)
    known = moved.provenance[np.isfinite(moved.depth)] > 0
    np.testing.assert_allclose(points[known], moved.points(), rtol=1e-6)
    assert colours.shape == points.shape
    assert len(points_and_colours(frame, frame.maps(), "views", 2)[0]) == np.isfinite(result.depth[::2, ::2]).sum()
    assert stride_for(10, 100) == 1
    assert 3_000_000 / stride_for(10, 300_000) ** 2 <= 1_500_000  # large scenes are thinned


def test_the_viewer_serves_a_page(sequence: Path, result: Result, tmp_path: Path) -> None:
    pytest.importorskip("viser")
    from cfusion.view.viewer import Viewer

    frames = open_frames(sequence)
    viewer = Viewer(frames, {"000001": result.depth + 1}, "127.0.0.1", 18080)
    try:
        with urllib.request.urlopen(viewer.address, timeout=20) as answer:
            assert b"<html" in answer.read()
        viewer.colour.value, viewer.side.value = "sigma", "before"
        viewer.select(1)
        viewer.draw()
        assert "000001" in viewer.words.content
    finally:
        viewer.stop()


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


def test_a_recording_is_written(sequence: Path, tmp_path: Path) -> None:
    pytest.importorskip("rerun")
    assert main(["view", str(sequence), "--rerun", str(tmp_path / "out.rrd")]) == 0
    assert (tmp_path / "out.rrd").read_bytes().startswith(b"RRF")
