"""Which observations a trial leaves out: in every block of the image a fifth of the views, each in its turn.

Errors of one map are alike nearby, so whole blocks are left out and not single pixels. Views take their turns in an
order of their own contents, not of the list they came in, and the blocks mirror one another: neither the order of the
views nor a mirrored image changes what is held out. Views that share their errors (the same map given twice)
are left out together, or one would give the other away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfusion.auto.noise import share_errors, view_distances
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.numpy.trials import parted

SHARE = 0.2  # of the views; of the pixels where there are fewer than three (views that share errors count as one)
LARGEST_BLOCK, SMALLEST_BLOCK = 32, 4  # pixels
SAMPLE = 5_000  # pixels that tell

Maps = tuple[Floats, Floats | None]  # depths and weights


def leave_out(stack: Stack, backend: Backend) -> tuple[Stack, Stack]:
    """The stack, in the backend's memory, without what is held out, and what is held out alone."""
    groups, _ = in_groups(stack, backend)
    many = len(groups)
    if many < 3:
        return _by_pixels(stack, backend)
    block = int(np.clip(min(stack.shape) // 8, SMALLEST_BLOCK, LARGEST_BLOCK))
    at_once = max(1, round(SHARE * many))
    turns = np.zeros((stack.views, many), np.bool_)
    for place, group in enumerate(groups):
        for k in group:
            for each in range(at_once):
                turns[k, (place + each * many // at_once) % many] = True
    return _parts(stack, *backend.split_folds(stack.depths, stack.weights, turns, block))


def _by_pixels(stack: Stack, backend: Backend) -> tuple[Stack, Stack]:
    """With so few views, pixels drawn at random."""
    drawn = np.random.default_rng(0).random(stack.shape) < SHARE
    held = drawn if stack.on_host else backend.to_device(drawn, np.bool_)
    return _parts(stack, *parted(stack.depths, stack.weights, held))


def _parts(stack: Stack, kept: Maps, out: Maps, known: tuple[int, int]) -> tuple[Stack, Stack]:
    """Both as stacks; the whole one for a part that would know nothing."""
    if known[0] == 0:
        return stack, stack
    return stack.with_depths(*kept), stack.with_depths(*out) if known[1] else stack


def most_alike(groups: list[list[int]], distances: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(K,) half of the views, groups together, such that views differ little within a half.

    Along the first principal coordinate of the distances (K, K) between views: that of time, where poses drift.
    """
    views = len(distances)
    apart = np.where(np.eye(views, dtype=np.bool_), 0, distances)
    told = np.isfinite(apart)
    apart = np.where(told, apart, np.median(apart[told]))
    centring = np.eye(views) - 1 / views
    _, axes = np.linalg.eigh(-centring @ np.square(apart) @ centring)
    place = axes[:, -1] * np.sign(axes[np.abs(axes[:, -1]).argmax(), -1])
    half = np.zeros(views, np.bool_)
    for group in sorted(groups, key=lambda group: float(place[group].mean())):
        if half.any() and 2 * (half.sum() + len(group)) > views:
            break
        half[group] = True
    return half


def in_groups(stack: Stack, backend: Backend) -> tuple[list[list[int]], NDArray[np.float64]]:
    """Views that share their errors, in an order that does not depend on how the views are listed; (K, K) distances."""
    every = max(1, int(np.sqrt(stack.depths[0].size / SAMPLE)))
    sample = stack.depths[:, ::every, ::every]
    distances = view_distances(sample, backend)
    alike = share_errors(distances)
    maps = backend.to_host(sample)
    known = np.isfinite(maps)
    sums = known.sum(axis=(1, 2)), np.where(known, maps, 0).sum(axis=(1, 2), dtype=np.float64)
    contents = list(zip(*(each.tolist() for each in sums), strict=True))
    groups: list[list[int]] = []
    for k in sorted(range(stack.views), key=contents.__getitem__):
        friends = next((group for group in groups if alike[k, group[0]]), None)
        if friends is None:
            groups.append([k])
        else:
            friends.append(k)
    return groups, distances
