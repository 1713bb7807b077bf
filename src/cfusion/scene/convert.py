"""The fused views of a scene as `View`s, for writers of other formats."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.geometry import View
from cfusion.scene.fused_view import read_fused
from cfusion.scene.job import Job, open_job


def fused_views(job: Job, views: Sequence[int]) -> Dataset:
    """Views with fused depth, read lazily; their confidence is the probability of an error below 1 %."""
    opened = open_job(job)

    def load(place: int) -> View:
        fused = read_fused(job.folder, views[place])
        confidence = FusedMap(fused.depth, fused.sigma, fused.camera).confidence
        given = opened.views[views[place]]
        return replace(given, depth=fused.depth, confidence=np.where(np.isnan(fused.depth), 0, confidence))

    named = opened.dataset.reference
    reference = views.index(named) if named is not None and named in views else None
    return Dataset(LazyViews.reading(load, len(views)), reference, opened.dataset.unit)
