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

from cfusion.kernels.depth_noise import DepthNoise

Floats = NDArray[Any]
Links = NDArray[np.uint16]
Mask = NDArray[np.bool_]
Window = tuple[slice, slice]  # rows and columns of an image
Displacement = tuple[list[float], list[float]]  # squared, per plane, of the primal and of the dual

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
    """min_x TGV_alpha(x; g) + sum_i lam_i sum_k w_ki phi(x_i - d_ki) + prox_weight/2 |x - prox_centre|^2."""

    fidelity: Fidelity
    delta: float  # Huber's corner; unused by the others
    observations: Observations
    confidence: Floats  # (H, W) lam
    links: Links  # (H, W)
    alpha: tuple[float, ...]  # one weight per order
    edge: Floats | None = None  # (H, W) g, scales alpha[0]
    tensor: Floats | None = None  # (3, H, W) xx, xy, yy of D^(1/2) on the first-order term
    prox_centre: Floats | None = None  # (H, W)
    prox_weight: float = 0.0  # 1/mu of the alternate minimisation's proximal term

    @property
    def order(self) -> int:
        return len(self.alpha)


@dataclass(eq=False)
class State:
    """Primal x, v, w (1 + 2 + 3 planes) and dual q, r, s (2 + 3 + 4 planes); iterations update it in place."""

    primal: Floats  # (order (order + 1) / 2, H, W)
    dual: Floats  # (order (order + 3) / 2, H, W)
    _spare: State | None = None
    workspace: Any = None  # what a backend keeps beside the state, and nobody else reads
    ending: bool = False  # the solver expects to stop: do not compute the next block speculatively
    _lent: bool = False  # whether another state has the same arrays

    def spare(self) -> State:
        """Arrays of the same shape to write the next state into."""
        if self._spare is None:
            self._spare = State(np.empty_like(self.primal), np.empty_like(self.dual))
        return self._spare

    def branch(self) -> State:
        """Another state at the same place, which takes over the backend's workspace.

        Both have the same arrays until one of them moves on.
        """
        workspace, self.workspace = self.workspace, None
        spare, self._spare = self._spare, None
        self._lent = True
        return State(self.primal, self.dual, spare, workspace, _lent=True)

    def own(self) -> None:
        """Make sure that nobody else has the arrays: a backend is about to write into them."""
        if self._lent:
            self.primal, self.dual, self._lent = self.primal.copy(), self.dual.copy(), False

    def release(self) -> None:
        """Give the spare arrays back."""
        self._spare = self.workspace = None
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


@dataclass(frozen=True)
class Settling:
    """A rough solve that looks at itself: until the energy settles, with steps that correct themselves.

    The rules are those of `solvers/pdhg.py` and `solvers/steps.py`; what they depend on stands here in numbers.
    """

    tolerance: float  # of the energy's change from look to look, as a part of it
    block: int  # iterations between two looks
    step_scale: float
    per_scale: float  # s over the step scale
    norm: float  # of the scaled operator
    ways: tuple[float, float, float]  # the primal's over the dual's in units of s: shortest, usual, longest
    correction: float  # of the step scale, at most
    checks: int  # looks at the balance
    every: int  # rows of which one tells the ways
    floor: tuple[float, float, float]  # of the energy: share of the first one, for each unit of mass, for each pixel
    asked: bool = True  # how it ends; else a backend need not wait for that, and tells what it knows


@dataclass(frozen=True)
class Settled:
    """Where such a solve has come to."""

    energies: Energies
    iterations: int
    step_scale: float
    floor: float  # energies below it count as zero
    settled: bool  # else the iterations were used up


@dataclass(frozen=True, eq=False)
class Coverage:
    """The observations of a stack: known depths, of positive weight where there are weights."""

    count: NDArray[np.int32]  # (H, W) observations per pixel
    observed: Mask  # (H, W) count > 0
    window: Window | None  # bounding box of the observed pixels; None if there are none
    pixels: float  # number of observed pixels
    mass: float  # sum of the weights
    least: float  # smallest depth observed; inf if there is none
    most: int  # observations of one pixel
    middle: float  # median of the middle map's depths; NaN if it knows none


@dataclass(frozen=True, eq=False)
class SortedStack:
    """A stack in the coordinates of a task, and the sums that tell its range and its noise."""

    observations: Observations
    median: Floats  # (h, w) weighted median; 0 where nothing was observed
    low: float  # smallest observation
    high: float  # largest observation
    # sums over the observed pixels
    pixels: float
    n_observations: float
    sum_sq_error: float  # of (mean_k |d_k - median|)^2; for L2 of mean_k (d_k - mean)^2
    sum_median: float
    sum_sq_median: float


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Observations that a fit did not see, and the coordinates of the fit: depth, or its inverse, less a centre."""

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


class Memory(Protocol):
    """Where a backend keeps its arrays, and how work is queued there."""

    NAME: str

    @property
    def arrays(self) -> Any:
        """The module that makes its arrays: numpy, or one with the same functions for another memory."""

    def to_device(self, array: Any, dtype: Any) -> Any:
        """A copy in the backend's memory, for the backend to keep and overwrite; of a list of maps, their stack."""

    def to_host(self, array: Any) -> Any:
        """The array as NumPy's."""

    def precompile(self, shape: tuple[int, int], order: int, fidelity: Fidelity) -> None:
        """Start compiling the kernels for this kind of problem in the background."""

    def stream(self) -> AbstractContextManager[Any]:
        """Context manager: this thread's kernels run on their own stream."""


