"""The mesh of a scene: marching cubes through the volume, chunk by chunk, coloured; PLY and GLB."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import InputError, MissingDependency
from cfusion.geometry import Pinhole
from cfusion.io.codecs.ply_table import write_table
from cfusion.scene.border import REACH, continued, spread
from cfusion.scene.fused_view import FusedView, read_fused
from cfusion.scene.job import Job, open_job
from cfusion.scene.placing import placing
from cfusion.scene.progress import Listener, Teller
from cfusion.scene.sight import SIDE
from cfusion.scene.volume import Block, Volume

CHUNK = 8  # blocks along a chunk
VOXEL = (0.5, 1.0)  # pixels at least and at most
VOXEL_SIGMAS = 0.5  # of the usual sigma, between these: finer voxels follow noise
# More closes over rims that all see obliquely; less keeps thin things and folds, whose other side it would reach.
TRUNCATION = 3.0  # voxels at least
SIGMAS = 2.0  # at least, of the usual sigma: noisy maps are that far apart
NOISY = 0.5  # pixels of the usual sigma from which maps are noisy
AGREED = 0.2  # of the maps that look at a voxel, that are near it: fewer are noise, where maps are noisy
WELD = 256  # parts of a voxel within which vertices are one
SAMPLE = 20  # views that tell size and noise
VERTEX = np.dtype(
    [
        *(("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("nx", "<f4"), ("ny", "<f4"), ("nz", "<f4")),
        *(("red", "u1"), ("green", "u1"), ("blue", "u1")),
    ]
)
Faces = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles with a colour at every vertex, facing the cameras."""

    vertices: Points  # (V, 3)
    faces: Faces  # (F, 3)
    colours: NDArray[np.uint8]  # (V, 3)

    @property
    def normals(self) -> Points:
        """(V, 3) unit normals, the faces' around each vertex by their areas."""
        corners = self.vertices[self.faces]
        across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        summed = np.stack(
            [np.bincount(self.faces.ravel(), np.repeat(across[:, axis], 3), len(self.vertices)) for axis in range(3)],
            -1,
        )
        return np.asarray(summed / np.maximum(np.linalg.norm(summed, axis=-1, keepdims=True), 1e-30))


