"""A data set written back in its own layout: the user's files, with new depth maps in place of the old ones."""

from cfusion.datasets.write_back.fused import FusedMap
from cfusion.datasets.write_back.layouts import LAYOUTS, Layout, root_of
from cfusion.datasets.write_back.take_over import take_over

__all__ = ["LAYOUTS", "FusedMap", "Layout", "root_of", "take_over"]
