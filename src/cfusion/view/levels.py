"""Level of detail: every frame coarsely, those near the eye finely, all together no more points than there is room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_POINTS = 1_500_000  # of all frames together
COARSE = 0.4  # of them, for the first, coarse look at all frames
COARSEST = 64  # pixels from point to point


def strides(distances: Sequence[float], pixels: int) -> list[int]:
    """Every how many pixels each frame is drawn, by its distance from the eye; near ones first.

    All are coarse at first: together they take a part of the room. What is left goes to the nearest, in halves.
    """
    count = len(distances)
    coarse = min(COARSEST, _power(np.sqrt(count * pixels / (COARSE * MOST_POINTS))))
    found = [coarse] * count
    room = MOST_POINTS - count * pixels / coarse**2
    finer = coarse
    while finer > 1:
        finer //= 2
        for number in np.argsort(np.asarray(distances), kind="stable"):
            extra = pixels / finer**2 - pixels / found[number] ** 2
            if extra > room:
                return found
            found[number], room = finer, room - extra
    return found


def _power(stride: float) -> int:
    """The power of two that is at least that."""
    return int(2 ** max(0, int(np.ceil(np.log2(max(stride, 1.0))))))
