"""`auto`: read the views at the surface, weigh them, fit a better surface; weights are chosen by cross-validation.

surface = fit(reference alone), or fit(splat of it and the nearest views), as their residuals decide; then poses are
corrected
repeat: observations = measurements of each view at the surface, without those of another surface or hidden by it
        guess    fit at the usual weights            until the surface is nearly right
        choose   alpha, inverse depth, local weights by the prediction of held-out observations, then fit
        final    fit from there, certified
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from cfusion.auto.cross_validation import choose, usual_choices
from cfusion.auto.edges import edge_weights
from cfusion.auto.first_surface import first_surface
from cfusion.auto.fit import energy_of, fit
from cfusion.auto.occlusion import observe
from cfusion.auto.outlines import UNTOLD
from cfusion.auto.registration import registered
from cfusion.auto.rivals import with_rivals
from cfusion.auto.rounding import rounding_of, spread_over_steps
from cfusion.auto.settings import PAPERS, Settings
from cfusion.auto.small_parts import restore
from cfusion.auto.surface import blend
from cfusion.auto.trust import with_trust
from cfusion.auto.variable import Weighing
from cfusion.energy import L1
from cfusion.kernels.contract import Backend
from cfusion.parameters import parameters_of
from cfusion.solvers import PDHG, Fused, Report
from cfusion.solvers.task import prepare
from cfusion.source import Source

OPTIONAL = ("noise_growth", "margins")  # reported if there are any
Turn = Enum("Turn", ["guess", "choose", "final"])


@dataclass(frozen=True)
class Auto:
    """Re-association, and weights chosen by the prediction of held-out views; nothing to tune."""

    name: str = "auto"
    summary: str = "default, nothing to tune: chooses smoothing and weights by predicting left-out views"
    settings: Settings = field(default_factory=Settings)
    solver: PDHG = field(default_factory=PDHG)

    def __call__(self, source: Source, backend: Backend, report: Report | None = None) -> Fused:
        """Fuse the observations of a source."""
        settings, choices = self.settings, self.settings.choices
        backend.precompile(source.frame.shape, 2, L1().kind, posed=source.rereads, adaptive=True)
        surface, start, edges, readings, turns = None, None, None, 0, self._turns(source)
        inverse, quiet, exact, weighing, outlines, read, smooth = False, False, False, None, UNTOLD, None, None
        roundings = [rounding_of(each, backend) for each in source.maps]
        spread = partial(spread_over_steps, roundings=roundings, backend=backend)
        if source.rereads and source.n_views > 1:
            surface, inverse = first_surface(source, roundings, settings, self.solver, backend)
            if settings.refine_poses:
                source, read = registered(source, surface, backend)
            turns = turns[1:]
        for turn in turns:
            if surface is None:
                judging = stack = source.first(settings.splat, backend)
            else:
                observed, read = observe(source, surface, settings, backend, read, outlines, smooth), None
                stack, judging, surface, noise = observed.stack, observed.judging, observed.surface, observed.noise
                readings, weighing = readings + 1, Weighing(surface, observed.growth, noise)
                quiet, exact, outlines = observed.quiet, observed.exact and not any(roundings), observed.outlines
                edges = edge_weights(surface, noise) if observed.edges else None
            task = prepare(energy_of(choices or PAPERS, settings.lam), spread(stack), backend)
            if choices is None and turn is not Turn.guess:
                judged = task if judging is stack else prepare(task.energy, spread(judging), backend)
                choices = choose(judged, settings, edges, weighing, inverse, quiet, bool(outlines.exact), exact, report)
            guess = choices or replace(usual_choices(task, weighing if inverse else None, exact), edges=quiet)
            solver = self.solver if turn is Turn.final else replace(self.solver, certify=False)
            found = fit(task, guess, solver, settings.fill_radius, start, report, edges, weighing)
            start = found.end if turn is Turn.choose else None
            share = settings.damping if readings > 1 else 1.0
            surface = found.depth if surface is None else blend(surface, found.depth, share)
            if turn is not Turn.final:
                smooth, surface = surface, restore(source, surface, backend)
            if turn is Turn.guess:
                surface = with_rivals(source, surface, backend, within=1)
        chosen = {name: value for name, value in vars(guess).items() if name not in OPTIONAL or value}
        return with_trust(Fused(stack, found.solution(), chosen), source, found, settings, backend, outlines)

    def parameters(self) -> dict[str, object]:
        """Every parameter by name, with its value."""
        return parameters_of(self)

    def _turns(self, source: Source) -> list[Turn]:
        """The turns: the first one uses the splat, each later one a new reading."""
        if not source.rereads:
            return [Turn.final]
        rounds = self.settings.rounds
        return [Turn.guess] * max(rounds - 1, 1) + [Turn.choose] * (rounds > 1) + [Turn.final]
