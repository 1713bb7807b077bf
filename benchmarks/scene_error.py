"""Where the error of a cloud comes from: what two runs with independent noise share, what the sensor blurs, merging.

python -m benchmarks.scene_error [object ...] [--scale 0.25] [--keep FOLDER]

36 views, Kinect-like. Errors along the true normal of the points of every other view, one a pixel and without rims;
points off by 1 % of the object's size are left out. `alike`: the root of the mean product of both runs' errors;
`noise`: the root of half their mean squared difference. `blur`: the same cloud of the mean of 100 draws of each view,
which has no noise left; its share of the square of what is alike, with the factor that fits best. `exact`: the whole
cloud of the exact maps, where the fused ones have a depth.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from benchmarks.scene_judge import THRESHOLD, Judge, Score
from benchmarks.scene_sensor import SIZE, VIEWS, kept_views, kinect, object_scene, scene_views
from cfusion import View
from cfusion.arrays import DepthMap
from cfusion.scene import Graph, by_surface
from cfusion.scene.cloud import merged
from cfusion.scene.fused_view import FusedView
from cfusion.synthetic.track import PAPER_CAMERA, orbit

DRAWS, NEARLY_ALL, SEED = 100, 60, 1
NEIGHBOURS = 10
Errors = NDArray[np.float64]


def blurred(views: list[View], exact: list[DepthMap], fused: list[FusedView]) -> list[FusedView]:
    """Maps without noise, but with what the sensor does to each of them."""
    found = []
    for number, (view, depth, each) in enumerate(zip(views, exact, fused, strict=True)):
        rng = np.random.default_rng(100 + number)
        draws = np.stack([kinect(depth, view.camera, rng) for _ in range(DRAWS)])
        known = np.isfinite(draws).sum(axis=0)
        mean = np.where(known > NEARLY_ALL, np.nan_to_num(draws).sum(axis=0) / np.maximum(known, 1), np.nan)
        found.append(FusedView(mean.astype(np.float32), each.sigma, each.camera, each.pose))
    return found


def signed(judge: Judge, tree: cKDTree, maps: list[FusedView], graph: Graph, number: int) -> Errors:
    """Errors (H W) along the true normal of the points of a view that it owns; NaN elsewhere."""
    found, (points, normals) = merged(maps.__getitem__, number, graph.both_ways(number)), judge.surface
    first = np.unique(found.pixels, return_index=True)[1]  # the point itself comes before its rims
    apart, nearest = tree.query(found.points[first])
    along = np.einsum("nx,nx->n", normals[nearest], found.points[first] - points[nearest])
    errors = np.full(maps[number].depth.size, np.nan)
    errors[found.pixels[first]] = np.where(apart < THRESHOLD * SIZE, along, np.nan)
    return errors


def cloud(judge: Judge, maps: list[FusedView], graph: Graph) -> Score:
    """The score of the whole cloud."""
    pieces = [merged(maps.__getitem__, number, graph.both_ways(number)) for number in range(len(maps))]
    return judge(np.concatenate([each.points for each in pieces]), np.concatenate([each.normals for each in pieces]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="*", default=["bunny", "armadillo"])
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    camera = PAPER_CAMERA.scaled(chosen.scale)
    for name in chosen.objects:
        scene = object_scene(name)
        views, exact = scene_views(scene, camera, "kinect")
        rng = np.random.default_rng(SEED)
        again = [replace(view, depth=kinect(depth, camera, rng)) for view, depth in zip(views, exact, strict=True)]
        files = [f"{name}-kinect-{camera.width}-{NEIGHBOURS}.npz", f"{name}-again-{camera.width}.npz"]
        one, two = (
            kept_views(each, NEIGHBOURS, chosen.keep / file if chosen.keep else None)[0]
            for each, file in zip((views, again), files, strict=True)
        )
        graph, judge = by_surface(views).cut(NEIGHBOURS), Judge(scene, camera, orbit(VIEWS), exact)
        tree, made = cKDTree(judge.surface[0]), (one, two, blurred(views, exact, one))
        rows = [
            np.concatenate([signed(judge, tree, maps, graph, each) for each in range(0, VIEWS, 2)]) for maps in made
        ]
        judged = np.isfinite(rows).all(axis=0)
        a, b, blur = (row[judged] for row in rows)
        alike, noise = float((a * b).mean()), float(((a - b) ** 2).mean() / 2)
        factor = float((blur * (a + b) / 2).sum() / (blur**2).sum())
        left = float(((a - factor * blur) * (b - factor * blur)).mean())
        true = [
            FusedView(
                np.where(np.isfinite(each.depth), depth, np.nan).astype(np.float32), each.sigma, camera, each.pose
            )
            for each, depth in zip(one, exact, strict=True)
        ]
        print(
            f"{name}, {camera.width} x {camera.height}: cloud {cloud(judge, one, graph).accuracy:.5f}, of exact maps "
            f"{cloud(judge, true, graph).accuracy:.5f}; points without rims: mean {np.abs(a).mean():.5f}, rms "
            f"{np.sqrt((a**2).mean()):.5f}, alike {np.sqrt(alike):.5f}, noise {np.sqrt(noise):.5f}; blur explains "
            f"{100 * (1 - left / alike):.0f} % of the square of what is alike (factor {factor:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
