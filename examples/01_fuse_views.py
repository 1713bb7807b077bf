"""Fuse noisy views of an object into one depth map, without tuning.

Eleven cameras, five degrees apart on a circle of radius 3, look at an object of size 2. Each measures depth with
Laplace noise of scale 0.6, so that a single map is useless:

    d_k(u) = z_k(u) + n_k(u),    p(n) = exp(-|n| / 0.6) / 1.2

The result is the depth map x of the middle camera. `auto` projects the current x into every view, reads the
measured depth d_k there, and minimises

    TGV^2_alpha(x) + sum_i sum_k w_ki |x_i - d_ki|

Both steps are repeated. alpha and all other weights are chosen on held-out views. RMSE is taken after subtracting
each map's mean.

    python examples/01_fuse_views.py [width of the images, default 320]
"""

import sys

import numpy as np

import cfusion
from cfusion.synthetic import PAPER_CAMERA, Laplace, blob, object_bundle

width = int(sys.argv[1]) if len(sys.argv) > 1 else 320
camera = PAPER_CAMERA.scaled(width / PAPER_CAMERA.width)
views, truth = object_bundle(blob(), Laplace(0.6), np.random.default_rng(0), camera=camera)

for method in ("input", "median", "auto"):
    result = cfusion.fuse(views, method)
    scores = cfusion.evaluate(result.depth, truth, camera)
    print(f"{method:10} RMSE {scores.rmse:.4f}   normals off by {scores.nmae:.3f} rad   {result.seconds:.1f} s")

print(f"\n{result.status.value}")
print(f"auto chose alpha = ({', '.join(f'{a:.2f}' for a in result.parameters['alpha'])})")
print(f"energy within {result.gap:.1e} of the least possible, relatively")
