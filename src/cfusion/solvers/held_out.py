"""Which observations a trial leaves out: in every block of the image a fifth of the views, each in its turn.

Errors of one map are alike nearby, so whole blocks are left out and not single pixels. Views take their turns in an
order of their own contents, not of the list they came in, and the blocks mirror one another: neither the order of the
views nor a mirrored image changes what is held out. Views that share their errors (the same map given twice)
are left out together, or one would give the other away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfusion.geometry import Stack

SHARE = 0.2  # of the views; of the pixels where there are fewer than three views
LARGEST_BLOCK, SMALLEST_BLOCK = 32, 4  # pixels
SHARED = 0.05  # of the usual difference between two maps: closer ones have their errors in common
SAMPLE = 5_000  # pixels that tell


def leave_out(stack: Stack) -> tuple[Stack, Stack]:
    """The stack without what is held out, and what is held out alone."""
    held = _turns(stack)
    kept, out = np.where(held, np.float32(np.nan), stack.depths), np.where(held, stack.depths, np.float32(np.nan))
    if np.isnan(kept).all():
        return stack, stack
    rest = stack if np.isnan(out).all() else Stack(out, stack.weights, stack.camera, stack.image)
    return Stack(kept, stack.weights, stack.camera, stack.image), rest


def _turns(stack: Stack) -> NDArray[np.bool_]:
    """(K, H, W) what is held out."""
    groups = _groups(stack)
    many = len(groups)
    if many < 3:
        return np.broadcast_to(np.random.default_rng(0).random(stack.shape) < SHARE, stack.depths.shape)
    block = int(np.clip(min(stack.shape) // 8, SMALLEST_BLOCK, LARGEST_BLOCK))
    row, column = (np.abs(np.arange(size) - (size - 1) / 2).astype(int) // block for size in stack.shape)
    turn = (row[:, None] + column[None, :]) % many
    at_once = max(1, round(SHARE * many))
    held = np.zeros(stack.depths.shape, np.bool_)
    for place, group in enumerate(groups):
        for k in group:
            for each in range(at_once):
                held[k] |= turn == (place + each * many // at_once) % many
    return held


def _groups(stack: Stack) -> list[list[int]]:
    """Views that share their errors, in an order that does not depend on how the views are listed."""
    contents = [(int(np.isfinite(depth).sum()), float(np.nansum(depth, dtype=np.float64))) for depth in stack.depths]
    alike = _alike(stack.depths)
    groups: list[list[int]] = []
    for k in sorted(range(stack.views), key=contents.__getitem__):
        friends = next((group for group in groups if alike[k, group[0]]), None)
        if friends is None:
            groups.append([k])
        else:
            friends.append(k)
    return groups


def _alike(depths: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(K, K) which maps differ far less from one another than maps do, over a sample of the pixels."""
    views, size = len(depths), depths[0].size
    every = max(1, int(np.sqrt(size / SAMPLE)))
    sample = depths[:, ::every, ::every].reshape(views, -1).astype(np.float64)
    apart = np.full((views, views), np.inf)
    for k in range(views):
        differences = np.abs(sample - sample[k])
        known = np.isfinite(differences)
        count = known.sum(axis=1)
        apart[k] = np.where(count > 0, np.where(known, differences, 0).sum(axis=1) / np.maximum(count, 1), np.inf)
    others = apart[~np.eye(views, dtype=np.bool_)]
    others = others[np.isfinite(others)]
    return apart < SHARED * np.median(others) if others.size else np.zeros((views, views), np.bool_)
