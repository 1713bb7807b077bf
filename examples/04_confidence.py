"""Rank the pixels by confidence, and check the ranking against the truth.

The views of example 01, but in each of them a third of the pixels, in patches, is five times noisier, and 5 % are
gross outliers. `auto` weighs every observation by the noise of its own map around it, if this predicts held-out views
better. `confidence` is the probability that a pixel is right, from the views that support and contradict it; `sigma`
is the standard deviation of the error of the fused depth (formulas: docs/choosing.md, auto/uncertainty.py).

Does the confidence rank the errors? Remove the pixels of least confidence first: the mean error of the rest falls.

    AUSE     area between this curve and that of removing the largest errors first: 0 is perfect
    ROC-AUC  probability that a pixel outside the worst tenth has a larger confidence than one inside it: 0.5 is chance

The same figures of a random order are printed beside them.

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
