"""Results as exhibits of a page: depth, confidence, error and surface side by side, on one scale for all."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap
from cfusion.geometry import Camera, View
from cfusion.report.figures import (
    Limits,
    confidence_picture,
    depth_picture,
    error_picture,
    robust_limits,
    surface_picture,
)
from cfusion.report.page import Exhibit, Picture

if TYPE_CHECKING:
    from cfusion.result import Result

MARGIN = 0.04  # of the image, around what is known


def exhibits(results: Sequence["Result"], truth: DepthMap, reference: View) -> Iterator[Exhibit]:
    """The truth beside what the reference view saw of it, then what each method made of it, one by one."""
    frame = Frame.around(truth, reference.camera)
    scales = Scales(robust_limits(truth), _common_error_limit(results, truth))
    yield _truth_exhibit(truth, reference.depth, frame, scales)
    for result in results:
        yield _result_exhibit(result, truth, frame, scales)


@dataclass(frozen=True)
class Scales:
    """Colour scales shared by all exhibits."""

    depth: Limits
    error: float


@dataclass(frozen=True)
class Frame:
    """The part of the image that is shown: all that is known of the truth, and a margin."""

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
        """That part of a map (H, W)."""
        return values[self.rows, self.columns]


def _truth_exhibit(truth: DepthMap, observed: DepthMap, frame: Frame, scales: Scales) -> Exhibit:
    true, seen = frame.of(truth), frame.of(observed)
    pictures = [
        Picture("true depth", depth_picture(true, scales.depth)),
        Picture("true surface", surface_picture(true, frame.camera)),
        Picture("observed depth", depth_picture(seen, scales.depth)),
        Picture("observed error", error_picture(seen, true, scales.error)),
    ]
    return Exhibit("truth", "The scene without noise, and the reference view as it was observed.", pictures)


def _result_exhibit(result: "Result", truth: DepthMap, frame: Frame, scales: Scales) -> Exhibit:
    depth = frame.of(result.depth)
    pictures = [
        Picture("depth", depth_picture(depth, scales.depth)),
        Picture("confidence", confidence_picture(frame.of(result.confidence))),
        Picture("error", error_picture(depth, frame.of(truth), scales.error)),
        Picture("surface", surface_picture(depth, frame.camera)),
    ]
    return Exhibit(result.method, _sentence(result), pictures)


def _common_error_limit(results: Sequence["Result"], truth: DepthMap) -> float:
    """One limit for all error pictures: the median over the results of the 95th percentile of |error|."""
    errors = [np.abs(result.depth - truth) for result in results]
    percentiles = [np.nanpercentile(error, 95) for error in errors if np.isfinite(error).any()]
    return float(np.median(percentiles)) if percentiles and np.median(percentiles) > 0 else 1.0


def _extent(known: NDArray[np.bool_], axis: int) -> slice:
    """From the first row (axis 0) or column (axis 1) with a known pixel to the last, and a margin."""
    length = known.shape[axis]
    places = np.nonzero(known)[axis]
    if places.size == 0:
        return slice(0, length)
    margin = round(MARGIN * length)
    return slice(max(0, int(places.min()) - margin), min(length, int(places.max()) + 1 + margin))


def _sentence(result: "Result") -> str:
    """How it ended, how close to the optimum, and how long it took."""
    parts = [str(result.status.value)]
    if math.isfinite(result.gap):
        parts.append(f"Certified relative gap {result.gap:.1e} after {result.iterations} iterations.")
    parts.append(f"{result.seconds:.2f} s on {result.backend}.")
    return " ".join(parts)
