"""A sequence of any length, fused window by window: every few frames, into one of them, with its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfusion import kernels, methods
from cfusion.errors import InputError
from cfusion.fuse import fuse
from cfusion.geometry import View
from cfusion.methods import Method
from cfusion.parameters import refine
from cfusion.result import Result
from cfusion.solvers import Progress

EVERY, WIDTH = 5, 11


@dataclass(frozen=True)
class Window:
    """Neighbouring frames, and the one of them to fuse into, by their numbers in the sequence."""

    reference: int
    frames: range

    @property
    def name(self) -> str:
        """How its results are called."""
        return f"{self.reference:06d}"


def windows(count: int, every: int = EVERY, width: int = WIDTH) -> tuple[Window, ...]:
    """One window for every `every`-th of `count` frames: the `width` frames around it, all inside the sequence."""
    if every < 1 or width < 1:
        raise InputError(f"every = {every}, window = {width}; both are at least 1 frame")
    size = min(width, count)
    found = []
    for reference in range(0, count, every):
        first = min(max(reference - width // 2, 0), count - size)
        found.append(Window(reference, range(first, first + size)))
    return tuple(found)


def fuse_windows(
    views: Sequence[View],
    chosen: Sequence[Window],
    method: str | Method = "auto",
    *,
    backend: str = "auto",
    progress: Callable[[int, Progress], None] | None = None,
    **parameters: Any,
) -> Iterator[tuple[Window, Result | None]]:
    """Fuse window after window; views are read when their turn comes. None where no frame holds a depth.

    `progress` hears the number of the window, and what `fuse` tells.
    """
    refined = refine(methods.get(method), parameters)  # a mistake in these is not one of the frames
    loaded = kernels.load(backend).NAME
    for number, window in enumerate(chosen):
        seen = tuple(views[frame] for frame in window.frames)
        if all(np.isnan(view.depth).all() for view in seen):
            yield window, None
            continue

        def heard(told: Progress, number: int = number) -> None:
            if progress is not None:
                progress(number, told)

        reference = window.frames.index(window.reference)
        try:
            result = fuse(seen, refined, reference=reference, backend=loaded, progress=heard)
        except InputError as error:
            raise type(error)(f"frames {window.frames[0]} to {window.frames[-1]}: {error}") from None
        yield window, result
