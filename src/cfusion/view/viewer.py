"""A viewer in the browser (viser): cameras, fused clouds, time, colours, before and after, the page of a camera."""

import inspect
import io
import threading
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from cfusion.errors import optional_module
from cfusion.geometry import Orthographic, Pinhole
from cfusion.view.clouds import Limits, colours_of, limits_of, points_and_colours
from cfusion.view.frames import FusedFrame, near_origin
from cfusion.view.input_views import InputViews
from cfusion.view.levels import strides
from cfusion.view.page_server import PageServer

ALL, ONE = "all frames", "one frame"
FRUSTUM, LINE = 0.07, 0.0015  # over the median depth: length of a camera's frustum, width of its lines
BEHIND, ABOVE, BESIDE = 0.45, 0.3, 0.35  # over the median depth: first position of the eye by the middle camera
MOVED = 0.1  # over the median depth: distance the eye must move before frames are redrawn
BASE, CHOSEN = (90, 100, 110), (214, 96, 77)  # colours of cameras


class Viewer:
    """A running server whose scene follows the controls: coarse first, then finer near the eye."""

    def __init__(self, frames: Sequence[FusedFrame], measured: InputViews, host: str, port: int) -> None:
        viser = _viser()
        self.frames, self.measured = near_origin(frames), measured
        first = frames[0].maps()
        self.size, self.pixels = float(np.nanmedian(first.depth)), first.depth.size
        with redirect_stdout(io.StringIO()):  # the command prints the address
            self.server = viser.ViserServer(host=host, port=port, label="cfusion", verbose=False)
        self.pages = PageServer(frames, host, self.server.get_port() + 1)
        self.limits: dict[str, Limits | None] = {}
        self.drawn: dict[int, tuple[object, ...]] = {}  # state drawn of each frame
        self.eye = self._look()
        own = measured.of(0)
        self._controls(colours_of(first, image=own is not None and own.image is not None))
        self.cameras = [self._camera(number) for number in range(len(frames))]
        self.wanted, self.ended = threading.Event(), False
        self.server.on_client_connect(self._follow)
        self.drawing = threading.Thread(target=self._keep_drawing, daemon=True)
        self.drawing.start()
        self.draw()

    @property
    def address(self) -> str:
        """The address for the browser; over ssh, forward its port."""
        return f"http://localhost:{self.server.get_port()}"

    def draw(self) -> None:
        """Request a redraw by the controls, without waiting for it."""
        self.wanted.set()

    def select(self, number: int) -> None:
        """Show one frame in full, and a link to its page."""
        frame = self.frames[number]
        has_page = frame.page is not None or frame.scene is not None
        page = f"[open its page](http://localhost:{self.pages.port}/{number})" if has_page else "it has no page"
        self.words.content = f"**{frame.name}** ({number + 1} of {len(self.frames)}): {page}"
        for place, handle in enumerate(self.cameras):
            if handle is not None:
                handle.color = CHOSEN if place == number else BASE
        if self.time.value != number:
            self.time.value = number
        self.draw()

    def stop(self) -> None:
        """Stop the servers."""
        self.ended = True
        self.wanted.set()
        self.drawing.join(timeout=5)
        self.pages.stop()
        self.server.stop()

    def _look(self) -> Any:
        """Set and return the initial position of the eye: behind the middle camera, along its axis."""
        pose = self.frames[len(self.frames) // 2].pose.matrix()
        right_down_ahead, centre = pose[:3, :3], pose[:3, 3]
        up, ahead = -right_down_ahead[:, 1], right_down_ahead[:, 2]
        self.server.scene.set_up_direction(tuple(up))
        beside = BESIDE * right_down_ahead[:, 0]
        eye = centre + self.size * (ABOVE * up - BEHIND * ahead + beside)
        view = getattr(self.server, "initial_camera", None)  # viser 1.0 and later
        if view is not None:
            view.position, view.look_at, view.up = tuple(eye), tuple(centre + 0.8 * self.size * ahead), tuple(up)
        return eye

    def _controls(self, colours: tuple[str, ...]) -> None:
        gui, many = self.server.gui, len(self.frames) > 1
        self.which = gui.add_dropdown("show", (ALL, ONE) if many else (ONE,))
        self.time = gui.add_slider("frame", 0, max(1, len(self.frames) - 1), 1, 0, disabled=not many)
        self.colour = gui.add_dropdown("colour by", colours)
        self.side = gui.add_dropdown("surface", ("after", "before") if self.measured.known else ("after",))
        self.show_cameras = gui.add_checkbox("cameras", True)
        self.words = gui.add_markdown("Click a camera to see its frame alone, and its page.")
        for control in (self.which, self.colour, self.side):
            control.on_update(lambda _: self.draw())

        @self.time.on_update  # type: ignore[untyped-decorator]
        def _(_: Any) -> None:
            if many:
                self.which.value = ONE
            self.select(int(self.time.value))

        @self.show_cameras.on_update  # type: ignore[untyped-decorator]
        def _(_: Any) -> None:
            for handle in self.cameras:
                if handle is not None:
                    handle.visible = self.show_cameras.value

    def _camera(self, number: int) -> Any:
        """A clickable frustum; None for a camera without one."""
        frame = self.frames[number]
        camera = frame.camera
        if isinstance(camera, Orthographic):
            return None
        turn = _viser().transforms.SO3.from_matrix(np.asarray(frame.pose.matrix()[:3, :3]))
        handle = self.server.scene.add_camera_frustum(
            f"/cameras/{number}",
            fov=2 * float(np.arctan(0.5 * camera.height / camera.fy)),
            aspect=camera.width / camera.height,
            scale=FRUSTUM * self.size,
            color=BASE,
            wxyz=turn.wxyz,
            position=frame.pose.matrix()[:3, 3],
            **_known(self.server.scene.add_camera_frustum, thickness=LINE * self.size, variant="filled"),
        )
        handle.on_click(lambda _, number=number: self.select(number))
        return handle

    def _follow(self, client: Any) -> None:
        """Draw finely near the eye of this browser."""

        @client.camera.on_update  # type: ignore[untyped-decorator]
        def _(camera: Any) -> None:
            eye = np.asarray(camera.position)
            if np.linalg.norm(eye - self.eye) > MOVED * self.size:
                self.eye = eye
                self.draw()

    def _keep_drawing(self) -> None:
        while not self.ended:
            self.wanted.wait()
            self.wanted.clear()
            if not self.ended:
                self._draw()

    def _draw(self) -> None:
        """Draw frame by frame, nearest first; stop if the request changes meanwhile."""
        centres = np.array([frame.pose.matrix()[:3, 3] for frame in self.frames])
        distances = np.linalg.norm(centres - self.eye, axis=1)
        alone = self.which.value == ONE
        fine = [1] * len(self.frames) if alone else strides(distances.tolist(), self.pixels)
        shown = [int(self.time.value)] if alone else [int(each) for each in np.argsort(distances, kind="stable")]
        for number in set(self.drawn) - set(shown):
            self.server.scene.remove_by_name(f"/clouds/{number}")
            del self.drawn[number]
        coarse = max(fine)
        for level in (coarse, 0) if coarse > min(fine) and not self.drawn else (0,):
            for number in shown:
                if self.wanted.is_set():
                    return
                self._draw_frame(number, level or fine[number])

    def _draw_frame(self, number: int, stride: int) -> None:
        colour, before = self.colour.value, self.side.value == "before"
        state = (colour, before, stride)
        if self.drawn.get(number) == state:
            return
        if colour not in self.limits and colour != "image":
            self.limits[colour] = limits_of(self.frames, colour)
        frame = self.frames[number]
        view = self.measured.of(number) if before or colour == "image" else None
        points, colours = points_and_colours(
            frame,
            frame.maps(),
            colour,
            stride,
            view.depth if before and view is not None else None,
            limits=self.limits.get(colour),
            image=None if view is None else view.image,
        )
        camera = frame.camera
        point = 1.2 * stride * (self.size / camera.fx if isinstance(camera, Pinhole) else camera.pixel_size)
        add = self.server.scene.add_point_cloud
        add(f"/clouds/{number}", points, colours, point_size=point, **_known(add, point_shading="flat"))
        self.drawn[number] = state


def _known(function: Any, **given: object) -> dict[str, Any]:
    """The arguments that the installed viser accepts."""
    return {name: value for name, value in given.items() if name in inspect.signature(function).parameters}


def _viser() -> Any:
    return optional_module("viser", missing="the viewer needs viser: pip install 'cfusion[view]'")
