"""The result of `auto` with its reliability: confidence, sigma, evidence; what is not believed becomes unknown."""

from __future__ import annotations

from dataclasses import replace

from cfusion.auto.assess import assess, leave_unknown
from cfusion.auto.fit import Fit
from cfusion.auto.outlines import Outlines
from cfusion.auto.settings import Settings
from cfusion.auto.view_report import report
from cfusion.kernels.contract import Backend
from cfusion.solvers import Fused
from cfusion.source import Source


def with_trust(
    fused: Fused, source: Source, found: Fit, settings: Settings, backend: Backend, outlines: Outlines
) -> Fused:
    """The result with its confidence, sigma and evidence; pixels below the least confidence are unknown."""
    assessed = assess(source, found, outlines, backend)
    views = report(found, assessed, source, backend) if settings.keep_views else ()
    depth, confidence, sigma = leave_unknown(assessed, fused.solution.depth, settings.min_confidence)
    solution = replace(fused.solution, depth=depth, confidence=confidence)
    return replace(fused, solution=solution, sigma=sigma, views=views)
