"""The viewer in a real browser: points are drawn, and a camera that is clicked offers its page."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import Pose, Result, View
from cfusion.datasets import write_result
from cfusion.view.frames import open_frames
from cfusion.view.input_views import InputViews

SECONDS = 40  # a busy machine draws in software


def place_on_screen(viewer: Any, number: int, width: int, height: int) -> tuple[float, float]:
    """Where a browser that looks at the scene sees a camera's frustum (columns, rows)."""
    from viser.transforms import SO3

    eye = next(iter(viewer.server.get_clients().values())).camera
    pose, length = viewer.frames[number].pose.matrix(), viewer.cameras[number].scale
    middle = pose[:3, 3] + 0.5 * length * pose[:3, 2]
    right, down, ahead = SO3(np.asarray(eye.wxyz)).as_matrix().T @ (middle - eye.position)
    focal = 0.5 * height / np.tan(0.5 * eye.fov)
    return width / 2 + focal * right / ahead, height / 2 + focal * down / ahead


def test_points_are_drawn_and_a_clicked_camera_offers_its_page(
    browser: Any, fused: tuple[list[View], Result], tmp_path: Path
) -> None:
    pytest.importorskip("viser")
    image = pytest.importorskip("PIL.Image")
    from cfusion.view.viewer import ONE, Viewer

    for number in range(3):
        moved = replace(fused[1], pose=Pose(np.eye(3), np.array([0.5 * number, 0.0, 0.0])))
        write_result(moved, tmp_path / f"{number:06d}", ("npy",))
        moved.report(tmp_path / f"{number:06d}" / "report.html", title=f"frame {number}")
    frames = open_frames(tmp_path)
    viewer = Viewer(frames, InputViews(frames), "127.0.0.1", 18400)
    page = browser.new_page(viewport={"width": 900, "height": 600})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        page.goto(viewer.address)
        for _ in range(SECONDS):
            page.wait_for_timeout(1000)
            seen = np.asarray(image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(int)[200:500, 100:560]
            drawn = float((np.ptp(seen, axis=-1) > 60).mean())  # the points are in colour, the ground is not
            if drawn > 0.1:
                break
        assert drawn > 0.1
        for _ in range(SECONDS):  # a busy machine may draw no picture between press and release
            column, row = place_on_screen(viewer, 1, 900, 600)
            page.mouse.move(column, row)
            page.wait_for_timeout(500)
            page.mouse.click(column, row)
            page.wait_for_timeout(500)
            if viewer.which.value == ONE:
                break
        link = page.get_by_text("open its page")
        link.wait_for(timeout=1000 * SECONDS)
        opened = browser.new_page()
        opened.goto(link.get_attribute("href"))
        opened.wait_for_selector("html[data-ready]", state="attached", timeout=1000 * SECONDS)
        assert opened.title() == "frame 1"
        opened.close()
        assert viewer.which.value == ONE
        assert viewer.time.value == 1
        assert complaints == []
    finally:
        page.close()
        viewer.stop()
