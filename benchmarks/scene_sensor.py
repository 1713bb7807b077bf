"""Noisy views around an object, fused, and kept on disk if asked."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from cfusion import Pinhole, View, fuse_every, normals
from cfusion.arrays import DepthMap
from cfusion.methods import keeping_plausible
from cfusion.scene import by_surface
from cfusion.scene.fused_view import FusedView
from cfusion.synthetic.noise import Laplace
from cfusion.synthetic.render import RayCaster
from cfusion.synthetic.scene import Scene, load_mesh
from cfusion.synthetic.track import orbit

OBJECTS = {
    **{"bunny": "stanford/bunny.ply", "armadillo": "stanford/armadillo.ply", "happy": "stanford/happy_buddha.ply"},
    **{"dragon": "stanford/dragon.ply"},
    **{name: f"mian/{name}.ply" for name in ("chef", "chicken", "parasaurolophus", "trex")},
}
VIEWS, SIZE = 36, 2.0
KINECT_FB, SUBPIXEL = 580 * 0.075, 8  # pixels times metres, steps a pixel


def object_scene(name: str) -> Scene:
    """A mesh of size SIZE about the origin."""
    data = Path(os.environ.get("CFUSION_DATA", "../shared/data"))
    return load_mesh(data / OBJECTS[name]).centred().scaled_to(SIZE)


def kinect(depth: DepthMap, camera: Pinhole, rng: np.random.Generator) -> DepthMap:
    """Nguyen 2012: axial 0.0012 + 0.0019 (z - 0.4)^2, lateral 0.8 px, disparity in steps, holes at edges."""
    height, width = depth.shape
    rows, columns = np.mgrid[:height, :width]
    shifted = [
        np.clip(np.rint(at + rng.normal(0, 0.8, depth.shape)).astype(int), 0, top - 1)
        for at, top in ((rows, height), (columns, width))
    ]
    seen = depth[shifted[0], shifted[1]].astype(np.float64)
    seen = seen + rng.normal(0, 1, depth.shape) * (0.0012 + 0.0019 * (seen - 0.4) ** 2)
    seen = KINECT_FB / (np.rint(SUBPIXEL * KINECT_FB / seen) / SUBPIXEL)
    facing = np.abs(np.einsum("hwx,hwx->hw", normals(depth, camera), camera.rays()))
    torn = np.zeros(depth.shape, bool)
    for axis in (0, 1):
        step = np.abs(np.diff(np.nan_to_num(depth, nan=9.0), axis=axis)) > 0.1
        torn |= np.insert(step, 0, False, axis=axis) | np.insert(step, step.shape[axis], False, axis=axis)
    seen[(facing < np.cos(np.radians(75))) | torn | ~np.isfinite(depth)] = np.nan
    return np.where(seen > 0, seen, np.nan).astype(np.float32)


def scene_views(scene: Scene, camera: Pinhole, noise: str) -> tuple[list[View], list[DepthMap]]:
    """Noisy views around the object, and their exact depths."""
    caster, rng = RayCaster(scene), np.random.default_rng(0)
    views, exact = [], []
    for pose in orbit(VIEWS):
        depth, image = caster.photograph(camera, pose)
        noisy = kinect(depth, camera, rng) if noise == "kinect" else Laplace(0.6)(depth, rng)
        views.append(View(noisy, camera, pose, image))
        exact.append(depth)
    return views, exact


def fused_views(views: list[View], neighbours: int) -> list[FusedView]:
    """Every view fused by `auto` from its neighbours, as `cfusion scene` does."""
    graph, usual = by_surface(views).cut(neighbours), keeping_plausible("auto", {})
    found = []
    for view, result in zip(views, fuse_every(views, neighbours=graph, backend="cpu", **usual), strict=True):
        found.append(FusedView(result.depth, result.sigma, view.camera, view.pose, measured=view.depth))
    return found


def kept_views(views: list[View], neighbours: int, kept: Path | None) -> tuple[list[FusedView], bool]:
    """Fused views, read from a file if they are there (then True), and written to it if not."""
    if kept is not None and kept.is_file():
        with np.load(kept) as maps:
            depth, sigma = maps["depth"], maps["sigma"]
        each = zip(depth, sigma, views, strict=True)
        return [FusedView(d, s, v.camera, v.pose, measured=v.depth) for d, s, v in each], True
    fused = fused_views(views, neighbours)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, depth=np.stack([each.depth for each in fused]), sigma=np.stack([each.sigma for each in fused]))
    return fused, False
