"""HeldOut-out views of real sensors: fuse the others into view k's camera, and compare with what view k measured.

Errors are taken where every method has an answer; how much each one has is a column of its own.

python -m benchmarks.held_out [OUT]; depth pictures go to OUT. The data lie where CFUSION_DATA says.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.scenes import data_folder
from cfusion import Pinhole, View, fuse, read
from cfusion.arrays import DepthMap
from cfusion.metrics import fill_background

METHODS = ("median", "tgv-fusion", "l1-adapt", "auto")
HELD = {"seven_scenes": (10, 30, 50), "colmap/toy_cars": (3, 7, 11)}
WINDOW = 11  # frames of a sequence around the one held out
GROSS = 0.05  # relative error
EDGE = 1.1  # ratio of the largest to the smallest depth within 7 x 7 pixels at a depth edge,
JUMP = 0.6  # of which this share lies between two neighbouring pixels: a slope is no edge
BETWEEN = (0.25, 0.75)  # of the way from the near to the far side: on neither


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for name, held in HELD.items():
        if not (data_folder() / name).is_dir():
            print(f"{name}: skipped, not in the data folder (CFUSION_DATA)")
            continue
        print(f"\n{name}: frames {', '.join(map(str, held))} held out, each fused from its neighbours")
        print("method       known %  median error %  mean %  beyond 5 %: %  between the sides of edges: %")
        rows: dict[str, list[tuple[float, ...]]] = {method: [] for method in ("measured", *METHODS)}
        for k in held:
            views, index = _neighbours(name, k)
            measured = views[index].depth
            blind = replace(views[index], depth=np.full(measured.shape, np.nan), confidence=None)
            others = [blind if number == index else view for number, view in enumerate(views)]
            depths = {"measured": measured}
            for method in METHODS:
                depths[method] = fuse(others, method, reference=index).depth
            common = np.isfinite(list(depths.values())).all(axis=0)
            for method, depth in depths.items():
                rows[method].append(_scores(depth, measured, common))
            if out is not None:
                _picture(out / f"{name.replace('/', '-')}-{k}.png", depths)
        for method, found in rows.items():
            known, median, mean, gross, between = np.mean(found, axis=0)
            print(f"{method:12} {known:7.1f} {median:15.3f} {mean:7.2f} {gross:14.2f} {between:31.2f}", flush=True)


def _neighbours(name: str, k: int) -> tuple[list[View], int]:
    """Views around k, of a sequence at half the size (every other pixel), and the index of k."""
    views = read(data_folder() / name)
    if len(views) <= 2 * WINDOW:
        return list(views), k
    first = max(0, k - WINDOW // 2)
    return [_halved(views[number]) for number in range(first, first + WINDOW)], k - first


def _halved(view: View) -> View:
    camera = view.camera
    assert isinstance(camera, Pinhole)
    depth = view.depth[::2, ::2]
    numbers = (each / 2 for each in (camera.fx, camera.fy, camera.cx, camera.cy))
    smaller = Pinhole(*numbers, width=depth.shape[1], height=depth.shape[0])
    image = None if view.image is None else view.image[::2, ::2]
    return View(depth, smaller, view.pose, image, name=view.name)


def _scores(depth: DepthMap, measured: DepthMap, common: NDArray[np.bool_]) -> tuple[float, ...]:
    """Percent known of what was measured; where all methods know, relative errors in percent and flying pixels."""
    there = np.isfinite(measured)
    known = there & np.isfinite(depth)
    error = np.abs(depth[common] / measured[common] - 1)
    low, high, jump = _surroundings(measured)
    edge = common & (high > EDGE * low) & (jump > JUMP * (high - low))
    share = (depth[edge] - low[edge]) / (high[edge] - low[edge])
    between = (share > BETWEEN[0]) & (share < BETWEEN[1])
    return tuple(
        100 * float(each)
        for each in (known.sum() / there.sum(), np.median(error), error.mean(), (error > GROSS).mean(), between.mean())
    )


def _surroundings(depth: DepthMap, size: int = 7) -> tuple[NDArray[np.float32], ...]:
    """Smallest and largest depth around each pixel, and the largest step between neighbours; holes are background."""
    import cv2

    window = np.ones((size, size), np.uint8)
    whole = (1 / fill_background(1 / depth)).astype(np.float32)
    along, down = (np.abs(np.diff(whole, axis=axis, append=np.take(whole, [-1], axis))) for axis in (1, 0))
    return cv2.erode(whole, window), cv2.dilate(whole, window), cv2.dilate(np.maximum(along, down), window)


def _picture(file: Path, depths: dict[str, DepthMap]) -> None:
    """The maps side by side, in one scale."""
    from matplotlib.figure import Figure

    file.parent.mkdir(parents=True, exist_ok=True)
    measured = depths["measured"]
    near, far = (float(np.nanpercentile(measured, each)) for each in (1, 99))
    figure = Figure(figsize=(5 * len(depths), 4.2))
    for number, (name, depth) in enumerate(depths.items()):
        axes = figure.add_subplot(1, len(depths), number + 1, title=name)
        axes.imshow(depth, vmin=near, vmax=far, cmap="turbo", interpolation="nearest")
        axes.set_axis_off()
    figure.tight_layout()
    figure.savefig(file, dpi=80)


if __name__ == "__main__":
    main()
