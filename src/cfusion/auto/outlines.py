"""Outlines of the reference: pixels beside an edge that it measured on the other side than the surface has them.

Another view is read a fraction of a pixel beside the right place, so that beside an edge it may show the other side,
and several views do so alike. The reference itself is read in place: if its outlines are exact, its own measurement
says on which side of an edge a pixel lies. They are not if other views deny them, as those of a Kinect, nor if the
reference is wrong in blobs, which have outlines as well. Jagged outlines are denied by other views with the weight that
these have away from edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.pooling import window_sums
from cfusion.auto.surface import alike_around
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import one_pass
from cfusion.kernels.tracing import neighbour

STEP = 12.0  # noise scales: the range of a surface around a pixel that is beside an edge
SAME, FEWEST = 4.0, 2  # noise scales, and neighbours of eight that measured the same: else it may be noise
CONFIRMED = 3  # other views, or half of them if there are fewer: then the surface is right and the outline is not
DENIED = 0.025  # of the reference's pixels beside edges: exact outlines have 0 to 2.2 %, a Kinect's 2.8 to 28 %
JAGGED = 0.05  # of the same pixels: with poses off up to 4 % are denied
SURELY = 0.01  # of the same pixels: with fewer denied, errors that neighbours share displace no outline; and what a
# later reading has to find if a first one finds between DENIED and JAGGED, as its surface may have edges out of place
TELLING = 100  # pixels beside edges: fewer, of which none is denied, may still be those of a Kinect
CORE, BESIDE = 1, 2  # pixels: a square that is all displaced is no outline, nor is what is so near to its middle
THIN, ACROSS = 2, ((1, 0), (0, 1), (1, 1), (1, -1))  # pixels to both sides, and directions (down, right)
BLOBS = 0.01  # of its pixels far from edges: blobs of outliers have 1 to 15 %, noise 0.1 %


@one_pass
def thin_parts(surface: DepthMap, unit: Floats, scale: np.float32) -> Mask:
    """Pixels (H, W) of a surface that are in front of it, or behind it, two pixels to both sides: a rod, a gap.

    Not beside the border of the image, where a part may go on. `scale` is the noise in units (H, W).
    """
    limit = np.float32(STEP) * scale * unit
    rods: Any = surface < surface
    for down, right in ACROSS:
        one, other = (neighbour(surface, sign * down, sign * right, np.nan) - surface for sign in (THIN, -THIN))
        ahead, behind = (neighbour(surface, sign * down, sign * right, np.inf) for sign in (2 * THIN, -2 * THIN))
        outside = (ahead == np.inf) | (behind == np.inf)
        rods = rods | (((np.minimum(one, other) > limit) | (np.maximum(one, other) < -limit)) & ~outside)
    out: Mask = rods
    return out


@one_pass
def measured_alike(wrong: Mask, own: DepthMap, surface: DepthMap, unit: Floats, scale: np.float32) -> Mask:
    """Pixels (H, W) where the reference measured no point of the surface, but the same as it has beside them.

    `scale` is the noise in units (H, W).
    """
    has = np.where(wrong, own, surface)
    out: Mask = wrong & (alike_around(has, np.float32(SAME) * scale * unit) >= FEWEST)
    return out


@dataclass(frozen=True, eq=False)
class Outlines:
    """What is known of the reference's outlines."""

    exact: bool | None = None  # decided in the first reading that can tell, or in a later one if it is a near thing
    misplaced: bool = False  # jagged, or displaced by errors that neighbouring pixels share, as in the latest reading
    # pixels (H, W) where it measured small parts that were put back, or outlines: the next fits would lose them again
    held: Mask | None = field(default=None, repr=False)
    near_thing: bool = False  # whether a reading left it open

    def read(self, told: Tally, misplaced: bool, held: Mask, *, shared: bool) -> Outlines:
        """What is known after another reading; where neighbours share their errors, nobody's outlines are exact."""
        exact, near_thing = self.exact, self.near_thing
        if exact is None and not shared:
            few = told.tells and told.denied <= SURELY * told.beside if near_thing else told.exact
            near_thing = near_thing or (told.tells and not few and told.denied <= JAGGED * told.beside)
            exact = True if few else None if near_thing else False
        return Outlines(exact, misplaced, held, near_thing)


UNTOLD = Outlines()


@dataclass(frozen=True)
class Tally:
    """Numbers of pixels that the reference measured."""

    doubted: float  # beside edges, where it measured no point of the surface and others did
    denied: float  # of these, where few of the nearest see past the surface
    displaced: float  # of these, in strips too thin for things that moved, and its front end is sure
    beside: float  # all beside edges
    blobs: float  # far from edges, where it measured no point of the surface, but the same as beside them
    far: float  # all far from edges

    @property
    def exact(self) -> bool:
        """Whether the outlines of the reference are in place."""
        return self.tells and self.denied <= DENIED * self.beside

    @property
    def jagged(self) -> bool:
        """Whether they are displaced, as a Kinect's; other views that are out of place deny fewer."""
        return self.tells and self.displaced > JAGGED * self.beside and self.far >= TELLING

    @property
    def in_place(self) -> bool:
        """Whether nothing is known against them."""
        return self.clean and self.displaced <= DENIED * self.beside

    @property
    def doubtful(self) -> bool:
        """Whether some are denied: of outlines that are surely in place, next to none is."""
        return self.doubted > SURELY * self.beside

    @property
    def clean(self) -> bool:
        """Whether there are no blobs of outliers, which have outlines as well."""
        return self.blobs <= BLOBS * self.far

    @property
    def tells(self) -> bool:
        """Whether there are enough edges, and no blobs."""
        return self.beside >= TELLING and self.clean


