"""A viewer in the browser (viser): cameras, fused clouds, time, colours, before and after."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import MissingDependency
from cfusion.geometry import Orthographic, Pinhole
from cfusion.view.clouds import COLOURS, points_and_colours, stride_for
from cfusion.view.frames import FusedFrame

ALL = "all frames"
FRUSTUM = 0.12  # of the median depth: the length of a camera's picture


class Viewer:
    """A running server; its scene follows the controls."""

    def __init__(self, frames: Sequence[FusedFrame], before: dict[str, NDArray[Any]], host: str, port: int) -> None:
        viser = _viser()
        self.frames, self.before = frames, before
        self.server = viser.ViserServer(host=host, port=port, label="cfusion", verbose=False)
        self.server.scene.set_up_direction("-y")
        first = frames[0].maps()
        self.size = float(np.nanmedian(first.depth))
        self.stride = stride_for(len(frames), first.depth.size)
        self._controls()
        self._cameras()
        self.draw()

    @property
    def address(self) -> str:
        """Where the browser finds it; over ssh, forward that port."""
        return f"http://localhost:{self.server.get_port()}"

    def draw(self) -> None:
        """Clouds of what the controls ask for: all frames thinned, or one in full."""
        alone = self.which.value == "one frame"
        for number, frame in enumerate(self.frames):
            name = f"/clouds/{number}"
            if alone and number != self.time.value:
                self.server.scene.remove_by_name(name)
                continue
            depth = self.before.get(frame.name) if self.side.value == "before" else None
            stride = 1 if alone else self.stride
            points, colours = points_and_colours(frame, frame.maps(), self.colour.value, stride, depth)
            camera = frame.camera
            point = 1.2 * stride * (self.size / camera.fx if isinstance(camera, Pinhole) else camera.pixel_size)
            self.server.scene.add_point_cloud(name, points, colours, point_size=point)

    def _controls(self) -> None:
        gui = self.server.gui
        last = max(1, len(self.frames) - 1)
        self.which = gui.add_dropdown("show", (ALL, "one frame"))
        self.time = gui.add_slider("frame", 0, last, 1, 0, disabled=len(self.frames) == 1)
        self.colour = gui.add_dropdown("colour by", COLOURS)
        self.side = gui.add_dropdown("surface", ("after", "before") if self.before else ("after",))
        self.words = gui.add_markdown("Click a camera to see which one it is.")
        for control in (self.which, self.colour, self.side):
            control.on_update(lambda _: self.draw())

        @self.time.on_update  # type: ignore[untyped-decorator]
        def _(_: Any) -> None:
            self.which.value = "one frame"
            self.draw()

    def _cameras(self) -> None:
        for number, frame in enumerate(self.frames):
            camera = frame.camera
            if isinstance(camera, Orthographic):
                continue
            turn = _viser().transforms.SO3.from_matrix(np.asarray(frame.pose.matrix()[:3, :3]))
            handle = self.server.scene.add_camera_frustum(
                f"/cameras/{number}",
                fov=2 * float(np.arctan(0.5 * camera.height / camera.fy)),
                aspect=camera.width / camera.height,
                scale=FRUSTUM * self.size,
                wxyz=turn.wxyz,
                position=frame.pose.matrix()[:3, 3],
            )
            handle.on_click(lambda _, number=number: self.select(number))

    def select(self, number: int) -> None:
        """Show one frame in full, and where its page is."""
        frame = self.frames[number]
        page = f"its page: `{frame.page}`" if frame.page else "it has no page"
        self.words.content = f"**{frame.name}** ({number + 1} of {len(self.frames)}); {page}"
        self.time.value = number

    def stop(self) -> None:
        """End the server."""
        self.server.stop()


def _viser() -> Any:
    try:
        return importlib.import_module("viser")
    except ImportError:
        raise MissingDependency("the viewer needs viser: pip install 'cfusion[view]'") from None
