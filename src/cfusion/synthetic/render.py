"""Ray casting: depth and image of a scene for a camera and a pose."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Image, Points
from cfusion.geometry import Camera, Pinhole, Pose
from cfusion.geometry.normals import summed_face_normals
from cfusion.synthetic.first_hit import first_faces
from cfusion.synthetic.scene import Scene

LIGHT = np.array([0.60, 0.78, 0.18])  # towards the light, in the world; unit
GREY = 0.8  # albedo of scenes without one


def render(scene: Scene, camera: Camera, pose: Pose) -> DepthMap:
    """Depth (H, W) of the scene, exact up to float32; NaN where no ray hits. `pose` is world_from_camera."""
    return RayCaster(scene).render(camera, pose)


def photograph(scene: Scene, camera: Camera, pose: Pose) -> tuple[DepthMap, Image]:
    """Depth (H, W), and a grey image (H, W) under one distant light, albedo (1 + n . l) / 2; 0 where no ray hits."""
    return RayCaster(scene).photograph(camera, pose)


class RayCaster:
    """A scene prepared for casting rays; reuse it to render many views of one scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._embree = _embree(scene)
        self._normals = summed_face_normals(scene.vertices, scene.faces)

    def render(self, camera: Camera, pose: Pose) -> DepthMap:
        """The same as the function `render`."""
        return self._cast(camera, pose)[0]

    def photograph(self, camera: Camera, pose: Pose) -> tuple[DepthMap, Image]:
        """The same as the function `photograph`."""
        depth, hits = self._cast(camera, pose)
        normal = np.einsum("nc,ncx->nx", hits.weights, self._normals[self.scene.faces[hits.face]])
        normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)
        # Files may wind faces either way: light the visible side.
        lit = (normal @ LIGHT) * -np.sign(np.einsum("nx,nx->n", normal, hits.ray))
        albedo = GREY if self.scene.albedo is None else self.scene.albedo[hits.face]
        image = np.zeros(camera.shape, dtype=np.float32)
        image[~np.isnan(depth)] = albedo * (0.5 + 0.5 * np.clip(lit, -1.0, 1.0))
        return depth, image

    def _cast(self, camera: Camera, pose: Pose) -> tuple[DepthMap, "Hits"]:
        """Depth (H, W) and hits: Embree finds the face in float32, or NumPy; the point on it is computed in float64."""
        origins, rays = _world_rays(camera, pose)
        if self._embree is None:
            corners = self.scene.vertices[self.scene.faces]
            first = first_faces(corners, camera, pose, origins, rays)
        else:
            first = np.asarray(self._embree.intersects_first(origins, rays), dtype=np.int64)
        hit = first >= 0
        face, ray = first[hit], rays[hit]
        weights = _barycentric(self.scene.vertices[self.scene.faces[face]], origins[hit], ray)
        vertex_z = (self.scene.vertices - pose.translation) @ pose.rotation[:, 2]
        depth = np.full(camera.shape, np.nan, dtype=np.float32)
        depth[hit.reshape(camera.shape)] = np.einsum("nc,nc->n", weights, vertex_z[self.scene.faces[face]])
        return depth, Hits(face, weights, ray)


class Hits(NamedTuple):
    """The N rays that hit the scene, in row order of the image."""

    face: NDArray[np.int64]  # (N,)
    weights: NDArray[np.float64]  # (N, 3), barycentric
    ray: Points  # (N, 3), unit, in the world


def _embree(scene: Scene) -> Any:
    """The scene in Embree; None if it is not installed: NumPy then finds the same faces, more slowly."""
    try:
        import trimesh
        from trimesh.ray.ray_pyembree import RayMeshIntersector
    except ImportError:
        return None
    return RayMeshIntersector(trimesh.Trimesh(scene.vertices, scene.faces, process=False))


def _world_rays(camera: Camera, pose: Pose) -> tuple[Points, Points]:
    """Origins and unit directions (H W, 3) of all rays, in the world."""
    directions = pose.turn(camera.rays().reshape(-1, 3))
    if isinstance(camera, Pinhole):
        return np.broadcast_to(pose.translation, directions.shape), directions
    return pose.apply(camera.back_project(np.zeros(camera.shape)).reshape(-1, 3)), directions


def _barycentric(corners: Points, origins: Points, rays: Points) -> NDArray[np.float64]:
    """Weights (N, 3) of the corners at the points where rays hit triangles (N, 3, 3).

    Clipped to the triangle, for rays along a face and for hits that float32 assigned to a neighbour.
    """
    a, edge_b, edge_c = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    across = np.cross(rays, edge_c)
    determinant = np.einsum("nx,nx->n", edge_b, across)
    determinant = np.where(determinant == 0, np.finfo(np.float64).tiny, determinant)
    offset = origins - a
    b = np.einsum("nx,nx->n", offset, across) / determinant
    c = np.einsum("nx,nx->n", rays, np.cross(offset, edge_b)) / determinant
    weights = np.clip(np.stack([1.0 - b - c, b, c], axis=-1), 0.0, 1.0)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