def tallied(
    alike: Mask,
    wrong: Mask,
    surely: Mask,
    contested: Mask,
    weights: Floats,
    reference: int,
    reliefs: Sequence[Floats],
    scale: np.float32,
    backend: Backend,
) -> Tally:
    """What tells of the outlines of the reference, given `measured_alike` and the weights (K, H, W) of a reading.

    `wrong` is where it measured no point of the surface, `surely` where its front end is sure as well.
    `reliefs` are ranges (H, W) of the surface within one, two and four pixels, in units.
    """
    next_to, _, around, *_ = reliefs
    limits = np.float32(STEP) * scale, np.float32(min(CONFIRMED, max(1, (len(weights) - 1) // 2)))
    masks = alike, wrong, surely, contested, wide_parts(surely, backend)
    return Tally(*map(float, _tally(*masks, weights, reference, next_to, around, *limits)))


def wide_parts(mask: Mask, backend: Backend) -> Floats:
    """More than zero (H, W) beside squares that are all in the mask: parts of a thing, not of an outline."""
    out: Floats
    (out,) = window_sums(_cores(*window_sums(_counted(mask), CORE, backend)), BESIDE, backend)
    return out


@one_pass
def _tally(
    alike: Mask,
    wrong: Mask,
    surely: Mask,
    contested: Mask,
    wide: Floats,
    weights: Floats,
    reference: int,
    next_to: Floats,
    around: Floats,
    limit: np.float32,
    enough: np.float32,
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """The numbers of `Tally`."""
    measured = weights[reference] > 0
    support = (weights > 0).astype(np.float32).sum(axis=0) - measured.astype(np.float32)
    beside, far = measured & (next_to > limit), measured & ~(around > limit)
    doubted, thin = beside & wrong & (support >= enough), surely & (wide < 0.5)
    denied = doubted & ~contested
    return doubted.sum(), denied.sum(), (denied & thin).sum(), beside.sum(), (far & alike).sum(), far.sum()


def put_in_place(
    alike: Mask, near: Floats, scale: np.float32, surface: DepthMap, depths: Floats, reference: int, backend: Backend
) -> tuple[Mask, DepthMap]:
    """Pixels (H, W) beside edges that the reference measured elsewhere, and the surface with its measurements there.

    `near` is the range of the surface within two pixels; depths are (K, H, W). Displaced outlines are a pixel or two
    wide: wider parts are things that only the reference saw, or its errors.
    """
    found: tuple[Mask, DepthMap] = _placed(
        alike, wide_parts(alike, backend), near, np.float32(STEP) * scale, surface, depths, reference
    )
    return found


def held_by_reference(weights: Floats, held: Mask, trustworthy: Mask, reference: int) -> Floats:
    """Weights (K, H, W) of which the reference's makes up, where it holds, for what others lack of a usual pixel's.

    It holds the pixels `held` where it is `trustworthy`.
    """
    mass, known = _mass(weights)
    own = (np.arange(len(weights)) == reference)[:, None, None]
    return _held(weights, held, trustworthy, own, np.float32(mass / max(known, 1)))


def of_reference(depths: Floats, weights: Floats, placed: Mask, reference: int) -> tuple[Floats, Floats]:
    """Observations (K, H, W) of which other views are dropped where the reference decides, (H, W).

    It has the usual weight of a pixel there, as its one measurement would be smoothed away.
    """
    mass, known = _mass(weights)
    own = (np.arange(len(depths)) == reference)[:, None, None]
    found: tuple[Floats, Floats] = _of_reference(depths, weights, placed, own, np.float32(mass / max(known, 1)))
    return found


@one_pass
def _mass(weights: Floats) -> tuple[Any, Any]:
    """The sum of all weights, and the number of pixels that have any."""
    each = weights.sum(axis=0)
    return each.sum(dtype=np.float64), (each > 0).sum()


@one_pass
def _counted(alike: Mask) -> Floats:
    out: Floats = np.stack([alike.astype(np.float32)])
    return out


@one_pass
def _cores(around: Floats) -> Floats:
    """1 where all of a square is counted, (1, H, W)."""
    out: Floats = np.stack([(around > (2 * CORE + 1) ** 2 - 0.5).astype(np.float32)])
    return out


@one_pass
def _placed(
    alike: Mask, wide: Floats, near: Floats, limit: np.float32, surface: DepthMap, depths: Floats, reference: int
) -> tuple[Mask, DepthMap]:
    """Pixels (H, W) beside edges that the reference measured elsewhere, and the surface with its measurements there."""
    placed = alike & (near > limit) & (wide < 0.5)
    return placed, np.where(placed, depths[reference], surface)


@one_pass
def _held(weights: Floats, held: Mask, trustworthy: Mask, own: Mask, usual: np.float32) -> Floats:
    lacking = usual - np.where(own, np.float32(0), weights).sum(axis=0)
    return np.where(held & trustworthy & own & (weights > 0), np.maximum(weights, lacking), weights)


@one_pass
def _of_reference(depths: Floats, weights: Floats, placed: Mask, own: Mask, usual: np.float32) -> tuple[Floats, Floats]:
    """Observations (K, H, W) at these pixels of the reference alone, with at least the usual weight."""
    gone = placed & ~own
    weights = np.where(placed & own, np.maximum(weights, usual), weights)
    return np.where(gone, np.float32(np.nan), depths), np.where(gone, np.float32(0), weights)
