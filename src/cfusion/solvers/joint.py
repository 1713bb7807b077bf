"""The confidence's part of the energy, shared by the joint solvers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.energy import Prior
from cfusion.errors import InputError
from cfusion.kernels.contract import Floats
from cfusion.kernels.one_pass import one_pass
from cfusion.solvers.task import Task


@dataclass(frozen=True, eq=False)
class ConfidenceUpdate:
    """The prior of one task, with its rate and strength per pixel."""

    prior: Prior
    rate: Floats  # (h, w) 1 / (2 W_i)
    strength: Floats  # (h, w) b_i
    inside: Floats

    @staticmethod
    def of(task: Task) -> ConfidenceUpdate:
        prior = task.energy.prior
        if prior is None:
            raise InputError(
                "this solver estimates the confidence, but the energy has no prior; give Energy(prior=Prior())"
            )
        weight = task.mean_weight
        total = task.observations.total
        rate = np.full_like(total, prior.rate)
        if weight is not None:
            rate = rate / np.maximum(weight, np.finfo(task.dtype).eps)
        strength = prior.strength(total) if prior.b is not None else _strength(total, prior=prior)
        return ConfidenceUpdate(prior, rate, strength, task.inside())

    def best(self, misfit: Floats) -> Floats:
        """The closed form of lam at fixed x; zero outside the domain."""
        return self.prior.best(misfit, self.rate, self.strength) * self.inside

    def near(self, lam: Floats, misfit: Floats, nu: Floats | float) -> Floats:
        """One proximal step from lam."""
        moved = self.prior.near(lam, misfit, self.rate, self.strength, nu)
        return np.where(self.inside, moved, 0).astype(misfit.dtype)

    def value(self, lam: Floats) -> float:
        """The prior's term of the energy, summed over the domain."""
        outside = (~self.inside).astype(lam.dtype)  # 1 there, as log 1 = 0
        return self.prior.value(lam + outside, self.rate * self.inside, self.strength)


@one_pass
def _strength(total: Floats, *, prior: Prior) -> Floats:
    """b_i (h, w) that depends on the total weight."""
    return prior.strength(total)


def mean_of(values: Floats, inside: Floats) -> float:
    return float(np.mean(values[inside], dtype=np.float64))
