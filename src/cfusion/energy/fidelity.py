"""phi, the penalty on the difference between x and an observation."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import InputError
from cfusion.kernels.contract import Fidelity

Floats = NDArray[Any]


class DataTerm(Protocol):
    """The interface of a fidelity."""

    @property
    def kind(self) -> Fidelity: ...

    @property
    def corner(self) -> float: ...

    def value(self, t: Floats) -> Floats: ...


@dataclass(frozen=True)
class L1:
    """phi(t) = |t|."""

    kind: ClassVar[Fidelity] = Fidelity.L1
    corner: ClassVar[float] = 1.0

    def value(self, t: Floats) -> Floats:
        return np.abs(t)


@dataclass(frozen=True)
class L2:
    """phi(t) = t^2 / 2."""

    kind: ClassVar[Fidelity] = Fidelity.L2
    corner: ClassVar[float] = 1.0

    def value(self, t: Floats) -> Floats:
        return np.asarray(t) ** 2 / 2


@dataclass(frozen=True)
class Huber:
    """phi(t) = t^2 / (2 delta) up to |t| = delta, |t| - delta / 2 beyond; delta in the unit of depth."""

    delta: float = 0.05
    kind: ClassVar[Fidelity] = Fidelity.HUBER

    def __post_init__(self) -> None:
        if not 0 < self.delta < np.inf:
            raise InputError(f"Huber's delta is {self.delta}; give a positive length in the unit of depth")

    @property
    def corner(self) -> float:
        return self.delta

    def value(self, t: Floats) -> Floats:
        size = np.abs(t)
        return np.where(size <= self.delta, size**2 / (2 * self.delta), size - self.delta / 2)
