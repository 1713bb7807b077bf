"""What a solve gives back."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.geometry import Stack
from cfusion.solvers.view_evidence import ViewEvidence

Floats = NDArray[Any]


class Status(enum.Enum):
    """How a solve ended; the value is a sentence.

    Examples:
        >>> from cfusion import Status
        >>> Status.converged.value
        'The certified duality gap fell below the tolerance.'
    """

    closed_form = "The answer is a closed form; nothing was iterated."
    converged = "The certified duality gap fell below the tolerance."
    at_rounding = "The energy left is about that of rounding; the gap is a part of so little, and may be large."
    settled = "The energy and the primal-dual iterates settled; the certified gap is looser than the tolerance."
    partial_optimum = "Neither the depth nor the confidence alone can lower the energy by more than the tolerance."
    iteration_limit = "The iteration limit was reached; raise `iterations` or loosen `tolerance`."


@dataclass(frozen=True)
class Outer:
    """One outer step: the energy after it, the certified gap of its convex solve, its iterations.

    Args:
        energy: of depth and confidence together; no unit.
        gap: relative, at most this fraction above the minimum.
        iterations: of the convex solve.

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
    """Where a running solve is; `done` runs from 0 to 1.

    Args:
        stage: in words.
        done: share of the most iterations that it may take.
        gap: certified and relative, NaN or infinite while there is none.
        energy: now.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Stack, fuse_stack
        >>> heard = []
        >>> stack = Stack(np.random.default_rng(0).random((3, 8, 10)))
        >>> result = fuse_stack(stack, "l1", backend="numpy", progress=heard.append)
        >>> heard[-1].stage, heard[-1].done
        ('depth', 1.0)
    """

    stage: str
    done: float
    gap: float
    energy: float


Report = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Solution:
    """Depth and confidence on the whole image, and how they came about."""

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


@dataclass(frozen=True, eq=False)
class Fused:
    """What a method makes of a source: the weighed observations it ended with, their solution, what it decided."""

    stack: Stack
    solution: Solution
    chosen: dict[str, Any] = field(default_factory=dict)
    sigma: Floats | None = None  # (H, W) of the depth's error, for methods that estimate it
    views: tuple[ViewEvidence, ...] = ()  # what each view says, for methods that keep it
