"""The outcome of a solve, and the evidence of each view about the fused surface."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cfusion.geometry import Stack
from cfusion.solvers.task import Task

Floats = NDArray[Any]


class Status(enum.Enum):
    """The outcome of a solve; the value is a sentence.

    Examples:
        >>> from cfusion import Status
        >>> Status.converged.value
        'The certified duality gap fell below the tolerance.'
    """

    closed_form = "The answer is a closed form; nothing was iterated."
    converged = "The certified duality gap fell below the tolerance."
    at_rounding = "The energy is as small as rounding errors make it; relative to it, the gap may be large."
    settled = "The energy stopped changing before the certified gap reached the tolerance; the gap says what is proven."
    partial_optimum = "The last step of depth and confidence changed the energy by less than the tolerance."
    iteration_limit = "The iteration limit was reached; raise `iterations` or loosen `tolerance`."


@dataclass(frozen=True)
class Outer:
    """One outer step: adaptive methods take turns between confidence and depth, the others have a single step.

    Args:
        energy: after the step: fidelity and regulariser, and the prior where the confidence is estimated.
        gap: (energy - lower bound) / energy of the convex solve for the depth, in which the confidence is fixed and the
            prior left out: its minimum is at least (1 - gap) times its energy. Energies of the size of rounding errors
            count as that size. NaN if the step has no certificate.
        iterations: of this solve.

    Examples:
        >>> from cfusion import Outer
        >>> Outer(energy=12.5, gap=1e-3, iterations=240).iterations
        240
    """

    energy: float
    gap: float
    iterations: int


@dataclass(frozen=True)
class Progress:
    """Progress of a running solve.

    Args:
        stage: what is computed, such as `choosing weights`, `depth`, `depth and confidence 2`.
        done: share of the iteration limit of this solve, from 0 to 1; 1 when it ends. `auto` solves several times.
        gap: certified and relative; NaN or infinite if there is none yet.
        energy: the current energy.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Stack, fuse_stack
        >>> events = []
        >>> stack = Stack(np.random.default_rng(0).random((3, 8, 10)))
        >>> result = fuse_stack(stack, "l1", backend="numpy", progress=events.append)
        >>> events[-1].stage, events[-1].done
        ('depth', 1.0)
    """

    stage: str
    done: float
    gap: float
    energy: float


Report = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Solution:
    """Depth and confidence on the whole image, and the outcome of the solve."""

    depth: Floats  # (H, W), NaN outside the domain
    confidence: Floats  # (H, W) lam, zero outside
    misfit: Floats  # (H, W) sum_k w phi(x - d), zero outside
    status: Status
    history: tuple[Outer, ...] = ()
    gap: float = float("nan")
    energies: dict[str, float] = field(default_factory=dict)
    iterations: int = 0

    @property
    def domain(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.depth)


class Solver(Protocol):
    """Frozen settings, callable on a task."""

    def __call__(self, task: Task, report: Report | None = None) -> Solution: ...


@dataclass(frozen=True, eq=False)
class ViewEvidence:
    """Maps in the reference's frame, and a record; lengths are in the unit of depth."""

    support: NDArray[np.bool_]  # (H, W) the view measured the surface
    contradiction: NDArray[np.bool_]  # (H, W) it saw through it, or an object in front; neither: no evidence
    residual: NDArray[np.float32]  # (H, W) measured minus fused depth, along the reference's ray; NaN if unmeasured
    noise: float  # scale of its residuals at the median depth
    bias: float  # their median
    scale_factor: float  # median of measured over fused depth, for a rescaled view before it was moved
    registration: float  # pixels of apparent misplacement: residuals that grow with the slope
    share_kept: float  # share of its measurements that support the surface
    effect: float  # root mean square change of the surface without it
    turned: float = 0.0  # degrees by which its pose was corrected, and
    shifted: float = 0.0  # distance by which it was, at the median depth of the reference's view
    rescaled: bool = False  # the correction compensates depths that are all too large or too small, by `scale_factor`
    sentence: str = ""  # what is odd about it; empty if nothing

    def moved(self, move: Callable[[Any], Any]) -> "ViewEvidence":
        """The same record with each map moved by `move`."""
        maps = ("support", "contradiction", "residual")
        return replace(self, **{name: move(getattr(self, name)) for name in maps})


@dataclass(frozen=True, eq=False)
class Fused:
    """The result of a method for a source: the weighted observations of the last solve, their solution, its choices."""

    stack: Stack
    solution: Solution
    chosen: dict[str, Any] = field(default_factory=dict)
    sigma: Floats | None = None  # (H, W) standard deviation of the depth's error, if the method estimates it
    views: tuple[ViewEvidence, ...] = ()  # evidence per view, if the method keeps it
