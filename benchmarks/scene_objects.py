"""Objects as scenes: 36 views around a mesh, cloud and mesh against the truth, beside Open3D's TSDF with hindsight.

python -m benchmarks.scene_objects [object ...] [--noise laplace kinect] [--scale 0.5]

Truth: what the 36 exact depth maps see. accuracy: mean distance from what was made to the mesh; completeness: mean
distance from the truth to what was made (to planes of the nearest of 200 000 samples, or of the cloud's points); F:
harmonic mean of the shares within 1 % of the object's size, point to point. Open3D gets every voxel size and truncation
of a list, and the one with the best F is shown (it may choose knowing the truth).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion import Pinhole, Pose, View, fuse_every, normals
from cfusion.arrays import DepthMap
from cfusion.methods import keeping_likely
from cfusion.scene import by_surface
from cfusion.scene.cloud import merged
from cfusion.scene.fused_view import FusedView
from cfusion.scene.mesh import Mesh, extract, volume_for
from cfusion.synthetic.noise import Laplace
from cfusion.synthetic.render import RayCaster
from cfusion.synthetic.scene import Scene, load_mesh
from cfusion.synthetic.track import PAPER_CAMERA, orbit

OBJECTS = {"bunny": "stanford/bunny.ply", "armadillo": "stanford/armadillo.ply", "happy": "stanford/happy_buddha.ply"}
VIEWS, SIZE, THRESHOLD, POINTS = 36, 2.0, 0.01, 200_000
# Voxels and truncations that Open3D chooses from: noise of 0.85 needs truncations of that size.
SWEEPS = {
    "kinect": ((0.01, 0.02, 0.04), (0.04, 0.08, 0.16)),
    "laplace": ((0.02, 0.04, 0.08), (0.32, 0.64, 1.28, 2.56)),
}
BOX = 2.6  # side of Open3D's volume, around the object: what is thrown beyond is not held against it
KINECT_FB, SUBPIXEL = 580 * 0.075, 8  # pixels times metres, steps a pixel
Points = NDArray[np.float64]


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
    graph, usual = by_surface(views).cut(neighbours), keeping_likely("auto", {})
    found = []
    for view, result in zip(views, fuse_every(views, neighbours=graph, backend="cpu", **usual), strict=True):
        found.append(FusedView(result.depth, result.sigma, view.camera, view.pose))
    return found


def ours(views: list[View], fused: list[FusedView], neighbours: int) -> tuple[tuple[Points, Points], Mesh]:
    """The merged cloud and the mesh."""
    graph = by_surface(views).cut(neighbours)
    pieces = [merged(fused.__getitem__, number, graph.both_ways(number)) for number in range(len(fused))]
    volume = volume_for(fused)
    for each in fused:
        volume.reserve(each)
    for view, each in zip(views, fused, strict=True):
        volume.integrate(each, view.image)
    cloud = np.concatenate([each.points for each in pieces]), np.concatenate([each.normals for each in pieces])
    return cloud, extract(volume)


def open3d_meshes(views: list[View], noise: str) -> Iterator[tuple[str, Points, NDArray[np.int64]]]:
    """Open3D's TSDF at every voxel size and truncation; half a pixel is added to its centre (its issue 7580).

    Its uniform volume: the scalable one of 0.20.0 returns no surface, not even of a plane.
    """
    import open3d

    voxels, truncations = SWEEPS[noise]
    for voxel, truncation in ((v, t) for v in voxels for t in truncations if t >= 2 * v):
        volume = open3d.pipelines.integration.UniformTSDFVolume(
            length=BOX,
            resolution=round(BOX / voxel),
            sdf_trunc=truncation,
            color_type=open3d.pipelines.integration.TSDFVolumeColorType.NoColor,
            origin=np.full(3, -BOX / 2),
        )
        for view in views:
            assert isinstance(view.camera, Pinhole)
            c = view.camera
            intrinsic = open3d.camera.PinholeCameraIntrinsic(c.width, c.height, c.fx, c.fy, c.cx + 0.5, c.cy + 0.5)
            depth = open3d.geometry.Image(np.nan_to_num(view.depth, nan=0.0))
            grey = open3d.geometry.Image(np.zeros(view.shape, np.float32))
            rgbd = open3d.geometry.RGBDImage.create_from_color_and_depth(grey, depth, 1.0, 100.0, True)
            volume.integrate(rgbd, intrinsic, view.pose.inverse().matrix())
        mesh = volume.extract_triangle_mesh()
        if len(mesh.triangles):
            yield f"voxel {voxel}, truncation {truncation}", np.asarray(mesh.vertices), np.asarray(mesh.triangles)


def sampled(vertices: Points, faces: NDArray[np.int64]) -> tuple[Points, Points]:
    """Points spread evenly over a mesh, and its normals there."""
    import trimesh

    mesh = trimesh.Trimesh(vertices, faces, process=False)
    points, of = trimesh.sample.sample_surface(mesh, POINTS, seed=0)
    return np.asarray(points), np.asarray(mesh.face_normals)[of]


class Judge:
    """Distances to the truth and back: to the plane of the nearest sample, where that is near enough to be its face."""

    def __init__(self, scene: Scene, camera: Pinhole, poses: list[Pose], exact: list[DepthMap]) -> None:
        seen = [
            pose.apply(camera.back_project(depth)[np.isfinite(depth)]) for pose, depth in zip(poses, exact, strict=True)
        ]
        self.truth = _some(np.concatenate(seen))
        self.surface = sampled(np.asarray(scene.vertices), np.asarray(scene.faces))

    def __call__(self, points: Points, normals_: Points) -> tuple[float, float, float]:
        """accuracy, completeness, F."""
        accuracy, precision = _distances(_some(points), *self.surface)
        completeness, recall = _distances(self.truth, points, normals_)
        return accuracy, completeness, 2 * precision * recall / max(precision + recall, 1e-12)


def _some(points: Points) -> Points:
    rng = np.random.default_rng(1)
    return points if len(points) <= POINTS else points[rng.choice(len(points), POINTS, replace=False)]


def _distances(points: Points, onto: Points, normals_: Points) -> tuple[float, float]:
    """The mean distance of points from a sampled surface, and the share within the threshold."""
    from scipy.spatial import cKDTree

    apart, nearest = cKDTree(onto).query(points)
    along = np.abs(np.einsum("nx,nx->n", normals_[nearest], points - onto[nearest]))
    return float(np.where(apart < THRESHOLD * SIZE, along, apart).mean()), float((apart < THRESHOLD * SIZE).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objects", nargs="*", default=list(OBJECTS))
    parser.add_argument("--noise", nargs="+", default=["laplace", "kinect"])
    parser.add_argument("--scale", type=float, default=0.5)
    parser.add_argument("--neighbours", type=int, default=10)
    chosen = parser.parse_args()
    data = Path(os.environ.get("CFUSION_DATA", "../shared/data"))
    camera = PAPER_CAMERA.scaled(chosen.scale)
    print(f"{'object':<10} {'noise':<8} {'what':<44} accuracy  complete      F", flush=True)
    for name in chosen.objects:
        scene = load_mesh(data / OBJECTS[name]).centred().scaled_to(SIZE)
        for noise in chosen.noise:
            views, exact = scene_views(scene, camera, noise)
            judge = Judge(scene, camera, orbit(VIEWS), exact)
            began = time.perf_counter()
            fused = fused_views(views, chosen.neighbours)
            spent = time.perf_counter() - began
            cloud, mesh = ours(views, fused, chosen.neighbours)
            rows = {"cfusion cloud": judge(*cloud), "cfusion mesh": judge(*sampled(mesh.vertices, mesh.faces))}
            peers = {what: judge(*sampled(vertices, faces)) for what, vertices, faces in open3d_meshes(views, noise)}
            best = max(peers, key=lambda what: peers[what][2])
            nearest = min(peers, key=lambda what: peers[what][0] + peers[what][1])
            rows |= {f"Open3D, best F: {best}": peers[best], f"Open3D, least error: {nearest}": peers[nearest]}
            for what, (accuracy, complete, f) in rows.items():
                print(f"{name:<10} {noise:<8} {what:<44} {accuracy:.5f}   {complete:.5f}   {f:.4f}", flush=True)
            print(
                f"{name:<10} {noise:<8} {VIEWS} views of {camera.width} x {camera.height} in {spent:.0f} s", flush=True
            )


if __name__ == "__main__":
    main()
