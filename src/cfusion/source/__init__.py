"""Sources: the observations of a frame, and how views become a stack."""

from cfusion.source.motions import Motions
from cfusion.source.reading import Reading, read_at
from cfusion.source.source import Frame, Posed, Registered, Source
from cfusion.source.splat import Splat, reference_index
from cfusion.source.upload import UploadedViews, upload

__all__ = [
    "Frame",
    "Motions",
    "Posed",
    "Reading",
    "Registered",
    "Source",
    "Splat",
    "UploadedViews",
    "read_at",
    "reference_index",
    "upload",
]
