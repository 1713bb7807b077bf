"""A sample of the mosaic: windows where rasters overlap, side by side in one stack.

All parameters of a mosaic are chosen on it. The choice of windows depends on the grid and the rasters, not on tiles or
workers. Mosaics of up to WHOLE pixels are their own sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.rasters.align import Aligned
from cfusion.rasters.grids import Grid

WHOLE = 600 * 600  # pixels
SIDE = 256  # of a window, pixels
MOST = 6  # windows
CANDIDATES = 10  # along each side of the mosaic
ENOUGH = 0.5  # of the common pixels in the best window, for a window to be chosen

Window = tuple[slice, slice]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sample:
    """Heights (K, h, w) of every window, NaN where unknown."""

    windows: tuple[Window, ...]
    parts: tuple[Floats, ...]

    def stacked(self, parts: Sequence[Floats] | None = None) -> Floats:
        """(K, H, W): the windows side by side, separated by a column of unknown pixels."""
        given = self.parts if parts is None else tuple(parts)
        if len(given) == 1:
            return given[0]
        across = int(np.ceil(np.sqrt(len(given))))
        down = -(-len(given) // across)
        height = max(part.shape[1] for part in given) + 1
        width = max(part.shape[2] for part in given) + 1
        out = np.full((given[0].shape[0], down * height - 1, across * width - 1), np.nan, np.float32)
        for number, part in enumerate(given):
            row, column = (number // across) * height, (number % across) * width
            out[:, row : row + part.shape[1], column : column + part.shape[2]] = part
        return out


def take(rasters: Sequence[Aligned], target: Grid) -> Sample:
    """Read the sample of rasters on their grid."""
    windows = windows_of(rasters, target)
    return Sample(windows, parts_of(rasters, windows))


def parts_of(rasters: Sequence[Aligned], windows: Sequence[Window]) -> tuple[Floats, ...]:
    """Heights (K, h, w) of all rasters in every window."""
    return tuple(np.stack([each.read(*window) for each in rasters]) for window in windows)


def windows_of(rasters: Sequence[Aligned], target: Grid) -> tuple[Window, ...]:
    """Windows where most rasters overlap, spread over the mosaic; at least one for every pair that overlaps."""
    if target.width * target.height <= WHOLE:
        return ((slice(0, target.height), slice(0, target.width)),)
    candidates = _candidates(rasters, target)
    known = np.array([[_known(each, window) for each in rasters] for window in candidates])  # (n, K) known shares
    pairs = known[:, :, None] * known[:, None, :]
    score = (pairs.sum(axis=(1, 2)) - (known**2).sum(axis=1)) / 2
    if score.max() <= 0:
        score = known.sum(axis=1)
    good = np.flatnonzero(score >= ENOUGH * score.max())
    chosen = set(good[np.unique(np.linspace(0, len(good) - 1, MOST).round().astype(int))].tolist())
    for j in range(known.shape[1]):
        for k in range(j):
            best = int(np.argmax(pairs[:, j, k]))
            if pairs[best, j, k] > 0 and not any(pairs[each, j, k] > ENOUGH * pairs[best, j, k] for each in chosen):
                chosen.add(best)
    return tuple(candidates[each] for each in sorted(chosen))


def _candidates(rasters: Sequence[Aligned], target: Grid) -> list[Window]:
    """A lattice of windows over the mosaic, and windows at the centres of all pairwise overlaps."""

    def window(row: float, column: float) -> Window:
        top = int(np.clip(row - SIDE / 2, 0, max(target.height - SIDE, 0)))
        left = int(np.clip(column - SIDE / 2, 0, max(target.width - SIDE, 0)))
        return slice(top, min(top + SIDE, target.height)), slice(left, min(left + SIDE, target.width))

    share = (np.arange(CANDIDATES) + 0.5) / CANDIDATES
    places = [window(row * target.height, column * target.width) for row in share for column in share]
    boxes = [each.footprint() for each in rasters]
    for j, one in enumerate(boxes):
        for other in boxes[:j]:
            left, top = max(one[0], other[0]), max(one[1], other[1])
            right, bottom = min(one[2], other[2]), min(one[3], other[3])
            if left < right and top < bottom:
                places += [
                    window(top + row * (bottom - top), left + column * (right - left))
                    for row in (0.25, 0.5, 0.75)
                    for column in (0.25, 0.5, 0.75)
                ]
    unique = {(rows.start, columns.start): (rows, columns) for rows, columns in places}
    return [unique[key] for key in sorted(unique)]


def _known(raster: Aligned, window: Window) -> float:
    """Share of a window's inner part that a raster knows; 0 without reading outside its footprint."""
    rows, columns = window
    left, top, right, bottom = raster.footprint()
    if columns.stop <= left or right <= columns.start or rows.stop <= top or bottom <= rows.start:
        return 0.0
    quarter = (rows.stop - rows.start) // 4, (columns.stop - columns.start) // 4
    inner = (
        slice(rows.start + quarter[0], rows.stop - quarter[0]),
        slice(columns.start + quarter[1], columns.stop - quarter[1]),
    )
    return float(np.mean(~np.isnan(raster.read(*inner))))
