"""The functions of a backend: n iterations on a problem, its energy, a lower bound, and sums per pixel.

All arrays are contiguous and of one floating type. They contain no NaN: a missing observation is +inf with weight zero,
a pixel outside the domain has no links.
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
from cfusion.kernels.tracing import neighbour

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
    workspace: Any = None  # the backend's own data about this state, which nothing else reads
    ending: bool = False  # the solver expects to stop: do not compute the next block speculatively
    _lent: bool = False  # another state shares these arrays

    def spare(self) -> State:
        """Arrays of the same shape to write the next state into."""
        if self._spare is None:
            # not by `empty_like`, which takes three times as long on a GPU
            primal, dual = (type(each)(each.shape, each.dtype) for each in (self.primal, self.dual))
            self._spare = State(primal, dual)
        return self._spare

    def branch(self) -> State:
        """A copy of this state, to which the backend's workspace moves.

        Both share their arrays until one of them is written to.
        """
        workspace, self.workspace = self.workspace, None
        spare, self._spare = self._spare, None
        self._lent = True
        return State(self.primal, self.dual, spare, workspace, _lent=True)

    def own(self) -> None:
        """Copy shared arrays, before a backend writes into them."""
        if self._lent:
            self.primal, self.dual, self._lent = self.primal.copy(), self.dual.copy(), False

    def release(self) -> None:
        """Free the spare arrays and the workspace."""
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
    """A rough solve that the backend monitors itself: until the energy settles, with self-correcting steps.

    The rules are those of `solvers/pdhg.py` and `solvers/steps.py`; their constants are given here.
    """

    tolerance: float  # relative change of the energy between two checks
    block: int  # iterations between two checks
    step_scale: float
    per_scale: float  # s over the step scale
    norm: float  # of the scaled operator
    ways: tuple[float, float, float]  # displacement of primal over dual, in units of s: shortest, usual, longest
    correction: float  # largest factor on the step scale
    checks: int  # of the balance, at most
    every: int  # row stride of the snapshot from which displacement is measured
    floor: tuple[float, float, float]  # of the energy: share of the first one, per unit of mass, per pixel
    asked: bool = True  # for energies and iterations at the end; if not, a backend need not wait for the device


@dataclass(frozen=True)
class Settled:
    """The outcome of such a solve."""

    energies: Energies
    iterations: int
    step_scale: float
    floor: float  # energies below it count as zero
    settled: bool  # else the iteration limit was reached


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
    """A stack in the coordinates of a task, and sums from which its range and noise follow."""

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
    """Observations held out of a fit, and the coordinates of the fit: depth, or its inverse, minus a centre."""

    depths: Floats  # (K, H, W) float32, NaN where nothing was held out
    weights: Floats | None  # (K, H, W) float32
    window: Window
    inside: Mask  # (h, w) pixels of the window that count
    centre: float
    inverse: bool


@dataclass(frozen=True)
class Box:
    """The range of x, which matters only for pixels without observations."""

    low: float
    high: float


class Memory(Protocol):
    """The memory of a backend, and its queues of work."""

    NAME: str

    @property
    def arrays(self) -> Any:
        """The module of its array functions: numpy, or one with the same functions for another memory."""

    def to_device(self, array: Any, dtype: Any) -> Any:
        """A copy in the backend's memory, for the backend to keep and overwrite; of a list of maps, their stack."""

    def to_host(self, array: Any) -> Any:
        """The array in NumPy's memory."""

    def precompile(self, shape: tuple[int, int], order: int, fidelity: Fidelity, posed: bool, adaptive: bool) -> None:
        """Compile the kernels for this kind of problem in the background, or several at a time.

        posed: observations are read from posed views; adaptive: their weights are chosen.
        """

    def stream(self) -> AbstractContextManager[Any]:
        """Context manager: this thread's kernels run on their own stream."""


