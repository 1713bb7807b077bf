"""COLMAP's toy cars: pycolmap.stereo_fusion on the user's workspace and on ours, and what held-out maps say of both.

python -m benchmarks.scene_toy_cars [OUT]

Points: those of stereo_fusion with default settings. Held-out error: every fifth view is left out of the fusing (its
map is nobody's neighbour); points of the other views' maps, fused or not, are projected into the held-out maps, and
the median of |z / d - 1| where both know a depth is shown, on the pixels that both kinds of maps know.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from cfusion import View, fuse, read
from cfusion.datasets.named_neighbours import named_neighbours
from cfusion.methods import keeping_plausible


def fused_points(workspace: Path) -> int:
    """What COLMAP's own fusion finds."""
    import pycolmap

    with tempfile.TemporaryDirectory() as folder:
        found = pycolmap.stereo_fusion(Path(folder) / "fused.ply", workspace, output_type="PLY")
    return len(found.points3D)


def held_out_errors(data: Path) -> tuple[float, float, float, float]:
    """Median and 90 % quantile of the relative error in held-out views: of the maps as they are, and fused."""
    views = tuple(read(data))
    named = named_neighbours(data, "colmap", read(data))
    assert named is not None
    left_out = set(range(2, len(views), 5))
    before, after = [], []
    for number in range(0, len(views), 2):
        if number in left_out:
            continue
        others = [other for other in named.neighbours[number] if other not in left_out][:10]
        kept = keeping_plausible("auto", {})  # as `cfusion scene`
        result = fuse([views[number], *(views[other] for other in others)], reference=0, backend="cpu", **kept)
        both = np.isfinite(result.depth) & np.isfinite(views[number].depth)
        for judge in left_out:
            for depth, errors in ((views[number].depth, before), (result.depth, after)):
                errors.append(_errors(views[number], np.where(both, depth, np.nan), views[judge]))
    kinds = (np.concatenate(before), np.concatenate(after))
    both_know = np.isfinite(kinds[0]) & np.isfinite(kinds[1])
    one, two = (np.abs(each[both_know]) for each in kinds)
    return float(np.median(one)), float(np.quantile(one, 0.9)), float(np.median(two)), float(np.quantile(two, 0.9))


def _errors(view: View, depth: np.ndarray, judge: View) -> np.ndarray:  # type: ignore[type-arg]
    """z / d - 1 of every pixel of a map in another view, NaN where one of them knows nothing."""
    points = view.pose.apply(view.camera.back_project(depth)).reshape(-1, 3)
    u, v, z = judge.camera.project(judge.pose.inverse().apply(points))
    height, width = judge.shape
    with np.errstate(invalid="ignore"):
        inside = (u >= 0) & (v >= 0) & (u <= width - 1) & (v <= height - 1)
    row, column = (np.rint(np.where(inside, each, 0)).astype(int) for each in (v, u))
    with np.errstate(invalid="ignore"):
        error = np.where(inside, z / judge.depth[row, column] - 1, np.nan)
        return np.where(np.abs(error) < 0.1, error, np.nan)  # further off is another surface


def main() -> None:
    data = Path(os.environ.get("CFUSION_DATA", "../shared/data")) / "colmap" / "toy_cars"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "out"
        if not (out / "stereo").is_dir():
            from cfusion.cli.main import main as command

            command(["scene", str(data), "-o", str(out), "--no-cloud"])
        before, after = fused_points(data), fused_points(out)
    print(f"points of stereo_fusion: {before} of the user's maps, {after} of ours, {after / before:.2f}x")
    one = held_out_errors(data)
    print(f"held-out error, median and 90 %: {one[0]:.5f}, {one[1]:.5f} as they are; {one[2]:.5f}, {one[3]:.5f} fused")


if __name__ == "__main__":
    main()
