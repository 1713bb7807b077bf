"""The coloured mesh of a scene by marching cubes through the volume, chunk by chunk; written as PLY and GLB."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import SMALL, Points, share_of
from cfusion.errors import InputError, optional_module
from cfusion.geometry import Pinhole
from cfusion.geometry.normals import summed_face_normals
from cfusion.io.codecs.ply import (
    COLOUR,
    MOST_ROUNDING,
    NORMAL,
    POSITION,
    fine_enough,
    rounding,
    table_of,
    write_table,
)
from cfusion.scene.border import REACH, extrapolated, spread_colours
from cfusion.scene.fused_view import NOISY, FusedView, read_fused, read_to_merge
from cfusion.scene.job import Job, open_job
from cfusion.scene.placing import placing
from cfusion.scene.progress import ProgressCallback, TaskProgress
from cfusion.scene.sight import SIDE
from cfusion.scene.volume import Block, Volume

CHUNK = 8  # blocks along a chunk
VOXEL = (0.5, 1.0)  # smallest and largest side of a voxel, in pixels
VOXEL_SIGMAS = 0.5  # side of a voxel in median sigmas, within these limits: finer voxels follow noise
# A larger truncation closes holes at obliquely seen rims; a smaller one separates the two sides of thin objects.
TRUNCATION = 3.0  # in voxels, and
SIGMAS = 2.0  # in median sigmas, at least: noisy maps lie that far apart
AGREED = 0.2  # smallest share of the maps looking at a voxel that must be near it, for noisy maps
HEARD = (
    0.01  # smallest share of the weight that a voxel's maps have, of theirs and that of maps that hide it, for others
)
WELD = 256  # vertices closer than voxel / WELD are merged
SAMPLE = 20  # views from which voxel size and noise are estimated
VERTEX = np.dtype([*POSITION, *NORMAL, *COLOUR])
Faces = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles with a colour at every vertex, facing the cameras."""

    vertices: Points  # (V, 3)
    faces: Faces  # (F, 3)
    colours: NDArray[np.uint8]  # (V, 3)

    @property
    def normals(self) -> Points:
        """Unit normals (V, 3): the means of the adjacent faces' normals, weighted by area."""
        summed = summed_face_normals(self.vertices, self.faces)
        return np.asarray(summed / np.maximum(np.linalg.norm(summed, axis=-1, keepdims=True), SMALL))


def volume_for(views: Sequence[FusedView], voxel: float | None = None) -> Volume:
    """An empty volume with voxel size and truncation chosen from the pixels and sigmas of the views.

    voxel: half the median sigma, clipped to [1/2, 1] pixel; truncation: the larger of 3 voxels and 2 sigma.
    """
    sizes, sigmas = [], []
    for view in views:
        known = np.isfinite(view.depth) & np.isfinite(view.sigma) & (view.sigma > 0)
        if known.any():
            camera = view.camera
            across = 1 / camera.fx if isinstance(camera, Pinhole) else camera.pixel_size
            sizes.append(across * (float(np.median(view.depth[known])) if isinstance(camera, Pinhole) else 1.0))
            sigmas.append(float(np.median(view.sigma[known])))
    if not sizes:
        raise InputError("no view has a depth with a standard deviation; fuse the views before meshing them")
    pixel, sigma = float(np.median(sizes)), float(np.median(sigmas))
    size = float(np.clip(VOXEL_SIGMAS * sigma, VOXEL[0] * pixel, VOXEL[1] * pixel)) if voxel is None else voxel
    require_voxel(size)
    return Volume(size, max(TRUNCATION * size, SIGMAS * sigma), sigma, sigma > NOISY * pixel)


def to_integrate(volume: Volume, view: FusedView) -> FusedView:
    """The view as the volume takes it: levelled as for the cloud, unless the maps are noisy."""
    return view if volume.noisy else view.levelled


def require_voxel(voxel: float) -> None:
    """Raise before any computation if the voxel size is invalid."""
    if not 0 < voxel < np.inf:
        raise InputError(f"--voxel is {voxel}; give a positive length in the unit of depth")