def volume_for(views: Sequence[FusedView], voxel: float | None = None) -> Volume:
    """An empty volume whose voxel and truncation suit some of the views.

    voxel: half a sigma, but half a pixel at least and a pixel at most; truncation: 3 voxels, or 2 sigma if that is more
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
        raise InputError("no view has a depth with a standard deviation; there is nothing to make a mesh of")
    pixel, sigma = float(np.median(sizes)), float(np.median(sigmas))
    size = float(np.clip(VOXEL_SIGMAS * sigma, VOXEL[0] * pixel, VOXEL[1] * pixel)) if voxel is None else voxel
    require_voxel(size)
    return Volume(size, max(TRUNCATION * size, SIGMAS * sigma), sigma, sigma > NOISY * pixel)


def require_voxel(voxel: float) -> None:
    """Find out before computing whether there can be such a voxel."""
    if not 0 < voxel < np.inf:
        raise InputError(f"--voxel is {voxel}; it is a positive length in the unit of depth")


def extract(volume: Volume) -> Mesh:
    """The zero surface, to a voxel beyond the last seen; of noisy maps what a fifth of those that look agree on."""
    parts = [part for chunk in sorted(_chunks(volume)) if (part := _of_chunk(volume, chunk)) is not None]
    if not parts:
        return Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int64), np.zeros((0, 3), np.uint8))
    starts = np.cumsum([0, *(len(vertices) for vertices, _, _ in parts)])
    vertices = np.concatenate([each[0] for each in parts])
    faces = np.concatenate([each[1] + start for each, start in zip(parts, starts, strict=False)])
    return _welded(vertices, faces, np.concatenate([each[2] for each in parts]), volume.voxel)


def write_mesh(job: Job, fused: Sequence[int], voxel: float | None, listener: Listener | None = None) -> int:
    """OUT/mesh.ply and OUT/mesh.glb of all fused maps; how many triangles."""
    some = fused[:: max(1, len(fused) // SAMPLE)]
    volume = volume_for([read_fused(job.folder, view) for view in some], voxel)
    views = open_job(job).views
    told = Teller(listener, len(fused), "mesh, view")
    for view in fused:  # all blocks first: every view speaks about all of them
        volume.reserve(read_fused(job.folder, view))
    for view in fused:
        volume.integrate(read_fused(job.folder, view), views[view].image)
        told.finished()
    mesh = extract(volume)
    with placing(Path(job.output)) as draft:
        write_ply(draft / "mesh.ply", mesh)
        (draft / "mesh.glb").write_bytes(_glb(mesh))
    return len(mesh.faces)


def write_ply(path: Path, mesh: Mesh) -> None:
    """Vertices with normals and colours, and triangles."""
    table = np.zeros(len(mesh.vertices), VERTEX)
    normals = mesh.normals if len(mesh.faces) else np.zeros_like(mesh.vertices)
    for axis, name in enumerate("xyz"):
        table[name], table[f"n{name}"] = mesh.vertices[:, axis], normals[:, axis]
    for channel, name in enumerate(("red", "green", "blue")):
        table[name] = mesh.colours[:, channel]
    write_table(path, VERTEX, len(table), [table], mesh.faces.astype(np.int32))


def require_libraries() -> None:
    """Find out before computing whether meshes can be made."""
    _library("skimage.measure")
    _library("trimesh")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingDependency(f"a mesh needs {name.split('.')[0]}: pip install 'cfusion[mesh]'") from None


def _glb(mesh: Mesh) -> bytes:
    """The y axis of glTF points up, ours down: turned about x, so that a scene stands upright in viewers."""
    upright = mesh.vertices * np.array([1.0, -1.0, -1.0])
    made = _library("trimesh").Trimesh(upright, mesh.faces, vertex_colors=mesh.colours, process=False)
    written: bytes = made.export(file_type="glb")
    return written


def _chunks(volume: Volume) -> set[Block]:
    """The chunks that hold a block, or border on one from below: a cube reaches one voxel up."""
    found: set[Block] = set()
    for x, y, z in volume.slots:
        for dx, dy, dz in np.ndindex(2, 2, 2):
            found.add(((x - dx) // CHUNK, (y - dy) // CHUNK, (z - dz) // CHUNK))
    return found


def _of_chunk(volume: Volume, chunk: Block) -> tuple[Points, Faces, NDArray[np.uint8]] | None:
    """Vertices in the world, faces and colours of one chunk; None where no surface passes."""
    size = CHUNK * SIDE + 1
    distance, known, colour = _grids(volume, chunk, size)
    if not known.any() or not (distance[known].min() < 0 < distance[known].max()):
        return None
    whole = known.copy()  # a cube needs all its corners; scikit-image's mask names it by its last one
    for axis in range(3):
        whole &= np.roll(whole, 1, axis)
        whole[(slice(None),) * axis + (0,)] = False
    if not whole.any():
        return None
    try:
        local, faces, _, _ = _library("skimage.measure").marching_cubes(
            distance, 0.0, mask=whole, allow_degenerate=False
        )
    except (ValueError, RuntimeError):  # no surface among the known cubes
        return None
    nearest = tuple(np.clip(np.rint(local).astype(np.int64), 0, size - 1).T)
    origin = np.array(chunk) * CHUNK * SIDE
    levels = np.rint(255 * np.clip(colour[nearest], 0, 1)).astype(np.uint8)
    # distances grow towards the camera: with scikit-image's default sign faces turn their front to it
    return (local.astype(np.float64) + origin) * volume.voxel, faces.astype(np.int64), levels


def _grids(
    volume: Volume, chunk: Block, size: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float32]]:
    """Distance, what is known, and colour of the voxels of a chunk and the next ones above it."""
    whole = (size + 2 * REACH,) * 3
    distance, known, painted = np.ones(whole, np.float32), np.zeros(whole, bool), np.zeros(whole, bool)
    colour = np.zeros((*whole, 3), np.float32)
    for start, slot in _blocks_of(volume, chunk):
        part = tuple(slice(max(first, 0), min(first + SIDE, whole[0])) for first in start)
        inner = tuple(slice(each.start - first, each.stop - first) for each, first in zip(part, start, strict=True))
        distance[part] = volume.distance[slot].reshape(SIDE, SIDE, SIDE)[inner]
        known[part] = _believed(volume, slot).reshape(SIDE, SIDE, SIDE)[inner]
        painted[part] = (volume.painted[slot] > 0).reshape(SIDE, SIDE, SIDE)[inner]
        colour[part] = volume.colour[slot].reshape(SIDE, SIDE, SIDE, 3)[inner]
    if not volume.noisy and known.any():
        distance, known = continued(distance, known, volume.truncation)
    middle = (slice(REACH, REACH + size),) * 3
    return distance[middle], known[middle], spread(colour, painted)[middle]


def _believed(volume: Volume, slot: int) -> NDArray[np.bool_]:
    """Voxels of a block that were seen; of noisy maps those that enough of them are near, or all see through."""
    seen = np.asarray(volume.weight[slot] > 0)
    if not volume.noisy:
        return seen
    near, looked = volume.near[slot], volume.looked[slot]
    return np.asarray(seen & ((near >= AGREED * looked) | (near == 0)))


def _blocks_of(volume: Volume, chunk: Block) -> Iterator[tuple[tuple[int, ...], int]]:
    """Blocks of a chunk and of the layers around it: where each starts in its grid, and its slot."""
    first = tuple(CHUNK * each for each in chunk)
    for inside in np.ndindex(CHUNK + 2, CHUNK + 2, CHUNK + 2):
        slot = volume.slots.get((first[0] + inside[0] - 1, first[1] + inside[1] - 1, first[2] + inside[2] - 1))
        if slot is not None:
            yield tuple(SIDE * (each - 1) + REACH for each in inside), slot


def _welded(vertices: Points, faces: Faces, colours: NDArray[np.uint8], voxel: float) -> Mesh:
    """One vertex where chunks meet."""
    cells = np.rint(vertices / voxel * WELD).astype(np.int64)
    _, first, place = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    joined = place.reshape(-1)[faces]
    real = (joined[:, 0] != joined[:, 1]) & (joined[:, 1] != joined[:, 2]) & (joined[:, 2] != joined[:, 0])
    return Mesh(vertices[first], joined[real], colours[first])
