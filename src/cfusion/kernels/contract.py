"""What a backend computes: n iterations on a problem, its energy, a lower bound, and the pointwise sums.

All arrays are contiguous and of one floating type. NaN never arrives here: a missing observation is +inf with
weight zero, a pixel outside the domain has no links.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cfusion.kernels.growth import Growth

Floats = NDArray[Any]
Links = NDArray[np.uint16]
Mask = NDArray[np.bool_]
Window = tuple[slice, slice]  # rows and columns of an image
Ways = tuple[list[float], list[float]]  # a sum of squares per plane, of the primal and of the dual

# A pixel's links: bit m says that plane m of the dual variable exists there; INSIDE marks the pixel itself.
INSIDE = 1 << 9


class Fidelity(IntEnum):
    """phi of the data term; the number is what compiled kernels switch on."""

    L1 = 0
    L2 = 1
    HUBER = 2


@dataclass(frozen=True, eq=False)
class Observations:
    """K values per pixel, ascending, +inf where missing; for L2 their weighted mean alone (K = 1)."""

    values: Floats  # (K, H, W)
    weights: Floats | None  # (K, H, W) in the same order; None: one each
    total: Floats  # (H, W) sum of the weights
    scatter: Floats | None  # (H, W), L2 only: sum_k w_k (d_k - mean)^2 / 2, what the mean leaves out


@dataclass(frozen=True, eq=False)
class Problem:
    """min_x TGV_alpha(x; g) + sum_i lam_i sum_k w_ki phi(x_i - d_ki) + pull/2 |x - anchor|^2 on the linked pixels."""

    fidelity: Fidelity
    delta: float  # Huber's corner; unused by the others
    observations: Observations
    confidence: Floats  # (H, W) lam
    links: Links  # (H, W)
    alpha: tuple[float, ...]  # one weight per order
    edge: Floats | None = None  # (H, W) g, scales alpha[0]
    tensor: Floats | None = None  # (3, H, W) xx, xy, yy of D^(1/2) on the first-order term
    anchor: Floats | None = None  # (H, W)
    pull: float = 0.0  # 1/mu of the alternate minimisation's proximal term

    @property
    def order(self) -> int:
        return len(self.alpha)


@dataclass(eq=False)
class State:
    """Primal x, v, w (1 + 2 + 3 planes) and dual q, r, s (2 + 3 + 4 planes); iterations update it in place."""

    primal: Floats  # (order (order + 1) / 2, H, W)
    dual: Floats  # (order (order + 3) / 2, H, W)
    _spare: State | None = None
    ahead: Any = None  # what a backend has put into the spare arrays already
    ending: bool = False  # whether no more iterations are expected, so that going ahead would be in vain
    _lent: bool = False  # whether another state has the same arrays

    def spare(self) -> State:
        """Arrays of the same shape to write the next state into."""
        if self._spare is None:
            self._spare = State(np.empty_like(self.primal), np.empty_like(self.dual))
        return self._spare

    def branch(self) -> State:
        """Another state at the same place, which takes over what a backend has computed ahead.

        Both have the same arrays until one of them moves on.
        """
        ahead, self.ahead = self.ahead, None
        spare, self._spare = self._spare, None
        self._lent = True
        return State(self.primal, self.dual, spare, ahead, _lent=True)

    def own(self) -> None:
        """Make sure that nobody else has the arrays: a backend is about to write into them."""
        if self._lent:
            self.primal, self.dual, self._lent = self.primal.copy(), self.dual.copy(), False

    def release(self) -> None:
        """Give the spare arrays back."""
        self._spare = self.ahead = None
        self.ending = False

    def swap(self) -> None:
        """Make the spare arrays the state."""
        spare = self.spare()
        if self._lent:
            self.primal, self.dual = spare.primal, spare.dual
            self._spare, self._lent = None, False
            return
        self.primal, spare.primal = spare.primal, self.primal
        self.dual, spare.dual = spare.dual, self.dual


@dataclass(frozen=True)
class Steps:
    """One primal and one dual step per order, and the over-relaxation."""

    tau: tuple[float, ...]
    sigma: tuple[float, ...]
    relaxation: float


@dataclass(frozen=True)
class Energies:
    """The terms of the convex energy at one x (and its v, w)."""

    regulariser: tuple[float, ...]  # per order, weighted
    fidelity: float
    proximal: float
    mass: float = 0.0  # sum lam w over all observations of the domain
    pixels: float = 0.0  # of the domain

    @property
    def total(self) -> float:
        return sum(self.regulariser) + self.fidelity + self.proximal


@dataclass(frozen=True, eq=False)
class Tally:
    """What a stack holds: observations are known depths, of positive weight where there are weights."""

    count: NDArray[np.int32]  # (H, W) observations
    observed: Mask  # (H, W) whether there are any
    window: Window | None  # what they reach over; None if there are none
    pixels: float  # that have one
    mass: float  # the sum of their weights
    least: float  # depth observed; inf if there is none


@dataclass(frozen=True, eq=False)
class Arranged:
    """A stack in the coordinates of a task, and what tells its range and its noise."""

    observations: Observations
    median: Floats  # (h, w) the weighted one; 0 where nothing was observed
    low: float  # of what was observed
    high: float
    # sums over the observed pixels
    pixels: float
    together: float  # of their observations
    square: float  # of the mean error of the median, squared (for L2 the mean squared error of the mean)
    first: float  # of the median
    second: float  # of its square


@dataclass(frozen=True, eq=False)
class Held:
    """Observations that a fit did not see, and the coordinates it has: depth, or its inverse, less a centre."""

    depths: Floats  # (K, H, W) float32, NaN where nothing was held out
    weights: Floats | None  # (K, H, W) float32
    window: Window
    inside: Mask  # (h, w) pixels of the window that count
    centre: float
    inverse: bool


@dataclass(frozen=True)
class Box:
    """The stated range of x. It only matters where the data alone do not hold x."""

    low: float
    high: float


class Backend(Protocol):
    """The functions a backend module offers."""

    NAME: str

    @property
    def arrays(self) -> Any:
        """The module that makes its arrays: numpy, or one with the same functions for another memory."""

    def to_device(self, array: Any, dtype: Any) -> Any:
        """A copy in the backend's memory, for it to keep."""

    def to_host(self, array: Any) -> Any:
        """The array as NumPy has it."""

    def foresee(self, shape: tuple[int, int], order: int, fidelity: Fidelity) -> None:
        """Get ready for solves of that kind, if that takes time, while other things are done."""

    def lane(self) -> AbstractContextManager[Any]:
        """Within it the work of this thread does not wait for that of others."""

    def stacked(self, maps: Sequence[Any]) -> Any:
        """Maps of one shape, float32 on the host, as one array (K, H, W) in the backend's memory."""

    def links_of(self, domain: NDArray[np.bool_], /) -> Links:
        """As `links_of` here."""

    def tally(self, depths: Floats, weights: Floats | None, /) -> Tally:
        """Count a stack's observations."""

    def arrange(
        self,
        depths: Floats,
        weights: Floats | None,
        window: Window,
        centre: float,
        inverse: bool,
        fidelity: Fidelity,
        real: Any,
        /,
    ) -> Arranged:
        """Bring a stack (float32) into the coordinates of a task, in floats of type `real`, and in order.

        The window of the depths, or of 1 / depth (all are positive then), less the centre.
        """

    def begin(self, start: Floats, links: Links, order: int, /) -> State:
        """The state at a start: v at the usual slope across and down, everything else at zero."""

    def resume(
        self, state: State, links: Links, other: State, inside: Mask, offset: tuple[int, int], shift: float, /
    ) -> None:
        """Set a state in place to what another one is, on pixels and links that both have; x is shifted.

        The offset is that of the state's first pixel from the other's, whose `inside` are its pixels.
        """

    def carry(self, median: Floats, observed: NDArray[np.bool_], inside: NDArray[np.bool_], /) -> Floats:
        """The median where it was observed, carried into the rest of the inside neighbour by neighbour."""

    def trust_locally(self, depths: Floats, weights: Floats | None, depth: Floats, /) -> Floats:
        """(K, H, W) the weights given times how quiet each map is around each pixel; zero where depth is unknown."""

    def gain(self, x: Floats, other: Floats, held: Held, /) -> tuple[float, float, float]:
        """By how much x is nearer to what was held out than another x is.

        The weighed mean and its standard error; and the other's mean distance.
        """

    def split(
        self, depths: Floats, weights: Floats | None, turns: Mask, block: int, /
    ) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None], tuple[int, int]]:
        """A stack without what is held out, and what is held out alone; and how many depths each of them knows.

        `turns` (K, n) says which maps are held out in the blocks of a turn; turns go round with the distance in blocks
        from the image's middle, rows and columns added.
        """

    def medians(self, rows: Floats, above: float = -np.inf, /) -> tuple[list[float], list[int]]:
        """Per row (map, stack, ..) the median of what is finite and larger than `above`, and how much that was.

        NaN where nothing is.
        """

    def order_observations(
        self, depths: Floats, weights: Floats | None, fidelity: Fidelity
    ) -> tuple[Observations, Floats]:
        """Sort along K (or average, for L2) once; also the weighted median, 0 where nothing was observed.

        The arrays given may be overwritten.
        """

    def iterate(self, problem: Problem, state: State, steps: Steps, count: int) -> None:
        """Run `count` over-relaxed primal-dual iterations in place."""

    def energy(self, problem: Problem, state: State) -> Energies:
        """The terms of the energy at the state's primal variables."""

    def bound(self, problem: Problem, state: State, box: Box, rounds: int) -> float:
        """A lower bound of the minimum over the box, from the state's dual variables repaired by `rounds` steps."""

    def sample(self, state: State, every: int) -> Floats:
        """Every so many rows of the state, kept to see later how far it moved."""

    def measure(self, problem: Problem, state: State, kept: Floats | None, every: int) -> tuple[Energies, Ways]:
        """`energy` and, unless nothing was kept, `travelled`, for which a device is waited for once."""

    def follow(
        self, problem: Problem, state: State, rate: Floats, strength: Floats, kept: Floats | None, every: int
    ) -> tuple[tuple[Floats, float, Energies], Ways]:
        """`adapt` at the state's x, the energy at that confidence, and `travelled`, likewise."""

    def misfit(self, problem: Problem, x: Floats) -> Floats:
        """(H, W) sum_k w_k phi(x - d_k): what the confidence is estimated from."""

    def middle(self, observations: Observations) -> Floats:
        """(H, W) the weighted median of ordered observations; the mean, where only that was kept."""

    def reproject(
        self, depth: Floats, camera: Floats, onto: Floats, onto_from_view: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Where the points of a depth map lie in another camera: u, v and z, (H W,) each, in double precision.

        Cameras are five numbers (kind, fx, fy, cx, cy), the motion is (3, 4). u and v are NaN for points not in front.
        A backend with a memory of its own takes maps with a leading axis of views here and in `splat_nearest`,
        `close_mask`, `fill_natural` and `pull`, with as many cameras and motions.
        """

    def cosines(self, depths: Floats, camera: Floats) -> Floats:
        """(K, H, W) |n . r| of each map's normals and viewing rays; NaN where a pixel has no normal."""

    def adapt(self, problem: Problem, x: Floats, rate: Floats, strength: Floats) -> tuple[Floats, float]:
        """The confidence b / (misfit + rate) that is best at x, zero outside, and sum rate lam - b log lam there."""

    def splat_nearest(
        self, u: Floats, v: Floats, z: Floats, values: Floats | None, shape: tuple[int, int], /
    ) -> tuple[Floats, Floats | None]:
        """Forward z-buffer of points (N,) to the nearest pixel."""

    def close_mask(self, mask: NDArray[np.bool_], radius: int, /) -> NDArray[np.bool_]:
        """Morphological closing with a disc."""

    def relief(self, depth: Floats, radius: int, /) -> Floats:
        """(H, W) how far apart what is known lies in the square of side 2 radius + 1; -inf where nothing is."""

    def fill_natural(self, depth: Floats, region: NDArray[np.bool_], /) -> Floats:
        """Natural-neighbour interpolation at the unknown pixels of the region."""

    def whole(
        self, part: Floats, domain: Mask, window: Window, outside: float, centre: float, inverse: bool, /
    ) -> Floats:
        """(H, W) float32: a map of the window in the whole image, its coordinates undone; `outside` off the domain."""

    def pull(
        self,
        x: Floats,
        reference_camera: Floats,
        view_camera: Floats,
        view_from_reference: Floats,
        depth: Floats,
        confidence: Floats,
        agreement: Any,
    ) -> tuple[Floats, Floats, Floats]:
        """Observations of x along the reference rays, their weights, and which pixels the view could see."""

    def gate(
        self,
        depths: Floats,
        weights: Floats,
        surface: Floats,
        growth: Growth,
        limits: Sequence[float],
        seen: NDArray[np.bool_],
        reference: int,
        holes: bool,
        /,
    ) -> None:
        """Set weights (K, H, W) to zero and depths to NaN in place, of what is no observation of the surface.

        That is further from it than its view's limit, in the unit of the noise. And all at a pixel that the reference
        did not measure and too few confirm: if these are holes, more have to than measure something else; if they
        are nothing, half of those who look there.
        """


def primal_planes(order: int) -> int:
    return order * (order + 1) // 2


def dual_planes(order: int) -> int:
    return order * (order + 3) // 2


def links_of(domain: NDArray[np.bool_]) -> Links:
    """Where each plane of the dual exists: every difference it is dual to stays inside the domain.

    First order (forward): x here and its right, lower neighbour. Second (backward): the components of v exist here
    and at the left, upper neighbour. Third (forward): the components of w exist here and at the right, lower one.
    """
    x = domain
    v = [x & _shift(x, 0, 1), x & _shift(x, 1, 0)]
    w = [
        v[0] & _shift(v[0], 0, -1),
        v[1] & _shift(v[1], 0, -1) & v[0] & _shift(v[0], -1, 0),
        v[1] & _shift(v[1], -1, 0),
    ]
    third = [
        w[0] & _shift(w[0], 0, 1),
        w[1] & _shift(w[1], 0, 1) & w[0] & _shift(w[0], 1, 0),
        w[2] & _shift(w[2], 0, 1) & w[1] & _shift(w[1], 1, 0),
        w[2] & _shift(w[2], 1, 0),
    ]
    links = domain * np.uint16(INSIDE)
    for plane, exists in enumerate([*v, *w, *third]):
        links |= exists * np.uint16(1 << plane)
    return links


def _shift(mask: NDArray[np.bool_], down: int, right: int) -> NDArray[np.bool_]:
    """The mask's value at the neighbour `down` rows below and `right` columns to the right; False outside."""
    height, width = mask.shape
    out = np.zeros_like(mask)
    rows, columns = slice(max(0, -down), height - max(0, down)), slice(max(0, -right), width - max(0, right))
    from_rows, from_columns = slice(max(0, down), height + min(0, down)), slice(max(0, right), width + min(0, right))
    out[rows, columns] = mask[from_rows, from_columns]
    return out
