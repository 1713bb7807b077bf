"""The input of each frame: its own map and image from the data set that it was fused from, read when used."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cfusion.errors import CFusionError
from cfusion.geometry import View
from cfusion.view.frames import FusedFrame
from cfusion.view.scene_page import scene_of

KEPT = 32  # views cached


class InputViews:
    """The input views by frame; None if the data or the view cannot be found."""

    def __init__(self, frames: Sequence[FusedFrame], data: Path | None = None) -> None:
        self.frames = frames
        self.views = _opened(frames[0], data)
        self.numbers: dict[int, int | None] = {}
        self.of = lru_cache(KEPT)(self._of)

    @property
    def known(self) -> bool:
        """Whether the first frame's own map is available."""
        return self.of(0) is not None

    def _of(self, frame: int) -> View | None:
        if self.views is None:
            return None
        try:
            number = self._number(frame)
            view: View | None = None if number is None else self.views[number]
        except CFusionError:
            return None
        return view if view is not None and view.shape == self.frames[frame].camera.shape else None

    def _number(self, frame: int) -> int | None:
        """The index of the frame's view in the data: as recorded, or the view with the same pose."""
        wanted = self.frames[frame]
        if wanted.number is not None:
            return wanted.number if wanted.number < len(self.views) else None
        if frame not in self.numbers:
            pose = wanted.pose.matrix()
            poses = ((k, self.views[k].pose.matrix()) for k in range(len(self.views)))
            same = (k for k, other in poses if np.allclose(other, pose, rtol=1e-12, atol=1e-9))
            self.numbers[frame] = next(same, None)
        return self.numbers[frame]


def _opened(frame: FusedFrame, data: Path | None) -> Any:
    """The data as given, or as recorded in the frame; None if they are missing."""
    from cfusion.datasets import read

    if data is not None:
        return read(data)
    try:
        if frame.scene is not None:
            return scene_of(frame.scene)[0]
        return read(frame.input) if frame.input and Path(frame.input).exists() else None
    except CFusionError:
        return None
