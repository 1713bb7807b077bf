"""Scores of every method on the scenes, at every level of noise, and what adapting gains where noise is uneven.

python -m benchmarks.accuracy [methods | levels | uneven | tuned]
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from benchmarks.scenes import KINDS, bundle, data_folder
from cfusion import METHODS, Method, View, evaluate, fuse
from cfusion.arrays import DepthMap
from cfusion.metrics import ause, roc_auc
from cfusion.parameters import refine
from cfusion.synthetic import (
    ORBIT_BASELINE,
    PAPER_CAMERA,
    Laplace,
    Noise,
    Outliers,
    Regional,
    blob,
    city_bundle,
    object_bundle,
)

PLAIN = [name for name in METHODS if ":" not in name]
TWINS = (("rof", "rof-adapt"), ("l1", "l1-adapt"), ("l1-heuristic", "adapt-hprior"))
LEVELS = (0.0, 0.01, 0.1, 0.3, 0.6, 1.0)  # Laplace, of the object; the city's are ten times that
UNIT = {"object": 1.0, "city": 10.0}
GROSS = {"object": Outliers(0.05, 0.5, 6.0), "city": Outliers(0.05, 200.0, 400.0)}
WORSE = 5.0  # times noisier, in a third of the pixels


def main() -> None:
    parts = {"methods": _methods, "levels": _levels, "uneven": _uneven, "tuned": _tuned}
    named = sys.argv[1:] if __name__ == "__main__" else []
    for name in named or parts:
        parts[name]()


def _methods() -> None:
    for kind in ("object", "city", "bunny"):
        if kind == "bunny" and not (data_folder() / "stanford").exists():
            print("bunny: skipped, no data folder (CFUSION_DATA)")
            continue
        views, truth = bundle(kind)
        print(f"\n{kind:14} RMSE    ZMAE    NMAE    Z-avg   bias", flush=True)
        for name in PLAIN:
            _row(views, truth, METHODS[name])


def _row(views: list[View], truth: DepthMap, method: Method) -> None:
    result = fuse(views, method)
    scores = evaluate(result.depth, truth, views[0].camera, ORBIT_BASELINE)
    row = (scores.rmse, scores.zmae, scores.nmae, scores.z_avg, scores.bias)
    print(f"{method.name:14}", *(f"{value:7.4f}" for value in row), flush=True)


def _levels() -> None:
    """From no noise to more than the paper's, with few views and with many, at 0.35 of the resolution."""
    compared = ("median", "l1", "auto")
    print("\nRMSE / Z-avg by level of noise;", ", ".join(compared))
    for kind in KINDS:
        for count in (3, 11):
            for level in LEVELS:
                scores = []
                views, truth = _scene(kind, Laplace(level * UNIT[kind]), np.random.default_rng(0), count, 0.35)
                for name in compared:
                    score = evaluate(fuse(views, name).depth, truth, views[0].camera, ORBIT_BASELINE)
                    scores.append(f"{score.rmse:8.4f} / {score.z_avg:6.4f}")
                print(f"{kind:6} {count:2} views, Laplace {level * UNIT[kind]:5.2f}", *scores, flush=True)


def _scene(
    kind: str, noise: Noise | None, rng: np.random.Generator, views: int = 11, scale: float = 0.5
) -> tuple[list[View], DepthMap]:
    camera = PAPER_CAMERA.scaled(scale)
    if kind == "object":
        return object_bundle(blob(), noise, rng, views, camera=camera)
    return city_bundle(None, noise, rng, views, camera=camera)


def _uneven() -> None:
    """Each adaptive method against its twin, as published and at the geometric mean of the confidence estimated."""
    for where, make in UNEVEN.items():
        for kind in KINDS:
            views, truth = make(kind)
            print(f"\n{kind}, {where} {WORSE:g} times noisier, 5 % gross outliers: RMSE, Z-avg", flush=True)
            for fixed, adaptive in TWINS:
                estimated = fuse(views, adaptive)
                mean = float(np.exp(np.mean(np.log(estimated.confidence[estimated.confidence > 0]))))
                for lam in (METHODS[fixed].energy.lam, mean):
                    twin = METHODS[fixed].replace(energy=replace(METHODS[fixed].energy, lam=lam))
                    _confidence_row(f"{fixed} at lam {lam:.2f}", fuse(views, twin).depth, None, truth, views)
                _confidence_row(adaptive, estimated.depth, estimated.confidence, truth, views)
            result = fuse(views)
            _confidence_row("auto", result.depth, result.confidence, truth, views)


def _tuned() -> None:
    """The least RMSE that l1 and l1-adapt reach on uneven noise with parameters chosen by the true depth."""
    fixed = [{"lam": lam} for lam in (0.05, 0.1, 0.2, 0.3, 0.4, 0.7, 1.0)]
    for where, make in UNEVEN.items():
        for kind in KINDS:
            views, truth = make(kind, 0.3)
            rates = [rate * UNIT[kind] for rate in (0.1, 6.0, 24.0)]
            adaptive = [{"b": b, "rate": rate} for b in (1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0) for rate in rates]
            for name, grid in (("l1", fixed), ("l1-adapt", adaptive)):
                scores = []
                for parameters in grid:
                    depth = fuse(views, refine(METHODS[name], parameters)).depth
                    scores.append(evaluate(depth, truth, views[0].camera, ORBIT_BASELINE).rmse)
                best = int(np.argmin(scores))
                print(f"{kind}, {where}: {name} {scores[best]:.4f} with {grid[best]}", flush=True)


def _elsewhere(kind: str, scale: float = 0.5) -> tuple[list[View], DepthMap]:
    noise = Regional(1 / 3, WORSE, Laplace(0.6 * UNIT[kind])) + GROSS[kind]
    return _scene(kind, noise, np.random.default_rng(1), scale=scale)


def _same_surface(kind: str, scale: float = 0.5) -> tuple[list[View], DepthMap]:
    """Noisier where the surface lies furthest along the world's x, and every view by its own factor of 1/2 to 2."""
    rng = np.random.default_rng(1)
    clean, truth = _scene(kind, None, rng, scale=scale)
    along = [view.pose.apply(view.camera.back_project(view.depth))[..., 0] for view in clean]
    limit = np.nanquantile(along[len(along) // 2], 2 / 3)
    views = []
    for view, x in zip(clean, along, strict=True):
        noise = 0.6 * UNIT[kind] * 2 ** rng.uniform(-1, 1) * np.where(x > limit, WORSE, 1.0)
        depth = view.depth + rng.laplace(size=view.shape) * noise
        depth[~(depth > 0)] = np.nan
        views.append(replace(view, depth=GROSS[kind](depth.astype(np.float32), rng)))
    return views, truth


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


UNEVEN = {"another third in each view": _elsewhere, "one third of the surface": _same_surface}

if __name__ == "__main__":
    main()