def extract(volume: Volume) -> Mesh:
    """The zero surface, extended by one voxel; for noisy maps only where a fifth of the maps that look there agree."""
    parts = [part for chunk in sorted(_chunks(volume)) if (part := _of_chunk(volume, chunk)) is not None]
    if not parts:
        return Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int64), np.zeros((0, 3), np.uint8))
    starts = np.cumsum([0, *(len(vertices) for vertices, _, _ in parts)])
    vertices = np.concatenate([each[0] for each in parts])
    faces = np.concatenate([each[1] + start for each, start in zip(parts, starts, strict=False)])
    return _welded(vertices, faces, np.concatenate([each[2] for each in parts]), volume.voxel)


def write_mesh(job: Job, fused: Sequence[int], voxel: float | None, callback: ProgressCallback | None) -> int:
    """Write OUT/mesh.ply and OUT/mesh.glb of all fused maps; return the number of triangles."""
    some = fused[:: share_of(len(fused), SAMPLE)]
    volume = volume_for([read_fused(job.folder, view) for view in some], voxel)
    views = open_job(job).views
    progress = TaskProgress(callback, len(fused), "mesh, view")
    for view in fused:  # all blocks first, because every view updates all blocks
        volume.reserve(to_integrate(volume, read_to_merge(job, view)))
    for view in fused:
        volume.integrate(to_integrate(volume, read_to_merge(job, view)), views[view].image)
        progress.finished()
    mesh = extract(volume)
    with placing(Path(job.output)) as draft:
        write_ply(draft / "mesh.ply", mesh, volume.voxel)
        (draft / "mesh.glb").write_bytes(_glb(mesh, volume.voxel))
    return len(mesh.faces)


def write_ply(path: Path, mesh: Mesh, voxel: float = np.inf) -> None:
    """Vertices with normals and colours, and triangles."""
    normals = mesh.normals if len(mesh.faces) else np.zeros_like(mesh.vertices)
    columns = fine_enough(VERTEX, mesh.vertices, voxel)
    table = table_of(columns, mesh.vertices, normals, mesh.colours)
    write_table(path, columns, len(table), [table], mesh.faces.astype(np.int32))


def require_libraries() -> None:
    """Raise before any computation if a library for meshes is missing."""
    _mesh_module("skimage.measure")
    _mesh_module("trimesh")


def _mesh_module(name: str) -> Any:
    return optional_module(name, missing=f"a mesh needs {name.split('.')[0]}: pip install 'cfusion[mesh]'")


def _glb(mesh: Mesh, voxel: float) -> bytes:
    """The mesh as GLB; turned about x, because the y axis of glTF points up and ours down.

    GLB has single precision only: vertices that are too far away for it are moved to the origin, and their node back.
    """
    upright, trimesh = mesh.vertices * np.array([1.0, -1.0, -1.0]), _mesh_module("trimesh")
    far = rounding(upright) > MOST_ROUNDING * voxel
    moved = np.rint(upright.mean(axis=0)) if far else np.zeros(3)
    made = trimesh.Trimesh(upright - moved, mesh.faces, vertex_colors=mesh.colours, process=False)
    if far:
        made = trimesh.Scene(made)
        made.apply_translation(moved)
    written: bytes = made.export(file_type="glb")
    return written


