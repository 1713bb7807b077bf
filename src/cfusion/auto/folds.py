"""The observations that cross-validation holds out: in every block of the image a fifth of the views, in turn.

Errors of one map are correlated nearby, so whole blocks are held out, not single pixels. Folds are assigned by content,
not by list order, and blocks mirror each other: neither the order of the views nor a mirrored image changes what is
held out. Views that share their errors (such as duplicates) share a fold: otherwise one would leak the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import stride_for
from cfusion.auto.noise import share_errors, view_distances
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.numpy.trials import parted

SHARE = 0.2  # of the views; of the pixels if there are fewer than three views (views that share errors count as one)
LARGEST_BLOCK, SMALLEST_BLOCK = 32, 4  # pixels
REACH = 2  # pixels: bridges single pixels that are left out
SAMPLE = 5_000  # pixels from which distances of views are estimated

Maps = tuple[Floats, Floats | None]  # depths and weights


def leave_out(stack: Stack, backend: Backend) -> tuple[Stack, Stack, int]:
    """The stack without the held-out observations, the held-out ones alone, and how far a fit has to reach for these.

    In pixels: zero if every pixel keeps observations of other views.
    """
    groups, _ = in_groups(stack, backend)
    many = len(groups)
    if many < 3:
        return *_by_pixels(stack, backend), REACH
    block = int(np.clip(min(stack.shape) // 8, SMALLEST_BLOCK, LARGEST_BLOCK))
    at_once = max(1, round(SHARE * many))
    turns = np.zeros((stack.views, many), np.bool_)
    for place, group in enumerate(groups):
        for k in group:
            for each in range(at_once):
                turns[k, (place + each * many // at_once) % many] = True
    return *_parts(stack, *backend.split_folds(stack.depths, stack.weights, turns, block)), 0


def _by_pixels(stack: Stack, backend: Backend) -> tuple[Stack, Stack]:
    """With few views, hold out random pixels."""
    drawn = np.random.default_rng(0).random(stack.shape) < SHARE
    held = drawn if stack.on_host else backend.to_device(drawn, np.bool_)
    return _parts(stack, *parted(stack.depths, stack.weights, held))


def _parts(stack: Stack, kept: Maps, out: Maps, known: tuple[int, int]) -> tuple[Stack, Stack]:
    """Both parts as stacks; a part without any depth is replaced by the whole stack."""
    if known[0] == 0:
        return stack, stack
    return stack.with_depths(*kept), stack.with_depths(*out) if known[1] else stack


def most_alike(groups: list[list[int]], distances: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Half of the views (K,), groups together, such that views within a half differ little.

    Split along the first principal coordinate of the distances (K, K) between views, which is time if poses drift.
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
    """Groups of views that share their errors, in an order independent of the list; and the distances (K, K)."""
    every = stride_for(stack.depths[0].size, SAMPLE)
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
