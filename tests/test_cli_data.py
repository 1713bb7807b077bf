"""`cfusion formats` and `cfusion check`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cfusion.cli.main import main
from cfusion.datasets import READERS, read, write_bundle
from cfusion.datasets.check import check
from cfusion.geometry import Pinhole, Pose, View


@pytest.fixture
def views() -> list[View]:
    """A wavy wall seen from five places, in closed form: z = 3 + sin(2 x) / 4, by a few fixed-point steps."""
    camera = Pinhole(60.0, 60.0, 31.5, 23.5, 64, 48)
    found = []
    for number in range(5):
        turn = 0.12 * (number - 2)
        rotation = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
        pose = Pose(rotation, np.array([0.3 * (number - 2), 0.1 * number, 0.05 * number]))
        rays = pose.turn(camera.back_project(np.ones(camera.shape)))
        depth = np.full(camera.shape, 3.0)
        for _ in range(60):
            points = pose.translation + rays * depth[..., None]
            wall = 3 + 0.25 * np.sin(2 * points[..., 0]) + 0.2 * np.sin(3 * points[..., 1])
            depth += 0.5 * (wall - points[..., 2]) / rays[..., 2]
        found.append(View(depth, camera, pose))
    return found


def test_formats_lists_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{name} " in shown for name in READERS)
    assert "units_per_metre" not in shown
    assert main(["formats", "--options"]) == 0
    assert "units_per_metre = 5000.0" in capsys.readouterr().out


def test_check_of_data_as_stated(tmp_path: Path, views: list[View], capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(views, tmp_path / "right")
    assert main(["check", str(tmp_path / "right")]) == 0
    shown = capsys.readouterr().out
    assert "The data fit as stated" in shown
    assert "OpenGL axes" in shown


def test_check_without_parallax_is_one_sentence(
    tmp_path: Path, views: list[View], capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle([views[0]] * 3, tmp_path / "same")
    assert main(["check", str(tmp_path / "same")]) == 0
    read_as, sentence = capsys.readouterr().out.splitlines()
    assert read_as == "bundle: unit metre, camera-to-world; 3 views"
    assert sentence.startswith("The views are too close together to decide (parallax 0 pixels")
    assert main(["check", str(tmp_path / "same"), "--verbose"]) == 0
    _, _, first, *table = capsys.readouterr().out.splitlines()
    assert first == sentence
    assert any("OpenGL axes" in line for line in table)


def test_check_names_the_confusion(tmp_path: Path, views: list[View], capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle([replace(view, pose=view.pose.inverse()) for view in views], tmp_path / "wrong")
    assert main(["check", str(tmp_path / "wrong"), "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["best"].startswith("poses inverted (")
    assert shown["rows"][0]["name"] == "as stated"
    found = check(read(tmp_path / "wrong"))
    for row, fit in zip(shown["rows"], found.fits, strict=True):
        told = {"residual": fit.residual, "overlap": fit.overlap}
        told |= {} if fit is found.stated else {"votes": fit.votes, "telling": fit.telling}
        percent = {name: 100 * each if np.isfinite(each) else None for name, each in told.items()}
        assert {name: row[name] for name in told} == pytest.approx(percent)
        assert (row["votes"] is None) == (row["telling"] is None) == (fit is found.stated)
    assert max(fit.votes for fit in found.fits if fit is not found.stated) > 0.5


def test_check_of_nothing_is_one_line(tmp_path: Path, views: list[View], capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(views[:1], tmp_path / "one")
    assert main(["check", str(tmp_path / "one")]) == 2
    assert capsys.readouterr().err == "cfusion: a check needs two views of the same surface; 1 was given\n"
    assert main(["check", str(tmp_path / "one"), "--option", "images"]) == 2
    assert "--option 'images' is not name=value" in capsys.readouterr().err
