"""The settings of `auto`: all have defaults, and all may be set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cfusion.arrays import MOST_RADIUS, is_whole
from cfusion.energy import TGV
from cfusion.errors import InputError
from cfusion.source import Splat

NO_NOISE = 1e-12  # instead of zero: a scale of noise, in its unit, or a weight
LEFT_OPEN = ("alpha", "inverse", "local", "edges", "noise_growth")  # None until chosen


@dataclass(frozen=True)
class Choices:
    """The choices of `auto` for one set of observations."""

    alpha: tuple[float, ...]  # weights of the regulariser, one per order
    inverse: bool = False  # solve for inverse depth: noise that grows like stereo's, or planes over a wide range
    local: bool = False  # weigh observations by the noise of their own map around them
    edges: bool = False  # smooth less across edges of the surface
    noise_growth: tuple[float, ...] | None = None  # weigh by this `DepthNoise`
    margins: tuple[tuple[float, float], ...] = ()  # other alphas, as factors, and how much worse they predict


PAPERS = Choices((1.0, 2.0))  # before the choice is made on the observations


@dataclass(frozen=True)
class Settings:
    """Settings with their units, and the reason for each value."""

    rounds: int = 3  # readings of the views; a fourth changes nothing by more than the tolerance
    # noise scales beyond which an observation is of another surface; exceeded by Laplace noise once in 400
    gate: float = 6.0
    damping: float = 0.5  # of the surface's change between rounds: undamped, steep slopes oscillate
    fill_radius: int = 5  # pixels: holes up to this width within one surface are interpolated, as by the paper's splat
    lam: float = 1.0  # confidence in the energy
    splat: Splat = field(default_factory=Splat)  # for the first surface
    min_confidence: float = 0.8  # pixels with a smaller probability of being right become unknown: see docs/choosing.md
    refine_poses: bool = True  # move views to fit the surface, if that is significant
    keep_views: bool = False  # record the evidence of every view, which takes a refit without each
    alpha: tuple[float, ...] | None = None  # None, as for the next four: chosen by cross-validation
    inverse: bool | None = None
    local: bool | None = None
    edges: bool | None = None
    noise_growth: tuple[float, ...] | None = None  # used with alpha only

    def __post_init__(self) -> None:
        if self.rounds != int(self.rounds) or self.rounds < 1:
            raise InputError(f"rounds is {self.rounds}; it is a whole number, at least 1")
        if not self.gate > 0:
            raise InputError(f"gate is {self.gate}; it is positive, in noise scales")
        if not 0 < self.damping <= 1:
            raise InputError(f"damping is {self.damping}; it is a share, above 0 and at most 1")
        if not is_whole(self.fill_radius, 0, MOST_RADIUS):
            raise InputError(f"fill_radius is {self.fill_radius}; it is a whole number of pixels, 0 to {MOST_RADIUS}")
        if not 0 < self.lam < float("inf"):
            raise InputError(f"lam is {self.lam}; the confidence is positive and finite")
        if not 0 <= self.min_confidence < 1:
            raise InputError(
                f"min_confidence is {self.min_confidence}; it is a probability, from 0 (keep all) to below 1"
            )
        for name in ("refine_poses", "keep_views"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {str(getattr(self, name))[:40]}; it is true or false")
        if self.alpha is not None:
            object.__setattr__(self, "alpha", TGV(len(self.alpha), self.alpha).alpha)

    def decided(self, parameters: Mapping[str, Any]) -> Settings:
        """The same settings with open ones set to the choices in a result's parameters."""
        chosen: dict[str, Any] = {name: parameters.get(name) for name in LEFT_OPEN}
        return replace(self, **chosen)

    @property
    def choices(self) -> Choices | None:
        """The choices if alpha is given; None if it is to be chosen."""
        if self.alpha is None:
            return None
        return Choices(self.alpha, bool(self.inverse), bool(self.local), bool(self.edges), self.noise_growth)
