"""Fuse height maps that lie on one grid: no cameras, no poses.

Five surveys of one roof on the same raster, with noise, a few blunders, and holes where a survey saw nothing. They
form a stack (K, H, W):

    d_k(u) = h(u) + n_k(u),    NaN where survey k saw nothing

`provenance` of the result: n > 0 measured n times, 0 interpolated within a small hole, -1 unknown (NaN). A hole wider
than about ten pixels stays unknown: nothing is invented.

    python examples/02_height_maps.py [width of the maps, default 240]
"""

import sys

import numpy as np

import cfusion

width = int(sys.argv[1]) if len(sys.argv) > 1 else 240
rng = np.random.default_rng(0)
v, u = np.mgrid[: 2 * width // 3, :width] / width
height = 8 - 6 * np.abs(v - 0.33) - 5.0 * (u > 0.7)  # a gable roof, and a lower one beside it

surveys = height + rng.laplace(0, 0.3, (5, *height.shape))
blunders = rng.random(surveys.shape) < 0.02
surveys[blunders] = rng.uniform(-5, 15, blunders.sum())
surveys[rng.random(surveys.shape) < 0.2] = np.nan  # each survey misses a fifth of the pixels
surveys[:, 20:24, 30:34] = np.nan  # a small hole in all of them: filled
surveys[:, 40:70, 30:60] = np.nan  # a large hole: stays unknown

stack = cfusion.Stack(surveys)
for method in ("median", "auto"):
    result = cfusion.fuse_stack(stack, method)
    error = result.depth - height
    print(f"{method:7} RMSE {np.sqrt(np.nanmean(error**2)):.3f}   largest error {np.nanmax(np.abs(error)):.2f}")
for meaning, chosen in (
    ("measured", result.provenance > 0),
    ("filled", result.provenance == 0),
    ("unknown", result.provenance < 0),
):
    print(f"{meaning:9} {np.mean(chosen):7.2%} of the pixels")
