"""The maps of a page, and how coarse each may become."""

import base64
import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Image
from cfusion.errors import MissingDependency
from cfusion.io.colour_pictures import png_bytes
from cfusion.view.content import Content, median_of_views, shown_views
from cfusion.view.layers import RELATIVE_STEP, Layer
from cfusion.view.readings import Residuals

RESIDUAL_STEP = 1 / 16  # of the median noise, at best; a quarter of it at worst
CLIPPED = 30.0  # median noises at which residuals are clipped
STEPS_AT_WORST = 800  # depth steps across a map of another than the first result
JPEG_QUALITY = 88


def page_layers(content: Content, residuals: Callable[[int], Residuals] | None, usual_noise: float) -> list[Layer]:
    """All maps, the first result's first."""
    stride = content.stride
    found: list[Layer] = []
    for at, result in enumerate(content.results):
        found += _of_result(result, at, stride)
    held: list[Residuals] = []
    names = content.names()
    for k in shown_views(len(names)) if residuals is not None else ():
        assert residuals is not None
        each = residuals(k)[::stride, ::stride]
        held.append(each)
        step = RESIDUAL_STEP * usual_noise
        clipped = np.clip(each, -CLIPPED * usual_noise, CLIPPED * usual_noise) if usual_noise > 0 else each
        found.append(Layer(f"residual-{k}", clipped, step, coarsest=usual_noise / 4, reducible=True))
    median = _median(content, held)
    for key, values in (("input", content.input_depth()), ("median", median), ("truth", content.truth)):
        if values is not None:
            shown = values if key == "median" else values[::stride, ::stride]
            found.append(Layer(key, shown, coarsest=_coarse(shown)))
    return found


def _of_result(result: Any, at: int, stride: int) -> list[Layer]:
    """Depth, sigma, confidence and provenance of one result; those of the first stay fine."""
    first = at == 0
    depth = np.asarray(result.depth)[::stride, ::stride]
    found = [Layer(f"depth-{at}", depth, coarsest=0.0 if first else _coarse(depth))]
    for name in ("sigma", "confidence"):
        values = getattr(result, name, None)
        if values is not None:
            shown, worst = np.asarray(values)[::stride, ::stride], 0.02 if first else 0.15
            found.append(Layer(f"{name}-{at}", shown, RELATIVE_STEP, coarsest=worst, logarithmic=True, spare=not first))
    provenance = getattr(result, "provenance", None)
    if provenance is not None:
        counts = np.asarray(provenance)[::stride, ::stride].astype(np.float32)
        found.append(Layer(f"provenance-{at}", np.where(counts < 0, np.nan, counts), step=1.0))
    return found


def _median(content: Content, held: list[Residuals]) -> DepthMap | None:
    """The result of method `median` if it is on the page, else the median of the views at the surface."""
    stride = content.stride
    if any(result.method == "median" for result in content.results):
        return None  # it is on the page already
    return median_of_views(np.asarray(content.first.depth, np.float32)[::stride, ::stride], held)


def _coarse(depth: NDArray[np.generic]) -> float:
    known = np.asarray(depth, np.float64)[np.isfinite(depth)]
    if known.size == 0:
        return 0.0
    low, high = np.percentile(known, (1, 99))
    return float(high - low) / STEPS_AT_WORST


def image_uri(image: Image | None, stride: int) -> str | None:
    """The reference image as a data URI: JPEG if Pillow is installed, else PNG."""
    if image is None:
        return None
    levels = np.rint(255 * np.clip(np.asarray(image, np.float32)[::stride, ::stride], 0, 1)).astype(np.uint8)
    try:
        from cfusion.io.codecs.png import pillow_image

        stream = io.BytesIO()
        pillow_image().fromarray(levels).save(stream, format="JPEG", quality=JPEG_QUALITY)
        return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
    except MissingDependency:
        return "data:image/png;base64," + base64.b64encode(png_bytes(levels)).decode("ascii")
