"""Level of detail: all frames coarsely, those near the eye finely, within a total number of points."""

from collections.abc import Sequence

import numpy as np

MOST_POINTS = 1_500_000  # of all frames together
COARSE = 0.4  # share of them for the first, coarse drawing of all frames
COARSEST = 64  # pixels between points


def strides(distances: Sequence[float], pixels: int) -> list[int]:
    """The stride in pixels of each frame by its distance from the eye, nearest first.

    All start coarse and use a part of the points; the rest goes to the nearest frames, by halving their strides.
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
    """The smallest power of two that is at least `stride`."""
    return int(2 ** max(0, int(np.ceil(np.log2(max(stride, 1.0))))))
