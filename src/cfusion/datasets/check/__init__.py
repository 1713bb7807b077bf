"""Whether the data fit the conventions stated: hypotheses compared on neighbours thrown into each other."""

from cfusion.datasets.check.compare import Check, Fit, check, warning

__all__ = ["Check", "Fit", "check", "warning"]
