"""Association: views to a stack."""

from cfusion.association.pull import Pull
from cfusion.association.splat import Splat, reference_index

__all__ = ["Pull", "Splat", "reference_index"]