class Convex(Protocol):
    """The convex problem at fixed confidence: iterations, energy, certificate."""

    def links_of(self, domain: Mask, /) -> Links:
        """As `links_of` here."""

    def sort_observations(
        self,
        depths: Floats,
        weights: Floats | None,
        window: Window,
        centre: float,
        inverse: bool,
        fidelity: Fidelity,
        real: Any,
        /,
    ) -> SortedStack:
        """Sort (or average, for L2) depths[window] - centre (or 1 / depths[window] - centre) as `real` floats."""

    def weighted_median(self, observations: Observations) -> Floats:
        """(H, W) the weighted median of ordered observations; the mean, where only that was kept."""

    def initial_state(self, start: Floats, links: Links, order: int, /) -> State:
        """x = start, v = the median difference across and down where linked, everything else zero."""

    def transfer_state(
        self, state: State, links: Links, other: State, inside: Mask, offset: tuple[int, int], shift: float, /
    ) -> None:
        """Copy another state into a state, in place, on pixels and links that both have; x = other x + shift.

        `offset`: of the state's first pixel from the other's; `inside`: the pixels of the other.
        """

    def extrapolate(self, median: Floats, observed: Mask, inside: Mask, /) -> Floats:
        """The median where observed; elsewhere inside, round by round, the mean of the known four neighbours."""

    def iterate(
        self, problem: Problem, state: State, steps: Steps, count: int, plan: Settling | None = None
    ) -> Settled | None:
        """Run `count` over-relaxed primal-dual iterations in place.

        With a plan, as many as it takes, and `count` at most. None then: the backend leaves that to the solver, and
        has run nothing.
        """

    def energy(self, problem: Problem, state: State) -> Energies:
        """The terms of the energy at the state's primal variables."""

    def bound(
        self, problem: Problem, state: State, box: Box, rounds: int, most: int = 0, enough: float = np.inf
    ) -> float:
        """A lower bound of the minimum over the box, from the state's dual variables repaired by `rounds` steps.

        By as many again, up to `most`, as long as the repaired dual would have to be scaled by less than `FEASIBLE`
        and the bound is less than `enough`.
        """

    def snapshot_rows(self, state: State, every: int) -> Floats:
        """A copy of every `every`-th row of all planes, to measure later how far they moved."""

    def measure(self, problem: Problem, state: State, kept: Floats | None, every: int) -> tuple[Energies, Displacement]:
        """Energy, and displacement since the snapshot `kept` if given, with a single device synchronisation."""

    def follow(
        self, problem: Problem, state: State, rate: Floats, strength: Floats, kept: Floats | None, every: int
    ) -> tuple[tuple[Floats, float, Energies], Displacement]:
        """lam = strength / (misfit + rate) at the state's x, zero outside, sum of rate lam - strength log lam inside.

        Then `measure` at that confidence.
        """

    def misfit(self, problem: Problem, x: Floats) -> Floats:
        """(H, W) sum_k w_k phi(x - d_k): what the confidence is estimated from."""

    def to_image(
        self, part: Floats, domain: Mask, window: Window, outside: float, centre: float, inverse: bool, /
    ) -> Floats:
        """(H, W) float32: part + centre (or its inverse) on the domain, in the whole image; `outside` elsewhere."""


