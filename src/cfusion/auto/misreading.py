"""What a view may be misread by: a surface that is off by delta is looked up delta x parallax pixels beside the place.

Far from edges that changes nothing. Near one, a view with a wide baseline then reads the other surface, and all such
views on the same side do so alike: they would outvote the near ones. So the error of an observation has a second part,
how much the surface changes within the pixels that it may be misread by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cfusion.arrays import DepthMap, chunks, on_host
from cfusion.auto.pooling import window_sums
from cfusion.auto.surface import even_slope
from cfusion.auto.uncertainty import autocorrelation
from cfusion.kernels.contract import Backend, Floats

RADII = (1, 2, 4, 8, 16)  # pixels around which the relief is known; linear in between
TELLING = 4  # nearest other views tell how far the surface is off
AS_NEAR = 1.01  # times
WINDOW, FEWEST = 3, 20  # pixels: residuals are averaged over the square of side 7, if it has as many
OUTLIER = 4.0  # noise scales
SAFETY = 3.0  # times the usual error of the surface: near edges, where it matters, it is larger
NORMAL_MEDIAN = 0.6745  # median of |t| over the deviation of a normal distribution
LEAST_WEIGHT = 1e-3
SHARED = (0.4, 0.6)  # rho of a view's residuals: stereo has 0.65, poses that are off 0.33, white noise below 0.12
FAR = 4.0  # pixels: a view that is usually misread by as many counts half
GIVEN_BACK, MOST_LOST = 0.5, 4.0  # the power of what a pixel lost that is given back, and the most that counts as lost


def surface_doubt(residuals: Floats, scales: Sequence[float], near: Sequence[int], backend: Backend) -> float:
    """How far the surface may be off, in noise scales, at most one.

    Three times the usual mean residual around a pixel. Residuals (K, H, W) are in the unit of the noise; only `near`
    views tell, which are misread least.
    """
    total, count = np.zeros_like(residuals[0]), np.zeros_like(residuals[0])
    for view in near:
        away = residuals[view] / np.float32(max(scales[view], 1e-12))
        believed = np.abs(away) <= OUTLIER
        total += np.where(believed, away, 0)
        count += believed
    total, count = window_sums([total, count], WINDOW, backend)
    mean = np.where(count >= FEWEST, np.abs(total) / np.maximum(count, 1), np.nan).astype(np.float32)
    (usual,), (known,) = backend.medians(mean[None])
    return min(SAFETY * usual / NORMAL_MEDIAN, 1.0) if known else 1.0


def independence(residuals: Floats) -> float:
    """From one, the errors of neighbouring pixels are independent, to zero, they are shared as those of stereo are.

    A view whose errors are shared by neighbours has edges in wrong places itself, the reference no less than others:
    then it is not worth more than they are.
    """
    most, none = SHARED
    return float(np.clip((none - autocorrelation(residuals)) / (none - most), 0, 1))


def nearest(parallax: Floats, reference: int, number: int, backend: Backend) -> list[int]:
    """As many other views in which the surface moves least, and those as near; parallax (K, H, W) as of a source."""
    moved, _ = backend.medians(parallax)
    others = [view for view in range(len(moved)) if view != reference and np.isfinite(moved[view])]
    if not others:
        return []
    limit = AS_NEAR * sorted(moved[view] for view in others)[min(number, len(others)) - 1]
    return [view for view in others if moved[view] <= limit]


class Misreading:
    """The relief of a surface within any number of pixels, beyond what its slope makes: a slope has no other side."""

    def __init__(self, surface: DepthMap, unit: Floats, backend: Backend) -> None:
        slope = even_slope(surface)
        self.reliefs = []
        for radius in RADII:
            relief = backend.local_depth_range(backend.arrays.ascontiguousarray(surface), radius)
            beyond = np.maximum(relief - np.float32(2 * radius) * slope, 0)
            self.reliefs.append(np.where(np.isfinite(relief), beyond, 0) / unit)

    def within(self, pixels: Floats) -> Floats:
        """(H, W) how far apart the surface lies within so many pixels (H, W), in the unit of the noise."""
        out = np.minimum(pixels, 1) * self.reliefs[0]
        for k, (near, far) in enumerate(zip(RADII, RADII[1:], strict=False)):
            share = np.clip((pixels - near) / (far - near), 0, 1)
            out = out + share * (self.reliefs[k + 1] - self.reliefs[k])
        return out

    def weight(self, parallax: Floats, doubt: Floats, noise_square: Floats | float) -> Floats:
        """(.., H, W) noise^2 / (noise^2 + relief^2), the relief within doubt (H, W) times parallax pixels.

        The square, and not the root as for independent errors: misread views err alike.
        """
        relief = self.within(np.nan_to_num(doubt * parallax))
        square = np.square(relief)
        out: Floats = np.maximum(noise_square / (noise_square + square), np.float32(LEAST_WEIGHT)).astype(np.float32)
        return out

    def weigh(
        self, weights: Floats, parallax: Floats, doubt: Floats, noises: Sequence[float], backend: Backend
    ) -> None:
        """Multiply weights (K, H, W) in place by how far each view is read at the right place.

        That is `weight` / (1 + (p / FAR)^2), a view being misread by p pixels usually; the reference does not move, and
        keeps its own. What a pixel lost is given back in part to what it keeps: else the few that are read rightly
        beside an edge would be smoothed away.
        """
        before = weights.sum(axis=0)
        away, known = backend.medians(doubt * parallax)
        far = [1 + (pixels / FAR) ** 2 if count else 1.0 for pixels, count in zip(away, known, strict=True)]
        per_view = np.array([np.square(noises), far], np.float32)[..., None, None]
        per_view = per_view if on_host(weights) else backend.to_device(per_view, np.float32)
        for some, moved, square, further in zip(*map(chunks, (weights, parallax, *per_view)), strict=True):
            some *= self.weight(moved, doubt, square) / further
        after = np.maximum(weights.sum(axis=0), np.float32(1e-6))
        weights *= np.clip(before / after, 1, MOST_LOST) ** np.float32(GIVEN_BACK)
