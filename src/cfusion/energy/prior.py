"""The prior by which the confidence is estimated: rate_i lam_i - b_i log lam_i at every pixel.

In the paper's symbols rate = 1 / (2 W) and b is one number; with a Laplace likelihood and a Gamma(a, rate) prior,
b_i = K_i + a - 1, where K_i is the total weight of the pixel's observations.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import InputError

Floats = NDArray[Any]


@dataclass(frozen=True)
class Prior:
    """Gamma prior of the confidence; `b` is the paper's single b, None means b_i = K_i + shape - 1.

    With `trusting`, W_i is scaled by the mean weight of the pixel's observations: a prior from the scene's geometry.
    """

    shape: float = 1.5
    rate: float = 0.1  # 1 / (2 W), in the unit of phi
    b: float | None = None
    trusting: bool = False

    def __post_init__(self) -> None:
        if not (self.rate > 0 and np.isfinite(self.rate)):
            raise InputError(f"the prior's rate is {self.rate}; give 1/(2W), positive and finite")
        if self.b is not None and not self.b > 0:
            raise InputError(f"the prior's b is {self.b}; give a positive number")
        if self.b is None and not self.shape > 0.5:
            raise InputError(f"the prior's shape is {self.shape}; give a positive number (K + shape - 1 > 0 for K = 1)")

    def strength(self, total: Floats) -> Floats:
        """b_i from the total weight at each pixel; an unobserved pixel keeps the prior's mode."""
        if self.b is not None:
            return np.full_like(total, self.b)
        return np.where(total > 0, total + (self.shape - 1), max(self.shape - 1, 0.5)).astype(total.dtype)

    def value(self, lam: Floats, rate: Floats, strength: Floats) -> float:
        """sum_i rate_i lam_i - b_i log lam_i."""
        lam = np.positive(lam, dtype=np.float64)
        return float(np.sum(rate * lam - strength * np.log(lam)))

    def best(self, misfit: Floats, rate: Floats, strength: Floats) -> Floats:
        """argmin over lam of lam misfit + rate lam - b log lam = b / (misfit + rate)."""
        return (strength / (misfit + rate)).astype(misfit.dtype, copy=False)

    def near(self, lam: Floats, misfit: Floats, rate: Floats, strength: Floats, nu: Floats | float) -> Floats:
        """argmin with (lam' - lam)^2 / (2 nu) added: the positive root of lam'^2 - a lam' - b nu = 0."""
        a = lam - nu * (np.positive(misfit, dtype=np.float64) + rate)
        root = np.sqrt(a * a + 4 * strength * nu)
        # for negative a, where a + root would cancel
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(a >= 0, (a + root) / 2, 2 * strength * nu / (root - a)).astype(misfit.dtype)
