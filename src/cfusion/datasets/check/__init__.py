"""Whether the data fit the conventions stated: hypotheses compared on neighbours thrown into each other."""

from cfusion.datasets.check.compare import Check, Fit, check, quick_check, warning
from cfusion.datasets.check.mend import Mending
from cfusion.datasets.check.scales import Scales, align_scales, view_scales

__all__ = ["Check", "Fit", "Mending", "Scales", "align_scales", "check", "quick_check", "view_scales", "warning"]
