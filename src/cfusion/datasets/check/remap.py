"""What the values of a depth map mean: a scale, and a shift, in depth or in inverse depth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import InputError
from cfusion.geometry import View

DEPTH, INVERSE, VALUE = "depth", "inverse depth", "value"
FORMULAS = {DEPTH: "depth = a value + b", INVERSE: "1 / depth = a / value + b", VALUE: "1 / depth = a value + b"}


@dataclass(frozen=True)
class Remap:
    """The depth of a stored value, by one of `FORMULAS`; the default changes nothing."""

    factor: float = 1.0  # a
    shift: float = 0.0  # b
    variable: str = DEPTH

    def __post_init__(self) -> None:
        if self.variable not in FORMULAS:
            raise InputError(f"variable is {self.variable!r}; give one of {', '.join(FORMULAS)}")
        if not (np.isfinite(self.factor) and np.isfinite(self.shift) and self.factor > 0):
            raise InputError(f"a = {self.factor}, b = {self.shift}; give a positive factor and a number")

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Depths; NaN where they would not be positive."""
        return depths_of(values, self.factor, self.shift, self.variable).astype(np.float32)

    def view(self, view: View) -> View:
        """A view with its depths changed; itself if nothing changes."""
        return view if self == Remap() else replace(view, depth=self(view.depth))


def depths_of(
    values: NDArray[Any], factor: float | NDArray[np.float64], shift: float | NDArray[np.float64], variable: str
) -> NDArray[Any]:
    """Depths by one of `FORMULAS`; NaN where they would not be positive."""
    if variable == DEPTH and np.ndim(shift) == 0 and shift == 0:
        return np.asarray(values * np.float32(factor)) if np.ndim(factor) == 0 else np.asarray(values * factor)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if variable == DEPTH:
            depths = factor * values + shift
        else:
            depths = 1 / (factor * (values if variable == VALUE else 1 / values) + shift)
        return np.asarray(np.where((depths > 0) & np.isfinite(depths), depths, np.nan))


def range_of(values: Sequence[float]) -> str:
    """The smallest and the largest of some numbers, or the one number that they are."""
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"