class Raster(Protocol):
    """Cameras and pixels. A backend with a memory of its own takes a leading axis of views, cameras and motions.

    A camera is its packed numbers (`Camera.numbers`), a motion a (3, 4) matrix.
    """

    def reproject(
        self, depth: Floats, camera: Floats, onto: Floats, onto_from_view: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Where the points of a depth map lie in another camera: u, v and z, (H W,) each, in double precision.

        u and v are NaN for points not in front.
        """

    def read_view(
        self,
        x: Floats,
        reference_camera: Floats,
        view_camera: Floats,
        view_from_reference: Floats,
        depth: Floats,
        confidence: Floats,
        agreement: Any,
    ) -> tuple[Floats, Floats, Floats]:
        """d = x + (z_measured - z_predicted) / (dz / dx) along the reference's rays, its weight, and where it is seen.

        z_measured is bilinear where the four pixels around differ by at most `agreement`, else that of the nearest.
        """

    def parallax(self, surface: Floats, camera: Floats, onto: Floats, onto_from_camera: Floats, /) -> Floats:
        """(K, H, W) pixels that a point of the camera's surface moves by in each of K others, per unit of its depth.

        NaN where the surface is unknown or not in front. How a lens bends counts for where a point is seen, not for how
        fast it moves.
        """

    def hidden(
        self,
        surface: Floats,
        camera: Floats,
        onto: Floats,
        onto_from_camera: Floats,
        shapes: Sequence[tuple[int, int]],
        tolerance: Floats,
        /,
    ) -> Mask:
        """(K, H, W) which points of the camera's surface lie behind another of it in each of K cameras of these shapes.

        By more than max(RELATIVE z, tolerance (H, W), SLOPES times the change to the next pixel), z the depth there.
        """

    def cosines(self, depths: Floats, camera: Floats) -> Floats:
        """(K, H, W) |n . r| of each map's normals and viewing rays; NaN where a pixel has no normal."""

    def splat_nearest(
        self, u: Floats, v: Floats, z: Floats, values: Floats | None, shape: tuple[int, int], /
    ) -> tuple[Floats, Floats | None]:
        """Forward z-buffer of points (N,) to the nearest pixel: depth and carried values (H, W), NaN where none."""

    def close_mask(self, mask: Mask, radius: int, /) -> Mask:
        """Morphological closing with a disc."""

    def fill_natural(self, depth: Floats, region: Mask, /) -> Floats:
        """Natural-neighbour interpolation at the unknown pixels of the region."""

    def local_depth_range(self, depth: Floats, radius: int, /) -> Floats:
        """(H, W) max - min of the known depths in the square of side 2 radius + 1; -inf where there is none."""


class Statistics(Protocol):
    """What tells noise and choices from a stack."""

    def count_observations(self, depths: Floats, weights: Floats | None, /) -> Coverage:
        """Count a stack's observations; the middle map is number K // 2."""

    def medians(self, rows: Floats, above: float = -np.inf, /, *, sides: bool = False) -> tuple[list[float], list[int]]:
        """Per row (map, stack, ..): median of the finite values > `above` (NaN if none), and their number.

        With `sides`: first of all rows' sizes |t|, then of the positive t of each, then of the sizes of the negative.
        """

    def pooled(self, maps: Floats, radius: int, passes: int, /) -> Floats:
        """(n, H, W) float64: means over squares of side 2 radius + 1, one pass after the other; zero lies outside."""

    def local_noise_weights(self, depths: Floats, weights: Floats | None, depth: Floats, /) -> Floats:
        """(K, H, W) the weights given times b0 (n + a) / (m + a b0); zero where depth is unknown.

        n observations of the map around the pixel are off by m in sum; b0 and a: see `kernels/numpy/preparing.py`.
        """

    def reject_occluded(
        self,
        depths: Floats,
        weights: Floats,
        surface: Floats,
        growth: DepthNoise,
        thresholds: Sequence[float],
        seen: Mask,
        reference: int,
        holes: bool,
        /,
    ) -> None:
        """Reject, in place (weight 0, depth NaN), observations that are not of this surface.

        (1) |d_k - x| / unit(x) > thresholds[k]. (2) All at a pixel without a reference measurement, unless confirmed:
        by more views than contradict it (`holes`), or by at least half of the views that see it.
        """

    def split_folds(
        self, depths: Floats, weights: Floats | None, folds: Mask, block: int, /
    ) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None], tuple[int, int]]:
        """A stack without what is held out, what is held out alone, and how many depths each of them knows.

        Block (i, j), counted from the image's middle, belongs to fold (i + j) mod n; `folds` (K, n) says which maps a
        fold holds out.
        """

    def score_difference(self, x: Floats, other: Floats, held: HeldOut, /) -> tuple[float, float, float]:
        """Weighted mean of |other - d| - |x - d| over held-out d, its standard error; mean of |other - d|."""


class Backend(Memory, Convex, Raster, Statistics, Protocol):
    """The functions a backend module offers."""


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


def window_of(domain: Mask) -> Window | None:
    """The rows and columns that a domain, on the host, reaches over; None if it is empty."""
    rows, columns = np.flatnonzero(domain.any(axis=1)), np.flatnonzero(domain.any(axis=0))
    if rows.size == 0:
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _shift(mask: NDArray[np.bool_], down: int, right: int) -> NDArray[np.bool_]:
    """The mask's value at the neighbour `down` rows below and `right` columns to the right; False outside."""
    height, width = mask.shape
    out = np.zeros_like(mask)
    rows, columns = slice(max(0, -down), height - max(0, down)), slice(max(0, -right), width - max(0, right))
    from_rows, from_columns = slice(max(0, down), height + min(0, down)), slice(max(0, right), width + min(0, right))
    out[rows, columns] = mask[from_rows, from_columns]
    return out
