"""A result shows itself: a line, HTML, points, a folder, a page, a figure, a data set."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.ply_points import places, read_points

from cfusion import Pinhole, Pose, Result, View
from cfusion.datasets.dataset import Dataset
from cfusion.errors import CameraError, InputError, ShapeError


def test_a_result_is_one_line(result: Result) -> None:
    text = repr(result)
    assert "\n" not in text
    for part in ("l1", "5 x 4", "known 95.0 %", "median sigma 0.125", "gap 1.0e-03", "converged"):
        assert part in text


def test_a_result_is_a_picture_and_a_table(result: Result) -> None:
    html = replace(result, method="<script>")._repr_html_()
    assert "data:image/png;base64," in html
    assert "&lt;script&gt;" in html
    assert "<script>" not in html


def test_points_are_those_of_the_written_cloud(result: Result, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    result.save(tmp_path / "out")
    points = result.points()
    assert points.shape == (18, 3)  # one is unknown, one filled
    np.testing.assert_allclose(points, places(read_points(tmp_path / "out" / "points.ply")), rtol=1e-6)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "depth.npy"), result.depth)
    assert {"depth_colour.png", "sigma_colour.png"} <= {path.name for path in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError, match="no camera"):
        replace(result, camera=None).points()


def test_a_result_writes_its_page(result: Result, tmp_path: Path) -> None:
    assert result.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_files_state_the_unit_of_the_data(result: Result, tmp_path: Path) -> None:
    """A page that of the data set it is made of; the metre where nobody says another."""
    view = View(result.depth, result.camera, Pose.identity())
    feet = Dataset((view,), 0, "foot")
    for views, more, stated in ((feet, {}, "ft"), (feet, {"unit": "metre"}, "m"), ((view,), {}, "m")):
        page = result.report(tmp_path / "page.html", views=views, reference=0, **more).read_text()
        assert f'"unit":"{stated}"' in page
    result.save(tmp_path / "out", formats=("npy",), unit="foot")
    assert json.loads((tmp_path / "out" / "result.json").read_text())["unit"] == "foot"


def test_a_result_is_a_figure(result: Result) -> None:
    pytest.importorskip("matplotlib")
    figure = result.plot()
    assert [axes.get_title() for axes in figure.axes[:4]] == ["depth", "sigma", "confidence", "views"]
    left, bottom = zip(
        *(axes.get_subplotspec().get_position(figure).bounds[:2] for axes in figure.axes[:4]), strict=True
    )
    assert list(left) == sorted(set(left))  # side by side
    assert len(set(bottom)) == 1


def test_a_result_is_a_data_set(result: Result) -> None:
    pytest.importorskip("xarray")
    found = result.to_xarray()
    np.testing.assert_array_equal(found.depth.values, result.depth)
    np.testing.assert_array_equal(found.sel(row=0, column=1).provenance, 0)
    assert found.attrs["method"] == "l1"


def test_a_camera_from_its_matrix() -> None:
    camera = Pinhole(576.0, 570.0, 320.0, 240.0, 640, 480)
    assert Pinhole.from_matrix(camera.matrix, 640, 480) == camera
    assert Pinhole.from_matrix(camera.matrix.tolist(), 640, 480) == camera
    with pytest.raises(ShapeError, match="3x3"):
        Pinhole.from_matrix(np.eye(4), 640, 480)
    with pytest.raises(CameraError, match="skew"):
        Pinhole.from_matrix([[576, 0.1, 320], [0, 576, 240], [0, 0, 1]], 640, 480)
