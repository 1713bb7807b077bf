"""Depth maps from files and results to files: `readers/` has one format per file, `check/` tests conventions."""

from cfusion.datasets.dataset import Dataset
from cfusion.datasets.read import READERS, read
from cfusion.datasets.readers.bundle import write_bundle
from cfusion.datasets.write_result import write_result
from cfusion.datasets.write_views import WRITERS, write_views

__all__ = ["READERS", "WRITERS", "Dataset", "read", "write_bundle", "write_result", "write_views"]