def _chunks(volume: Volume) -> set[Block]:
    """The chunks that hold a block, or lie just below one: a cube spans one voxel upwards."""
    found: set[Block] = set()
    for x, y, z in volume.slots:
        for dx, dy, dz in np.ndindex(2, 2, 2):
            found.add(((x - dx) // CHUNK, (y - dy) // CHUNK, (z - dz) // CHUNK))
    return found


def _of_chunk(volume: Volume, chunk: Block) -> tuple[Points, Faces, NDArray[np.uint8]] | None:
    """World vertices, faces and colours of one chunk; None if it contains no surface."""
    size = CHUNK * SIDE + 1
    distance, known, colour = _grids(volume, chunk, size)
    if not known.any() or not (distance[known].min() < 0 < distance[known].max()):
        return None
    whole = known.copy()  # a cube needs all corners; scikit-image's mask refers to a cube by its last corner
    for axis in range(3):
        whole &= np.roll(whole, 1, axis)
        whole[(slice(None),) * axis + (0,)] = False
    if not whole.any():
        return None
    try:
        local, faces, _, _ = _mesh_module("skimage.measure").marching_cubes(
            distance, 0.0, mask=whole, allow_degenerate=False
        )
    except (ValueError, RuntimeError):  # the known cubes contain no surface
        return None
    nearest = tuple(np.clip(np.rint(local).astype(np.int64), 0, size - 1).T)
    origin = np.array(chunk) * CHUNK * SIDE
    levels = np.rint(255 * np.clip(colour[nearest], 0, 1)).astype(np.uint8)
    # distances grow towards the camera: scikit-image's default sign makes faces front-facing
    return (local.astype(np.float64) + origin) * volume.voxel, faces.astype(np.int64), levels


def _grids(
    volume: Volume, chunk: Block, size: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float32]]:
    """Distance, known mask and colour of a chunk's voxels and of one layer above."""
    whole = (size + 2 * REACH,) * 3
    distance, known, painted = np.ones(whole, np.float32), np.zeros(whole, bool), np.zeros(whole, bool)
    colour = np.zeros((*whole, 3), np.float32)
    for start, slot in _blocks_of(volume, chunk):
        part = tuple(slice(max(first, 0), min(first + SIDE, whole[0])) for first in start)
        inner = tuple(slice(each.start - first, each.stop - first) for each, first in zip(part, start, strict=True))
        distance[part] = volume.distance[slot].reshape(SIDE, SIDE, SIDE)[inner]
        known[part] = _reliable(volume, slot).reshape(SIDE, SIDE, SIDE)[inner]
        painted[part] = (volume.painted[slot] > 0).reshape(SIDE, SIDE, SIDE)[inner]
        colour[part] = volume.colour[slot].reshape(SIDE, SIDE, SIDE, 3)[inner]
    if not volume.noisy and known.any():
        distance, known = extrapolated(distance, known, volume.truncation)
    middle = (slice(REACH, REACH + size),) * 3
    return distance[middle], known[middle], spread_colours(colour, painted)[middle]


def _reliable(volume: Volume, slot: int) -> NDArray[np.bool_]:
    """Voxels of a block that were seen, and not by a few maps through what others see as a surface before them.

    For noisy maps: those that enough maps are near, or that all see through.
    """
    weight = volume.weight[slot]
    seen = np.asarray(weight > 0)
    if not volume.noisy:
        return np.asarray(seen & (weight >= HEARD * (weight + volume.hidden[slot])))
    near, looked = volume.near[slot], volume.looked[slot]
    return np.asarray(seen & ((near >= AGREED * looked) | (near == 0)))


def _blocks_of(volume: Volume, chunk: Block) -> Iterator[tuple[tuple[int, ...], int]]:
    """Blocks of a chunk and of the layers around it: (start in the chunk's grid, slot)."""
    first = tuple(CHUNK * each for each in chunk)
    for inside in np.ndindex(CHUNK + 2, CHUNK + 2, CHUNK + 2):
        slot = volume.slots.get((first[0] + inside[0] - 1, first[1] + inside[1] - 1, first[2] + inside[2] - 1))
        if slot is not None:
            yield tuple(SIDE * (each - 1) + REACH for each in inside), slot


def _welded(vertices: Points, faces: Faces, colours: NDArray[np.uint8], voxel: float) -> Mesh:
    """The mesh with vertices of adjacent chunks merged."""
    cells = np.rint(vertices / voxel * WELD).astype(np.int64)
    _, first, place = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    joined = place.reshape(-1)[faces]
    real = (joined[:, 0] != joined[:, 1]) & (joined[:, 1] != joined[:, 2]) & (joined[:, 2] != joined[:, 0])
    return Mesh(vertices[first], joined[real], colours[first])
