"""Objects as scenes: 36 views around a mesh, cloud and mesh against the truth, beside Open3D's TSDF with hindsight.

python -m benchmarks.scene_objects [object ...] [--noise laplace kinect] [--scale 0.5] [--keep FOLDER] [--alone]
python -m benchmarks.scene_objects [object ...] --noise kinect --bound

Truth: what the 36 exact depth maps see. accuracy: mean distance from what was made to the mesh; completeness: mean
distance from the truth to what was made (to planes of the nearest of 200 000 samples, or of the cloud's points);
precision, recall: the shares within 1 % of the object's size, point to point; F: their harmonic mean. Open3D gets every
voxel size and truncation of a list, and the one with the best F is shown (it may choose knowing the truth).
--keep: fused maps are kept there and used again (by whatever code made them). --alone: without Open3D.
--bound: mean error along the normal of the fused maps, and of the mean of 400 draws of the same view, which has no
noise left: what the sensor blurs alike in all maps.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.scene_judge import Judge, Points, Score, sampled
from benchmarks.scene_sensor import VIEWS, kept_views, kinect, object_scene, scene_views
from cfusion import Pinhole, View, normals
from cfusion.arrays import DepthMap
from cfusion.scene import by_surface
from cfusion.scene.cloud import merged
from cfusion.scene.fused_view import FusedView
from cfusion.scene.mesh import Mesh, extract, to_integrate, volume_for
from cfusion.synthetic.track import PAPER_CAMERA, orbit

# Voxels and truncations that Open3D chooses from: noise of 0.85 needs truncations of that size.
SWEEPS = {
    "kinect": ((0.005, 0.007, 0.01, 0.02, 0.04), (0.02, 0.03, 0.04, 0.05, 0.08, 0.16)),
    "laplace": ((0.02, 0.04, 0.08), (0.32, 0.64, 1.28, 2.56)),
}
BOX = 2.6  # side of Open3D's volume, around the object: what is thrown beyond is not held against it
DRAWS, NEARLY_ALL, EDGE = 400, 350, 0.1  # of the bound; how many of them have a pixel; a step between surfaces


def ours(views: list[View], fused: list[FusedView], neighbours: int) -> tuple[tuple[Points, Points], Mesh]:
    """The merged cloud and the mesh."""
    graph = by_surface(views).cut(neighbours)
    pieces = [merged(fused.__getitem__, number, graph.both_ways(number)) for number in range(len(fused))]
    volume = volume_for(fused)
    for each in fused:
        volume.reserve(to_integrate(volume, each))
    for view, each in zip(views, fused, strict=True):
        volume.integrate(to_integrate(volume, each), view.image)
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


def bound(views: list[View], fused: list[FusedView], exact: list[DepthMap], camera: Pinhole) -> str:
    """What is left of the error when nothing is left of the noise, away from edges, in three views."""
    from scipy.ndimage import maximum_filter, minimum_filter

    rng, blurred, made = np.random.default_rng(7), [], []
    for number in range(0, len(views), len(views) // 3):
        truth, known, summed = exact[number], np.zeros(camera.shape), np.zeros(camera.shape)
        for _ in range(DRAWS):
            draw = kinect(truth, camera, rng)
            known += np.isfinite(draw)
            summed += np.nan_to_num(draw)
        facing = np.abs(np.einsum("hwx,hwx->hw", normals(truth, camera), camera.rays()))
        filled = np.nan_to_num(truth, nan=9.0)
        inner = maximum_filter(filled, 3) - minimum_filter(filled, 3) < EDGE
        each = fused[number]
        with np.errstate(invalid="ignore"):
            judged = inner & (known > NEARLY_ALL) & np.isfinite(each.depth + each.sigma) & (facing > 0.2)
        blurred.append(((summed / np.maximum(known, 1) - truth) * facing)[judged])
        made.append(((each.depth - truth) * facing)[judged])
    blur, error = np.concatenate(blurred), np.concatenate(made)
    return (
        f"fused maps {np.abs(error).mean():.5f}, mean of {DRAWS} draws {np.abs(blur).mean():.5f}, "
        f"correlation {np.corrcoef(blur, error)[0, 1]:.2f}"
    )


def peers(views: list[View], noise: str, judge: Judge) -> dict[str, Score]:
    """Open3D's rows: its best F, and its least error."""
    scores = {what: judge(*sampled(vertices, faces)) for what, vertices, faces in open3d_meshes(views, noise)}
    best = max(scores, key=lambda what: scores[what].f)
    nearest = min(scores, key=lambda what: scores[what].accuracy + scores[what].completeness)
    return {f"Open3D, best F: {best}": scores[best], f"Open3D, least error: {nearest}": scores[nearest]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="*", default=["bunny", "armadillo", "happy"])
    parser.add_argument("--noise", nargs="+", default=["laplace", "kinect"])
    parser.add_argument("--scale", type=float, default=0.5)
    parser.add_argument("--neighbours", type=int, default=10)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--bound", action="store_true")
    chosen = parser.parse_args()
    camera = PAPER_CAMERA.scaled(chosen.scale)
    print(f"{'object':<10} {'noise':<8} {'what':<50} accuracy  complete  precision  recall       F", flush=True)
    for name in chosen.objects:
        scene = object_scene(name)
        for noise in chosen.noise:
            views, exact = scene_views(scene, camera, noise)
            file = f"{name}-{noise}-{camera.width}-{chosen.neighbours}.npz"
            began = time.process_time()
            fused, read = kept_views(views, chosen.neighbours, chosen.keep / file if chosen.keep else None)
            spent = time.process_time() - began
            said = "maps were kept" if read else f"fused in {spent:.0f} s of CPU"
            print(f"{name:<10} {noise:<8} {VIEWS} views of {camera.width} x {camera.height}, {said}", flush=True)
            if chosen.bound:
                print(f"{name:<10} {noise:<8} {bound(views, fused, exact, camera)}", flush=True)
                continue
            judge = Judge(scene, camera, orbit(VIEWS), exact)
            cloud, mesh = ours(views, fused, chosen.neighbours)
            rows = {"cfusion cloud": judge(*cloud), "cfusion mesh": judge(*sampled(mesh.vertices, mesh.faces))}
            rows |= {} if chosen.alone else peers(views, noise, judge)
            for what, score in rows.items():
                print(
                    f"{name:<10} {noise:<8} {what:<50} {score.accuracy:.5f}   {score.completeness:.5f}   "
                    f"{score.precision:.5f}    {score.recall:.5f}   {score.f:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
