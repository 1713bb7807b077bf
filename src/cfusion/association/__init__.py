"""Association: views to a stack."""

from cfusion.association.batches import Batch, upload
from cfusion.association.pull import Pull
from cfusion.association.splat import Splat, reference_index

__all__ = ["Batch", "Pull", "Splat", "reference_index", "upload"]