class Convex(Protocol):
    """The convex problem at fixed confidence: iterations, energy, certificate."""

    def links_of(self, domain: Mask, /) -> Links:
        """The same as `links_of` in this module."""

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
        """The weighted median (H, W) of sorted observations; for L2, which stores only it, the mean."""

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

        With a plan, at most `count`, until the energy settles; None means that the backend has run nothing and leaves
        it to the solver.
        """

    def energy(self, problem: Problem, state: State) -> Energies:
        """The terms of the energy at the state's primal variables."""

    def bound(
        self, problem: Problem, state: State, box: Box, rounds: int, most: int = 0, enough: float = np.inf
    ) -> float:
        """A lower bound of the minimum over the box, from the state's dual variables repaired by `rounds` steps.

        The repair is repeated, up to `most` steps, while the repaired dual needs a factor below `FEASIBLE` and the
        bound is below `enough`.
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
        """sum_k w_k phi(x - d_k), (H, W), from which the confidence is estimated."""

    def to_image(
        self, part: Floats, domain: Mask, window: Window, outside: float, centre: float, inverse: bool, /
    ) -> Floats:
        """(H, W) float32: part + centre (or its inverse) on the domain, in the whole image; `outside` elsewhere."""


class Raster(Protocol):
    """Cameras and pixels. A backend with its own memory takes a leading axis of views, cameras and motions.

    `read_view` takes several views at once on the host as well, as sequences of their arguments.

    A camera is its packed numbers (`Camera.numbers`), a motion a (3, 4) matrix.
    """

    def reproject(
        self, depth: Floats, camera: Floats, onto: Floats, onto_from_view: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """u, v and z, (H W,) each, of the points of a depth map in another camera, in double precision.

        u and v are NaN for points behind the camera.
        """

    def read_view(
        self,
        x: Floats,
        reference_camera: Floats,
        view_camera: Any,
        view_from_reference: Any,
        depth: Any,
        confidence: Any,
        agreement: Any,
    ) -> tuple[Floats, Floats, Floats]:
        """d = x + (z_measured - z_predicted) / (dz / dx) along the reference's rays, its weight, and where it is seen.

        z_measured is bilinear where the four pixels around differ by at most `agreement`, else that of the nearest.
        """

    def parallax(self, surface: Floats, camera: Floats, onto: Floats, onto_from_camera: Floats, /) -> Floats:
        """Displacement (K, H, W), in pixels, of a point of the surface in each of K cameras, per unit of its depth.

        NaN where the surface is unknown or behind the camera. Lens distortion affects where a point is seen, but not
        its derivative.
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
        """Mask (K, H, W) of points of the camera's surface that lie behind others of it in each of K cameras.

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
    """Statistics of a stack, for noise and choices."""

    def count_observations(self, depths: Floats, weights: Floats | None, /) -> Coverage:
        """Count a stack's observations; the middle map is number K // 2."""

    def medians(
        self, rows: Floats, above: float = -np.inf, /, *, sides: bool = False, share: float = 0.5
    ) -> tuple[list[float], list[int]]:
        """Per row (map, stack, ..): median of the finite values > `above` (NaN if none), and their number.

        Of another `share` than a half, as `numpy.quantile`. With `sides`: of |t| over all rows, then of the positive t
        of each row, then of |t| of the negative t of each row.
        """

    def pooled(self, maps: Floats, radius: int, passes: int, times: float = 1.0, /) -> Floats:
        """Means (n, H, W) in float64 over squares of side 2 radius + 1, repeated `passes` times, times a factor.

        Zero outside.
        """

    def local_noise_weights(self, depths: Floats, weights: Floats | None, depth: Floats, /) -> Floats:
        """The weights (K, H, W) times b0 (n + a) / (m + a b0); zero where depth is unknown.

        n is the number of the map's observations around the pixel, m the sum of their residuals; b0 and a: see
        `kernels/numpy/preparing.py`.
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

        (1) |d_k - x| / u > thresholds[k], with u = unit(x), or unit(sqrt(d_k x)) if d_k is nearer. (2) All at a pixel
        without a reference measurement, unless confirmed: by more views than contradict it (`holes`), or by at least
        half of the views that see it.
        """

    def split_folds(
        self, depths: Floats, weights: Floats | None, folds: Mask, block: int, /
    ) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None], tuple[int, int]]:
        """A stack without the held-out observations, the held-out ones alone, and the number of known depths of each.

        Block (i, j), counted from the image's middle, belongs to fold (i + j) mod n; `folds` (K, n) gives the maps that
        each fold holds out.
        """

    def score_difference(self, x: Floats, other: Floats, held: HeldOut, /) -> tuple[float, float, float]:
        """Weighted mean of |other - d| - |x - d| over held-out d, its standard error; mean of |other - d|."""


class Backend(Memory, Convex, Raster, Statistics, Protocol):
    """The functions of a backend module."""


def primal_planes(order: int) -> int:
    return order * (order + 1) // 2


def dual_planes(order: int) -> int:
    return order * (order + 3) // 2


def links_of(domain: NDArray[np.bool_]) -> Links:
    """The planes of the dual that exist at each pixel: those whose differences stay inside the domain.

    First order (forward): x here and its right, lower neighbour. Second (backward): the components of v exist here
    and at the left, upper neighbour. Third (forward): the components of w exist here and at the right, lower one.
    """

    def beside(mask: Mask, down: int, right: int) -> Mask:
        shifted: Mask = neighbour(mask, down, right, False)
        return shifted

    x = domain
    v = [x & beside(x, 0, 1), x & beside(x, 1, 0)]
    w = [
        v[0] & beside(v[0], 0, -1),
        v[1] & beside(v[1], 0, -1) & v[0] & beside(v[0], -1, 0),
        v[1] & beside(v[1], -1, 0),
    ]
    third = [
        w[0] & beside(w[0], 0, 1),
        w[1] & beside(w[1], 0, 1) & w[0] & beside(w[0], 1, 0),
        w[2] & beside(w[2], 0, 1) & w[1] & beside(w[1], 1, 0),
        w[2] & beside(w[2], 1, 0),
    ]
    links = domain * np.uint16(INSIDE)
    for plane, exists in enumerate([*v, *w, *third]):
        links |= exists * np.uint16(1 << plane)
    return links


def window_of(domain: Mask) -> Window | None:
    """The bounding rows and columns of a domain on the host; None if it is empty."""
    rows, columns = np.flatnonzero(domain.any(axis=1)), np.flatnonzero(domain.any(axis=0))
    if rows.size == 0:
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
