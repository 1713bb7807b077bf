"""Where a frame's own map is found, how its page is served, what a viewer's controls do; how views are judged."""

import errno
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, View
from cfusion.errors import CFusionError, FileError
from cfusion.view import frames as frames_module
from cfusion.view import input_views, page_server, view_figures
from cfusion.view.content import Content
from cfusion.view.frames import FusedFrame
from cfusion.view.input_views import InputViews
from cfusion.view.page_server import PageServer
from cfusion.view.readings import residuals_of_view

CAMERA = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)


def pose(x: float) -> Pose:
    return Pose(np.eye(3), np.array([x, 0.0, 0.0]))


def frame(x: float, **more: Any) -> FusedFrame:
    return FusedFrame(f"at {x}", CAMERA, pose(x), lambda: None, **more)  # type: ignore[arg-type, return-value]


class TestMeasured:
    VIEWS = tuple(View(np.full((4, 5), 1.0 + x), CAMERA, pose(x)) for x in (0.0, 1.0, 2.0))

    def made(self, *frames: FusedFrame, views: Any = VIEWS) -> InputViews:
        made = InputViews.__new__(InputViews)
        made.frames, made.views, made.numbers, made.of = frames, views, {}, made._of  # type: ignore[assignment]
        return made

    def test_by_number_or_by_pose(self) -> None:
        found = self.made(frame(0.0, number=2), frame(1.0), frame(9.0), frame(0.0, number=3))
        assert found.of(0) is self.VIEWS[2]
        assert found.of(1) is self.VIEWS[1]
        assert found.of(2) is None
        assert found.of(3) is None
        assert found.known
        assert found.numbers == {1: 1, 2: None}  # looked for once
        assert not self.made(frame(9.0)).known
        assert self.made(frame(0.0, number=0), views=None).of(0) is None

    def test_by_pose_in_a_map_projection(self) -> None:
        views = tuple(View(np.full((4, 5), 1.0), CAMERA, pose(x)) for x in (5e5, 5e5 + 1, 5e5 + 2))
        assert self.made(frame(5e5 + 2), views=views).of(0) is views[2]

    def test_a_map_of_another_size_or_that_cannot_be_read_is_none(self) -> None:
        small = View(np.ones((2, 3)), Pinhole(10.0, 10.0, 1.0, 1.0, 3, 2), pose(0.0))
        assert self.made(frame(0.0, number=0), views=[small]).of(0) is None

        class Broken:
            def __len__(self) -> int:
                return 1

            def __getitem__(self, number: int) -> View:
                raise FileError("cut short")

        assert self.made(frame(0.0, number=0), views=Broken()).of(0) is None

    def test_the_data_as_given_or_remembered(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cfusion.datasets.read", lambda place: ("read", Path(place)))
        monkeypatch.setattr(input_views, "scene_of", lambda place: (("scene", place), "auto"))
        assert input_views._opened(frame(0.0), tmp_path) == ("read", tmp_path)
        assert input_views._opened(frame(0.0, scene=tmp_path), None) == ("scene", tmp_path)
        assert input_views._opened(frame(0.0, input=str(tmp_path)), None) == ("read", tmp_path)
        assert input_views._opened(frame(0.0, input=str(tmp_path / "gone")), None) is None
        assert input_views._opened(frame(0.0), None) is None

        def fails(place: Path) -> Any:
            raise FileError("no mark")

        monkeypatch.setattr(input_views, "scene_of", fails)
        assert input_views._opened(frame(0.0, scene=tmp_path), None) is None


class TestPages:
    @pytest.fixture
    def server(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        made: list[Any] = []

        def write(scene: Path, number: int, target: Path) -> Path:
            made.append((scene, number))
            target.write_text(f"page {number}")
            return target

        monkeypatch.setattr(page_server, "write_view_page", write)
        (tmp_path / "own.html").write_text("own page")
        given = [frame(0.0, page=tmp_path / "own.html"), frame(1.0, scene=tmp_path, number=7), frame(2.0)]
        server = PageServer([*given, frame(3.0, page=tmp_path / "gone.html")], "127.0.0.1", 28300)
        server.made_by = made  # type: ignore[attr-defined]
        yield server
        server.stop()

    @staticmethod
    def asked(server: PageServer, place: str) -> tuple[int, str, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/{place}", timeout=20) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    def test_what_is_there_is_sent_and_what_can_be_made_is_made_once(self, server: Any, tmp_path: Path) -> None:
        html = "text/html; charset=utf-8"
        assert self.asked(server, "0") == (200, html, "own page")
        assert self.asked(server, "1") == self.asked(server, "1/") == (200, html, "page 7")
        assert server.made_by == [(tmp_path, 7)]

    def test_what_is_not_there_is_said(self, server: Any) -> None:
        code, kind, words = self.asked(server, "2")
        assert (code, kind, words) == (
            *(500, "text/plain; charset=utf-8"),
            "at 2.0 has no page; it was written with --no-report\n",
        )
        assert self.asked(server, "3")[0] == 500
        for nothing in ("4", "-1", "x", ""):
            assert self.asked(server, nothing)[0] == 404
        with pytest.raises(CFusionError, match="no page"):
            server.page(2)

    def test_the_next_port_that_is_free(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            server = PageServer([frame(0.0)], "127.0.0.1", port)
            assert port < server.port < port + page_server.TRIES
            server.stop()

    def test_any_port_where_none_is_free(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tried: list[int] = []

        def bind(place: tuple[str, int], handler: Any) -> Any:
            tried.append(place[1])
            if place[1] != 0:
                raise OSError(errno.EADDRINUSE, "in use")
            return "bound"

        monkeypatch.setattr(page_server, "ThreadingHTTPServer", bind)
        assert page_server._bound("127.0.0.1", 100, None) == "bound"  # type: ignore[arg-type]
        assert tried == [*range(100, 100 + page_server.TRIES), 0]


class Control:
    """Stands in for one of viser's: remembers whom to tell."""

    def __init__(self, value: Any = None, **more: Any) -> None:
        self.value, self.more, self.told = value, more, []

    def on_update(self, whom: Any) -> Any:
        self.told.append(whom)
        return whom

    def change(self, value: Any) -> None:
        self.value = value
        for each in self.told:
            each(None)


class TestControls:
    def made(self, count: int) -> Any:
        from cfusion.view.viewer import Viewer

        gui = SimpleNamespace(
            add_dropdown=lambda name, options: Control(options[0], name=name, options=options),
            add_slider=lambda name, low, high, step, value, disabled: Control(
                value, name=name, low=low, step=step, high=high, disabled=disabled
            ),
            add_checkbox=lambda name, value: Control(value, name=name),
            add_markdown=lambda words: SimpleNamespace(content=words),
        )
        viewer = Viewer.__new__(Viewer)
        viewer.server, viewer.frames = SimpleNamespace(gui=gui), [frame(float(k)) for k in range(count)]
        viewer.measured = SimpleNamespace(known=count > 1)
        viewer.cameras = [SimpleNamespace(visible=True), None]
        viewer.selected, viewer.drawn_again = [], []  # type: ignore[attr-defined]
        viewer.select = viewer.selected.append  # type: ignore[attr-defined, method-assign]
        viewer.draw = lambda: viewer.drawn_again.append(1)  # type: ignore[attr-defined, method-assign]
        viewer._controls(("depth", "sigma"))
        return viewer

    def test_of_many_frames(self) -> None:
        viewer = self.made(3)
        controls = (viewer.which, viewer.time, viewer.colour, viewer.side, viewer.show_cameras)
        assert [each.more["name"] for each in controls] == ["show", "frame", "colour by", "surface", "cameras"]
        assert viewer.colour.more["options"] == ("depth", "sigma")
        assert viewer.show_cameras.value is True
        assert (viewer.time.value, viewer.time.more["low"], viewer.time.more["step"]) == (0, 0, 1)
        assert (viewer.time.more["high"], viewer.time.more["disabled"]) == (2, False)
        assert viewer.side.more["options"] == ("after", "before")
        first, one = viewer.which.more["options"]
        assert viewer.which.value == first
        viewer.time.change(2.0)
        assert viewer.which.value == one
        assert viewer.selected == [2]
        viewer.colour.change("sigma")
        viewer.side.change("before")
        viewer.which.change(first)
        assert len(viewer.drawn_again) == 3
        viewer.show_cameras.change(False)
        assert not viewer.cameras[0].visible

    def test_of_one_frame(self) -> None:
        viewer = self.made(1)
        assert len(viewer.which.more["options"]) == 1
        assert (viewer.time.more["high"], viewer.time.more["disabled"]) == (1, True)
        assert viewer.side.more["options"] == ("after",)

    def test_maps_without_perspective_have_no_frustum(self) -> None:
        from cfusion.view.viewer import Viewer

        viewer = Viewer.__new__(Viewer)
        flat = FusedFrame("a", Orthographic(1.0, 2, 2, 5, 4), pose(0.0), lambda: None)  # type: ignore[arg-type, return-value]
        viewer.frames = [flat]
        assert viewer._camera(0) is None


def test_residuals_need_a_camera_and_a_place() -> None:
    depth = np.ones((4, 5), np.float32)
    given = {"title": "a", "views": [View(depth, CAMERA, pose(0.0))] * 2}

    def known(**result: Any) -> bool:
        content = Content(results=[SimpleNamespace(depth=depth, method="x", **result)], **given)  # type: ignore[arg-type]
        return content.residuals() is not None

    assert not known(pose=pose(0.0))
    assert not known(camera=CAMERA)
    assert known(camera=CAMERA, pose=pose(0.0))
    one = Content(results=[SimpleNamespace(depth=depth, camera=CAMERA)], reference=1, **given)  # type: ignore[arg-type]
    found = one.residuals()
    assert found is not None
    np.testing.assert_allclose(found(0), 0, atol=1e-6)


class TestJudged:
    ROWS = tuple(view_figures.ViewFigures(f"v{k}", 1.0, 0.0, 0.9, 0.1, 0.0) for k in range(4))

    @pytest.mark.parametrize(
        ("odd", "words"),
        [
            ({"noise": 2.0}, ""),
            ({"noise": 2.01}, "2.0 times as noisy as the others"),
            ({"bias": 0.5}, ""),
            ({"bias": 0.51}, "measures 0.51 too far"),
            ({"bias": -0.51}, "measures 0.51 too near"),
            ({"kept": 0.45}, ""),
            ({"kept": 0.44}, "only 44 % of it agrees with the surface: another place, or a wrong pose"),
            ({"shift": 0.75}, ""),
            ({"shift": 0.76}, "looks shifted by 0.8 pixels: check its pose"),
            ({"noise": float("nan")}, "sees next to nothing of this surface"),
            (
                {"noise": 3.0, "shift": 2.0},
                "3.0 times as noisy as the others; looks shifted by 2.0 pixels: check its pose",
            ),
        ],
        ids=str,
    )
    def test_by_its_limits(self, odd: dict[str, float], words: str) -> None:
        from dataclasses import replace

        rows = [*self.ROWS, replace(self.ROWS[0], name="odd", **odd)]
        found = view_figures.judged(rows)
        assert [row.verdict for row in found] == ["", "", "", "", words]
        assert view_figures.judged(rows[3:])[0].verdict == ""  # two cannot tell


def test_one_page_is_made_at_a_time_and_nothing_waits_for_the_next() -> None:
    before = set(threading.enumerate())
    server = PageServer([frame(0.0)], "127.0.0.1", 28500)
    assert all(thread.daemon for thread in set(threading.enumerate()) - before)  # the command ends without it
    assert isinstance(server.lock, type(threading.Lock()))
    server.stop()
    assert not Path(server.folder.name).exists()
    assert frames_module.KEPT == input_views.KEPT


@pytest.mark.parametrize("turn", [0.3, 0.7, -0.5])
def test_residuals_are_in_depth_of_the_surface_also_in_a_turned_view(turn: float) -> None:
    """The view measured the surface a little further along the reference's ray: by so much, whatever its own depth."""
    rotation = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    camera, wide = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4), Pinhole(10.0, 10.0, 20.0, 15.5, 41, 32)
    view_pose = Pose(rotation, np.array([-2.0 * np.sin(turn), 0.05, 0.2]))
    surface = np.full((4, 5), np.nan, np.float32)
    surface[1, 3] = 2.0
    ray = np.array([(3 - camera.cx) / camera.fx, (1 - camera.cy) / camera.fy, 1.0])
    u, v, _ = wide.project(view_pose.inverse().apply((2.0 * ray)[None]))
    further = wide.project(view_pose.inverse().apply((2.25 * ray)[None]))[2]
    depth = np.full(wide.shape, np.nan, np.float32)
    depth[round(float(v[0])), round(float(u[0]))] = further[0]
    found = residuals_of_view(View(depth, wide, view_pose), surface, camera, Pose.identity())
    assert found[1, 3] == pytest.approx(0.25, rel=1e-4)
    assert np.isnan(found).sum() == 19
