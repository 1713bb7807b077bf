"""Stereo matchers on Middlebury pairs: how many pixels are wrong, and what their confidence is worth.

python -m benchmarks.stereo [middlebury | calibrate | shared | gpu]; the data lie where CFUSION_DATA says. `calibrate`
finds the numbers of cfusion.frontends.trust; half of the images it sees have less contrast and more noise.
`gpu` matches a KITTI pair by mc-cnn on a GPU and on the CPU: time, memory, pixels that differ.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.scenes import data_folder
from cfusion.frontends.stereo import MATCHERS, match
from cfusion.io.codecs.photo import photo_size, read_photo
from cfusion.metrics import fill_background, roc_auc

Floats = NDArray[np.float32]
COUNTS = {"cones": 4, "teddy": 4, "venus": 8, "sawtooth": 8, "poster": 8, "bull": 8, "barn2": 8, "tsukuba": 16}
LARGEST = {"cones": 64, "teddy": 64, "motorcycle": 80}  # disparities searched; 32 for the others
RIGHT_WITHIN = 1.0  # pixels
FINEST = 0.1  # pixels: no disparity is taken for better
CONTRAST, NOISE = 0.45, 0.006  # of the degraded half


@dataclass(frozen=True, eq=False)
class Pair:
    """A rectified pair and its truth; `visible` is the truth of pixels that both cameras see."""

    name: str
    left: Floats
    right: Floats
    visible: Floats
    disparities: int


def main() -> None:
    parts: dict[str, Callable[[], None]] = {"middlebury": _middlebury, "calibrate": _calibrate, "shared": _shared}
    parts["gpu"] = _gpu
    if not (data_folder() / "middlebury").is_dir():
        print("skipped, no middlebury in the data folder (CFUSION_DATA)")
        return
    for name in sys.argv[1:2] or ("middlebury",):
        print(f"\n== {name}", flush=True)
        parts[name]()


@lru_cache(None)
def pairs() -> tuple[Pair, ...]:
    return tuple(_pair(name) for name in (*COUNTS, "motorcycle"))


def _pair(name: str) -> Pair:
    place = data_folder() / "middlebury" / name
    if name == "motorcycle":
        images = [_grey(place / f"motorcycle_{side}.png") for side in ("left", "right")]
        truth = np.load(place / "motorcycle_disp.npz")["arr_0"].astype(np.float32)
    else:
        images = [_grey(place / f"im{side}.png") for side in (2, 6)]
        truth = 255 * _grey(place / "disp2.png") / COUNTS[name]
    known = np.where(np.isfinite(truth) & (truth > 0), truth, np.nan).astype(np.float32)
    return Pair(name, images[0], images[1], _visible(known), LARGEST.get(name, 32))


def _grey(path) -> Floats:  # type: ignore[no-untyped-def]
    image = read_photo(path, photo_size(path))
    assert image is not None
    plane = image if image.ndim == 2 else image @ np.array([0.299, 0.587, 0.114], np.float32)
    return np.ascontiguousarray(plane, np.float32)


def _visible(truth: Floats) -> Floats:
    """Without pixels that a nearer one hides from the right camera, or that lie outside its image."""
    height, width = truth.shape
    there = np.arange(width)[None, :] - np.nan_to_num(truth, nan=1e6)
    column = np.rint(there).astype(np.int64)
    inside = column >= 0
    front = np.full((height, width), -1, np.float32)
    rows = np.broadcast_to(np.arange(height)[:, None], truth.shape)
    np.maximum.at(front, (rows[inside], column[inside]), truth[inside])
    nearest = np.take_along_axis(front, np.clip(column, 0, width - 1), axis=1)
    return np.where(inside & (nearest <= truth + 1), truth, np.nan).astype(np.float32)


def degraded(pair: Pair, seed: int) -> Pair:
    """The same pair in poorer light: less contrast, another gain on the right, noise."""
    rng = np.random.default_rng(seed)

    def worse(image: Floats, gain: float, offset: float) -> Floats:
        seen = gain * image + offset + rng.normal(0, NOISE, image.shape)
        return (np.clip(np.rint(255 * seen), 0, 255) / 255).astype(np.float32)

    images = worse(pair.left, CONTRAST, 0.2), worse(pair.right, 0.93 * CONTRAST, 0.23)
    return Pair(pair.name, *images, pair.visible, pair.disparities)


def _both() -> Iterator[Pair]:
    for seed, pair in enumerate(pairs()):
        yield pair
        yield degraded(pair, seed)


def _middlebury() -> None:
    """Wrong by more than a pixel, of the pixels both cameras see: matched ones; all, holes filled by KITTI's rule."""
    print("matcher     density %  wrong of matched %  wrong of all %  AUC of confidence  mean confidence  right %")
    for name in MATCHERS:
        rows = []
        for pair in _both():
            found = MATCHERS[name](pair.left, pair.right, pair.disparities)
            seen = np.isfinite(pair.visible)
            error = np.where(seen, np.abs(found.disparity - pair.visible), np.nan)
            matched = np.isfinite(error)
            filled = np.abs(fill_background(found.disparity) - pair.visible)[seen] > RIGHT_WITHIN
            trust = np.where(matched, found.confidence, np.nan)
            rows.append(
                (
                    100 * matched.sum() / seen.sum(),
                    100 * np.mean(error[matched] > RIGHT_WITHIN),
                    100 * filled.mean(),
                    roc_auc(error, trust, RIGHT_WITHIN),
                    np.nanmean(trust),
                    100 * np.mean(error[matched] <= RIGHT_WITHIN),
                )
            )
        for kind, chosen in (("as is", rows[::2]), ("degraded", rows[1::2])):
            means = np.mean(chosen, axis=0)
            print(f"{name:8} {kind:9}" + " ".join(f"{value:10.3f}" for value in means), flush=True)


