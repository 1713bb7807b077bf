"""What the joint solvers share: the confidence's side of the energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.energy import Prior
from cfusion.errors import InputError
from cfusion.solvers.task import Floats, Task


@dataclass(frozen=True, eq=False)
class ConfidenceSide:
    """The prior of one task, with its per-pixel rate and strength."""

    prior: Prior
    rate: Floats  # (h, w) 1 / (2 W_i)
    strength: Floats  # (h, w) b_i
    inside: Floats

    @staticmethod
    def of(task: Task) -> ConfidenceSide:
        prior = task.energy.prior
        if prior is None:
            raise InputError(
                "this solver estimates the confidence, and the energy has no prior; give Energy(prior=Prior())"
            )
        trust = np.maximum(task.trust, np.finfo(task.dtype).eps) if task.trust is not None else task.dtype.type(1)
        total = task.observations.total
        return ConfidenceSide(prior, np.full_like(total, prior.rate) / trust, prior.strength(total), task.inside())

    def best(self, misfit: Floats) -> Floats:
        """The closed form of lam at fixed x; zero outside the domain."""
        return np.where(self.inside, self.prior.best(misfit, self.rate, self.strength), 0).astype(misfit.dtype)

    def near(self, lam: Floats, misfit: Floats, nu: Floats | float) -> Floats:
        """One proximal step of lam from where it is."""
        moved = self.prior.near(lam, misfit, self.rate, self.strength, nu)
        return np.where(self.inside, moved, 0).astype(misfit.dtype)

    def value(self, lam: Floats) -> float:
        """The prior's term of the energy, over the domain."""
        keep = self.inside
        return self.prior.value(lam[keep], self.rate[keep], self.strength[keep])


def mean_of(values: Floats, inside: Floats) -> float:
    return float(np.mean(values[inside], dtype=np.float64))
