"""Which observations a trial leaves out: in every block of the image a fifth of the views, each in its turn.

Errors of one map are alike nearby, so whole blocks are left out and not single pixels. Views take their turns in an
order of their own contents, not of the list they came in, and the blocks mirror one another: neither the order of the
views nor a mirrored image changes what is held out. Views that share their errors (the same map given twice)
are left out together, or one would give the other away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import on_host, pieces
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend

SHARE = 0.2  # of the views; of the pixels where there are fewer than three views
LARGEST_BLOCK, SMALLEST_BLOCK = 32, 4  # pixels
SHARED = 0.05  # of the usual difference between two maps: closer ones have their errors in common
SAMPLE = 5_000  # pixels that tell


def leave_out(stack: Stack, backend: Backend) -> tuple[Stack, Stack]:
    """The stack without what is held out, and what is held out alone."""
    held = _turns(stack, backend)
    kept, out = np.where(held, np.float32(np.nan), stack.depths), np.where(held, stack.depths, np.float32(np.nan))
    nothing_kept, nothing_out = np.stack([np.isnan(kept).all(), np.isnan(out).all()]).tolist()
    if nothing_kept:
        return stack, stack
    return stack.part(kept), stack if nothing_out else stack.part(out)


def _turns(stack: Stack, backend: Backend) -> NDArray[np.bool_]:
    """(K, H, W) what is held out."""
    groups = _groups(stack, backend)
    many = len(groups)

    def there(array: NDArray[Any]) -> Any:
        return array if stack.on_host else backend.to_device(array, array.dtype)

    if many < 3:
        drawn = there(np.random.default_rng(0).random(stack.shape) < SHARE)
        return np.broadcast_to(drawn, stack.depths.shape)
    block = int(np.clip(min(stack.shape) // 8, SMALLEST_BLOCK, LARGEST_BLOCK))
    row, column = (there(np.abs(np.arange(size) - (size - 1) / 2).astype(int) // block) for size in stack.shape)
    turn = (row[:, None] + column[None, :]) % many
    at_once = max(1, round(SHARE * many))
    held_at = np.zeros((stack.views, many), np.bool_)
    for place, group in enumerate(groups):
        for k in group:
            for each in range(at_once):
                held_at[k, (place + each * many // at_once) % many] = True
    held: NDArray[np.bool_] = there(held_at)[:, turn]
    return held


def _groups(stack: Stack, backend: Backend) -> list[list[int]]:
    """Views that share their errors, in an order that does not depend on how the views are listed."""
    contents = [each for depths in pieces(stack.depths) for each in _contents(depths)]
    alike = _alike(stack.depths, backend)
    groups: list[list[int]] = []
    for k in sorted(range(stack.views), key=contents.__getitem__):
        friends = next((group for group in groups if alike[k, group[0]]), None)
        if friends is None:
            groups.append([k])
        else:
            friends.append(k)
    return groups


def _contents(depths: NDArray[np.float32]) -> list[list[float]]:
    """Per map, how much is known and its sum."""
    amounts, sums = np.isfinite(depths).sum(axis=(1, 2)), np.nansum(depths, axis=(1, 2), dtype=np.float64)
    out: list[list[float]] = np.stack([amounts.astype(np.float64), sums], axis=1).tolist()
    return out


def _alike(depths: NDArray[np.float32], backend: Backend) -> NDArray[np.bool_]:
    """(K, K) which maps differ far less from one another than maps do, over a sample of the pixels."""
    views, size = len(depths), depths[0].size
    every = max(1, int(np.sqrt(size / SAMPLE)))
    sample = depths[:, ::every, ::every].reshape(views, -1).astype(np.float64)
    rows = []
    for some in pieces(sample):
        differences = np.abs(sample - some[:, None])
        known = np.isfinite(differences)
        count = known.sum(axis=-1)
        apart = np.where(known, differences, 0).sum(axis=-1) / np.maximum(count, 1)
        rows.append(np.where(count > 0, apart, np.inf))
    apart = np.concatenate(rows)
    apart = apart if on_host(apart) else backend.to_host(apart)
    others = apart[~np.eye(views, dtype=np.bool_)]
    others = others[np.isfinite(others)]
    return apart < SHARED * np.median(others) if others.size else np.zeros((views, views), np.bool_)
