"""Which observations are of the surface: read the views at it, leave out what is another surface, weigh the rest."""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto import noise
from cfusion.auto.settings import Settings
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend
from cfusion.source import Source


def observe(source: Source, surface: DepthMap, settings: Settings, backend: Backend) -> Stack:
    """The stack (K, H, W) of what every view measured of the surface, weighed by the noise model.

    An observation further than `gate` times its view's noise scale from the surface is another surface (occlusion),
    and is left out. A pixel that the reference did not measure is kept only if others confirm it.
    """
    reference, gate = source.reference, settings.gate
    reading = source.at(surface, [0.0] * source.n_views, backend)
    growth = noise.depth_noise(reading.depths, surface, backend)
    slope = noise.usual_slope(surface, growth, backend)
    scales, known = noise.residual_scales(reading.depths, surface, growth, backend)
    if np.nanmedian(scales) < slope:  # finer than the surface changes from pixel to pixel: read between pixels
        agreements = [gate * max(scale, slope) for scale in scales]
        reading = source.at(surface, agreements, backend)
        scales, known = noise.residual_scales(reading.depths, surface, growth, backend)
    depths, weights = reading.depths, reading.weights
    # nothing stands between the reference and what it measured
    thresholds = [np.inf if k == reference else gate * max(s, slope, 1e-12) for k, s in enumerate(scales)]
    # where the reference measured most of what it looks at, the rest are holes; else the rest is background
    trusted = source.weighed
    measured = int((weights[reference] > 0).sum()) if trusted else known[reference]
    holes = 2 * measured > surface.size
    backend.reject_occluded(depths, weights, surface, growth, thresholds, reading.seen, reference, holes)
    weighed = trusted | noise.weigh_views(weights, depths, surface, growth, backend)
    weighed |= noise.weigh_edges(weights, surface, growth, scales, reference, backend)
    frame = source.frame
    return Stack.unchecked(depths, weights if weighed else None, frame.camera, frame.image)
