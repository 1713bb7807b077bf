"""Depth maps from files, and results into files: one format per module, heavy codecs imported late."""

from cfusion.datasets.bundle import write_bundle
from cfusion.datasets.export import WRITERS, write_views
from cfusion.datasets.read import READERS, read
from cfusion.datasets.views import Views
from cfusion.datasets.write import write_result

__all__ = ["READERS", "WRITERS", "Views", "read", "write_bundle", "write_result", "write_views"]
