"""Ask the confidence which pixels to trust, and check its answer.

The views of example 01 again, but in each of them a third of the pixels, in patches, is five times noisier, and 5 %
are gross outliers. `auto` weighs every observation by how quiet its own map is around it, where the held-out views
say that this helps; `confidence` is what the observations of a pixel turned out to be worth on average, and

    sigma = sqrt(2) mean_k |d_k - x| / sqrt(n)

the standard error of the pixel's own n observations.

Does the confidence rank the errors? Remove the least trusted pixels and see how the mean error of the rest falls.
AUSE is the area between that curve and the one that removes the largest errors first: 0 is perfect, and the area of
a random order is printed beside it. ROC-AUC is the chance that a pixel outside the worst tenth is trusted more than
one inside it: 1 is perfect, 0.5 is chance.

    python examples/04_confidence.py [width of the images, default 320]
"""

import sys

import numpy as np

import cfusion
from cfusion.metrics import ause, roc_auc
from cfusion.synthetic import PAPER_CAMERA, Laplace, Outliers, Regional, blob, object_bundle

width = int(sys.argv[1]) if len(sys.argv) > 1 else 320
camera = PAPER_CAMERA.scaled(width / PAPER_CAMERA.width)
noise = Regional(fraction=1 / 3, factor=5.0, base=Laplace(0.05)) + Outliers(0.05, low=1.0, high=5.0)
rng = np.random.default_rng(0)
views, truth = object_bundle(blob(), noise, rng, camera=camera)

for method in ("median", "auto"):
    result = cfusion.fuse(views, method)
    print(f"{method:7} RMSE {cfusion.evaluate(result.depth, truth).rmse:.4f}")

error = np.abs(result.depth - truth)
known = np.isfinite(error)
worst_tenth = float(np.quantile(error[known], 0.9))
print(f"\nlocal weights were used: {result.parameters['local']}")
for name, trust in (
    ("confidence", result.confidence),
    ("-sigma", -result.sigma),
    ("random", rng.random(error.shape)),
):
    trust = np.where(known, trust, np.nan)
    print(f"{name:11} AUSE {ause(error, trust):.3f}   ROC-AUC {roc_auc(error, trust, worst_tenth):.3f}")
