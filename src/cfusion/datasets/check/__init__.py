"""Whether the data fit the stated conventions: hypotheses are compared by projecting views into their neighbours."""

from cfusion.datasets.check.compare import Check, Fit, check, quick_check, warning
from cfusion.datasets.check.correction import Correction
from cfusion.datasets.check.scales import Scales, align_scales, view_scales

__all__ = ["Check", "Correction", "Fit", "Scales", "align_scales", "check", "quick_check", "view_scales", "warning"]
