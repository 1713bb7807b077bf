"""The part of an image that a figure shows."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap
from cfusion.geometry import Camera

MARGIN = 0.04  # of the image, around the known pixels


@dataclass(frozen=True)
class Frame:
    """The part of the image that is shown: the known pixels of the truth, with a margin."""

    rows: slice
    columns: slice
    camera: Camera  # of the part

    @classmethod
    def around(cls, truth: DepthMap, camera: Camera) -> "Frame":
        """The known pixels of the truth with a margin of 4 % of the image."""
        known = np.isfinite(truth)
        rows, columns = _extent(known, axis=0), _extent(known, axis=1)
        size = {"width": columns.stop - columns.start, "height": rows.stop - rows.start}
        return cls(rows, columns, replace(camera, cx=camera.cx - columns.start, cy=camera.cy - rows.start, **size))

    def of(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The part of a map (H, W)."""
        return values[self.rows, self.columns]


def _extent(known: NDArray[np.bool_], axis: int) -> slice:
    """From the first to the last row (axis 0) or column (axis 1) with a known pixel, with a margin."""
    length = known.shape[axis]
    places = np.nonzero(known)[axis]
    if places.size == 0:
        return slice(0, length)
    margin = round(MARGIN * length)
    return slice(max(0, int(places.min()) - margin), min(length, int(places.max()) + 1 + margin))
