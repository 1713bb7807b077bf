"""Scores of every method on both scenes, and what adapting gains where the noise differs by region and by view."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.scenes import bundle, data_folder
from cfusion import METHODS, Method, View, evaluate, fuse
from cfusion.arrays import DepthMap
from cfusion.metrics import ause, roc_auc
from cfusion.synthetic import (
    ORBIT_BASELINE,
    PAPER_CAMERA,
    Laplace,
    Outliers,
    Regional,
    blob,
    city_bundle,
    object_bundle,
)

PLAIN = [name for name in METHODS if ":" not in name]
TWINS = (("rof", "rof-adapt"), ("l1", "l1-adapt"), ("l1-heuristic", "adapt-hprior"))


def main() -> None:
    for kind in ("object", "city", "bunny"):
        if kind == "bunny" and not (data_folder() / "stanford").exists():
            print("bunny: skipped, no data folder (CFUSION_DATA)")
            continue
        views, truth = bundle(kind)
        print(f"\n{kind:14} RMSE    ZMAE    NMAE    Z-avg   bias", flush=True)
        for name in PLAIN:
            _row(views, truth, METHODS[name])
    print("\nnoise that differs by region and view (a third of the pixels five times noisier), 5 % gross outliers")
    for kind in ("object", "city"):
        _uneven(kind)


def _row(views: list[View], truth: DepthMap, method: Method) -> None:
    result = fuse(views, method)
    scores = evaluate(result.depth, truth, views[0].camera, ORBIT_BASELINE)
    row = (scores.rmse, scores.zmae, scores.nmae, scores.z_avg, scores.bias)
    print(f"{method.name:14}", *(f"{value:7.4f}" for value in row), flush=True)


def _uneven(kind: str) -> None:
    """Each adaptive method against its twin, whose one confidence is the geometric mean of what the other estimated."""
    rng, camera = np.random.default_rng(1), PAPER_CAMERA.scaled(0.5)
    if kind == "object":
        noise = Regional(1 / 3, 5.0, Laplace(0.6)) + Outliers(0.05, 0.5, 6.0)
        views, truth = object_bundle(blob(), noise, rng, camera=camera)
    else:
        noise = Regional(1 / 3, 5.0, Laplace(6.0)) + Outliers(0.05, 200.0, 400.0)
        views, truth = city_bundle(None, noise, rng, camera=camera)
    print(f"{kind}: method, RMSE, Z-avg; AUSE and ROC-AUC of the estimated confidence")
    for fixed, adaptive in TWINS:
        estimated = fuse(views, adaptive)
        known = estimated.confidence > 0
        mean = float(np.exp(np.mean(np.log(estimated.confidence[known]))))
        twin = METHODS[fixed]
        plain = fuse(views, twin.replace(energy=replace(twin.energy, lam=mean)))
        for name, result in ((f"{fixed} at lam {mean:.2f}", plain), (adaptive, estimated)):
            _confidence_row(name, result.depth, result.confidence if name == adaptive else None, truth, views)
    result = fuse(views)
    _confidence_row("auto", result.depth, result.confidence, truth, views)


def _confidence_row(
    name: str, depth: DepthMap, confidence: DepthMap | None, truth: DepthMap, views: list[View]
) -> None:
    scores = evaluate(depth, truth, views[0].camera, ORBIT_BASELINE)
    line = f"  {name:24} {scores.rmse:7.4f} {scores.z_avg:7.4f}"
    if confidence is not None:
        error = np.abs(depth - truth)
        known = np.isfinite(error)
        large = 3 * float(np.median(error[known]))
        line += f"   AUSE {ause(error[known], confidence[known]):.3f}"
        line += f"   ROC-AUC {roc_auc(error[known], confidence[known], large):.3f}"
    print(line, flush=True)


if __name__ == "__main__":
    main()