def _calibrate() -> None:
    """Logistic regression of "right within a pixel" on the cues, each pair with the same say; weights >= 0."""
    for name in sys.argv[2:] or MATCHERS:
        cues, right, size, weight = [], [], [], []
        for pair in _both():
            found, seen = MATCHERS[name].find(pair.left, pair.right, pair.disparities, "auto")
            error = np.abs(found - pair.visible)
            known = np.isfinite(error)
            cues.append(seen[:, known])
            right.append(error[known] <= RIGHT_WITHIN)
            size.append((found - pair.visible)[known])
            weight.append(np.full(int(known.sum()), 1 / known.sum()))
        x, y, errors = np.concatenate(cues, axis=1), np.concatenate(right), np.concatenate(size)
        offset, weights = _logistic(x, y, np.concatenate(weight))
        good, blur = _blur(x[:, y], np.abs(errors[y]), np.concatenate(weight)[y])
        wrong = float(np.sqrt(np.mean(np.clip(errors[~y], -10, 10) ** 2)))
        numbers = ", ".join(f"{value:.2f}" for value in weights)
        spread = ", ".join(f"{value:.2f}" for value in blur)
        print(f"{name}: {offset:.2f}, ({numbers}), good={good:.2f}, blur=({spread}), wrong={wrong:.1f}", flush=True)


def _logistic(x: NDArray, y: NDArray, weight: NDArray) -> tuple[float, NDArray]:  # type: ignore[type-arg]
    from scipy.optimize import minimize

    features = np.concatenate([np.ones((1, x.shape[1])), -x]).astype(np.float64)
    share = weight / weight.sum()
    sign = np.where(y, 1.0, -1.0)

    def loss(b):  # type: ignore[no-untyped-def]
        margin = sign * (b @ features)
        value = np.sum(share * np.logaddexp(0, -margin)) + 1e-4 * np.sum(b[1:] ** 2)
        slope = -(features * (share * sign / (1 + np.exp(margin)))).sum(axis=1)
        slope[1:] += 2e-4 * b[1:]
        return value, slope

    bounds = [(None, None)] + [(0, None)] * len(x)
    best = minimize(loss, np.zeros(len(features)), jac=True, bounds=bounds, method="L-BFGS-B").x
    return float(best[0]), best[1:]


def _blur(x: NDArray, size: NDArray, weight: NDArray) -> tuple[float, NDArray]:  # type: ignore[type-arg]
    """How the size of small errors grows with the cues: sqrt(2) E|e| = good + blur x, for Laplace's distribution."""
    from scipy.optimize import nnls

    root = np.sqrt(weight / weight.sum())
    found, _ = nnls((np.concatenate([np.ones((1, x.shape[1])), x]) * root).T, np.sqrt(2) * size * root)
    return max(float(found[0]), FINEST), found[1:]


def _shared() -> None:
    """Share of the variance of right disparities that comes out alike under two draws of noise: systematic errors."""
    for name in MATCHERS:
        shares = []
        for pair in pairs():
            errors = [
                MATCHERS[name](each.left, each.right, pair.disparities).disparity - pair.visible
                for each in (degraded(pair, 100), degraded(pair, 200))
            ]
            with np.errstate(invalid="ignore"):
                both = (np.abs(errors[0]) <= RIGHT_WITHIN) & (np.abs(errors[1]) <= RIGHT_WITHIN)
            one, other = (error[both] for error in errors)
            shares.append(np.mean(one * other) / np.mean((one**2 + other**2) / 2))
        print(f"{name}: systematic={np.mean(shares):.2f}", flush=True)


def _gpu() -> None:
    from time import perf_counter

    import cupy

    left, right = (_grey(data_folder() / "kitti2012/training" / f"image_{k}/000074_10.png") for k in (0, 1))
    on_cpu = match(left, right, "mc-cnn", 192, backend="cpu")
    seconds = []
    for _ in range(11):
        start = perf_counter()
        found = match(left, right, "mc-cnn", 192, backend="cuda")
        seconds.append(perf_counter() - start)
    pool = cupy.get_default_memory_pool().total_bytes() / 1e9
    print(f"first {seconds[0]:.2f} s, then {np.median(seconds[1:]):.4f} s (median of 10), {pool:.2f} GB of the GPU")
    known, ours = np.isfinite(found.disparity), np.isfinite(on_cpu.disparity)
    off = np.abs(found.disparity - on_cpu.disparity)[known & ours]
    print(f"of {known.size} pixels {(known != ours).sum()} are known to one alone; off by more than")
    print(", ".join(f"{limit} pixels: {(off > limit).sum()}" for limit in (0.01, 0.1, 1.0)))


if __name__ == "__main__":
    main()
