"""Whether sigma is an error bar and confidence a probability: on meshes here, on real data from `benchmarks.real`.

python -m benchmarks.trust [--closed] [WIDTH [K ..]]: meshes under every noise, half the paper's size and K = 3, 11, 31
unless said otherwise.

Coverage is the share of pixels whose error is below 1, 1.645 and 1.96 sigma (68, 90, 95 % of a Gaussian). ENCE is the
mean over ten bins of sigma of |root mean square error - root mean sigma^2| / the latter, errors beyond 5 sigma cut
there; AUSE ranks by sigma; ROC-AUC is of the confidence against gross errors: 2 % of the depth (7-Scenes), 5 % (toy
cars, meshes), 3 pixels (KITTI). Completeness is the largest share kept with at most 1 % gross errors among it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion import Result, fuse
from cfusion.metrics import ause, roc_auc

LEVELS = (1.0, 1.645, 1.96)
BINS, CUT = 10, 5.0
GROSS = {"walk": 0.02, "room": 0.02, "cars": 0.05, "kitti": 3.0, "mesh": 0.05}
CONTAMINATION = 0.01
NOISES = ("laplace-0.05", "laplace-0.6", "gauss-0.05", "kinect", "mvs", "pose")
MESHES = {False: ("bunny", "dragon", "chef", "parasaurolophus"), True: ("armadillo", "happy_buddha", "chicken", "trex")}
WIDTH, COUNTS = 320, (3, 11, 31)
HEAD = (
    f"{'':26}cover 68 / 90 / 95           n = 1           edges     ENCE   AUSE  AUC of confidence, of sigma  gross %"
    "  kept at 1 %"
)
Floats = NDArray[np.float64]


def main() -> None:
    from benchmarks.cases_synthetic import make

    closed = "--closed" in sys.argv
    width, *counts = [int(each) for each in sys.argv[1:] if each.isdigit()] or [WIDTH]
    counts = counts or list(COUNTS)
    print(f"meshes, {'closed' if closed else 'design'} half: {', '.join(MESHES[closed])}; {width} pixels wide\n{HEAD}")
    for scene in MESHES[closed]:
        for noise in NOISES:
            case = make(scene, noise, width, max(counts))
            for count in counts:
                result = fuse(case.of(count), min_confidence=0.0)
                relative = np.abs(result.depth / case.truth - 1)
                _line(f"{scene} {noise} {count}", result, case.truth, relative, GROSS["mesh"])


def report(name: str, runs: Sequence[tuple[Any, Result]]) -> None:
    """Rows of a data set: every case of the form of `cases_real.Case`."""
    print(HEAD)
    for case, result in runs:
        _line(case.name, result, case.truth, case.error(result.depth), GROSS[name])


def _line(name: str, result: Result, truth: Floats, size: Floats, gross: float) -> None:
    error = np.abs(result.depth.astype(np.float64) - truth)
    known = np.isfinite(error) & np.isfinite(result.sigma) & (result.provenance > 0)
    error, sigma, size = error[known], result.sigma[known].astype(np.float64), size[known]
    once, edge = result.provenance[known] == 1, _edges(truth)[known]
    confidence = result.confidence[known]
    parts = [_coverage(error, sigma), _coverage(error[once], sigma[once]), _coverage(error[edge], sigma[edge])]
    scores = (
        f"{ence(error, sigma):6.2f} {ause(error, -sigma):6.3f} {roc_auc(size, confidence, gross):8.3f} "
        f"{roc_auc(size, -sigma, gross):7.3f} {100 * (size > gross).mean():8.3f} "
        f"{completeness(size, confidence, gross):8.1f}"
    )
    print(f"{name:26}{parts[0]:>18} {parts[1]:>16} {parts[2]:>15}   {scores}", flush=True)


def _coverage(error: Floats, sigma: Floats) -> str:
    if error.size < 20:
        return "-"
    return " / ".join(f"{100 * (error <= level * sigma).mean():.0f}" for level in LEVELS)


def ence(error: Floats, sigma: Floats) -> float:
    """Expected normalised calibration error over bins of equally many pixels."""
    order = np.argsort(sigma, kind="stable")
    error, sigma = np.minimum(error, CUT * sigma)[order], sigma[order]
    bins = zip(np.array_split(error, BINS), np.array_split(sigma, BINS), strict=True)
    pairs = [(np.sqrt(np.mean(e**2)), np.sqrt(np.mean(s**2))) for e, s in bins if e.size]
    return float(np.mean([abs(e - s) / max(s, 1e-30) for e, s in pairs]))


def completeness(size: Floats, confidence: Floats, gross: float) -> float:
    """Percent of the pixels that can be kept, the surest first, with so few gross errors among them."""
    off = (size > gross)[np.argsort(-confidence, kind="stable")]
    share = np.cumsum(off) / np.arange(1, off.size + 1)
    fine = np.flatnonzero(share <= CONTAMINATION)
    return 100 * (fine[-1] + 1) / off.size if fine.size else 0.0


def _edges(truth: Floats) -> NDArray[np.bool_]:
    """Within two pixels of a jump of the true depth by 5 %."""
    out = np.zeros(truth.shape, np.bool_)
    for axis in (0, 1):
        for shift in (-2, -1, 1, 2):
            other = np.roll(truth, shift, axis)
            with np.errstate(invalid="ignore"):
                out |= np.abs(other / truth - 1) > 0.05
    return out


if __name__ == "__main__":
    main()
