"""Triangle meshes: their type, simple ones with a formula for the depth, and meshes from files."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import FileError, InputError, ShapeError, optional_module
from cfusion.synthetic.isosurface import Faces, isosurface


@dataclass(frozen=True, eq=False)
class Scene:
    """A triangle mesh in world coordinates."""

    vertices: Points  # (V, 3)
    faces: Faces  # (F, 3), indices of vertices
    name: str = ""
    albedo: NDArray[np.float64] | None = None  # (F,), in [0, 1]; None: uniform grey

    def __post_init__(self) -> None:
        vertices = np.array(self.vertices, dtype=np.float64)
        faces = np.array(self.faces, dtype=np.int64)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3:
            raise ShapeError(f"give vertices (V, 3) and faces (F, 3), not {vertices.shape} and {faces.shape}")
        if not len(faces) or not np.isfinite(vertices).all():
            raise InputError("a mesh needs at least one face, and vertices that are finite")
        if faces.min() < 0 or faces.max() >= len(vertices):
            raise InputError(f"faces use vertices {faces.min()} to {faces.max()}; give 0 to {len(vertices) - 1}")
        for name, array in (("vertices", vertices), ("faces", faces)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.albedo is not None and np.shape(self.albedo) != (len(faces),):
            raise ShapeError(f"albedo is {np.shape(self.albedo)}, give one value for each of the {len(faces)} faces")

    @property
    def lower(self) -> Points:
        """(3,), the corner of the bounding box with the smallest coordinates."""
        return np.asarray(self.vertices.min(axis=0))

    @property
    def upper(self) -> Points:
        """(3,), the corner of the bounding box with the largest coordinates."""
        return np.asarray(self.vertices.max(axis=0))

    def centred(self) -> "Scene":
        """The scene with the centre of its bounding box at the origin."""
        return replace(self, vertices=self.vertices - 0.5 * (self.lower + self.upper))

    def scaled_to(self, longest_side: float) -> "Scene":
        """The scene scaled about the origin, so that the longest side of its bounding box is as given."""
        if not longest_side > 0:
            raise InputError(f"longest_side is {longest_side}; give a positive length")
        return replace(self, vertices=self.vertices * (longest_side / float((self.upper - self.lower).max())))

    def upright(self) -> "Scene":
        """The scene rotated so that its longest axis is y."""
        longest = int(np.argmax(self.upper - self.lower))
        return replace(self, vertices=np.roll(self.vertices, 1 - longest, axis=1))  # cyclic: a rotation, no mirror


def load_mesh(path: str | Path) -> Scene:
    """A scene from a mesh file (PLY, OBJ, STL, ...), in the file's own unit and axes."""
    trimesh = optional_module("trimesh", missing="reading meshes needs trimesh: pip install 'cfusion[synthetic]'")
    path = Path(path)
    try:
        mesh = trimesh.load(path, force="mesh", process=False)
        return Scene(np.asarray(mesh.vertices), np.asarray(mesh.faces), path.stem)
    except Exception as error:  # trimesh passes on any error of its parsers
        raise FileError(f"{path} cannot be read as a mesh ({error}); check the file") from error


def plane(distance: float = 3.0, slope: tuple[float, float] = (0.0, 0.0), size: float = 20.0) -> Scene:
    """The plane z = distance + slope . (x, y), |x|, |y| <= size / 2, facing a camera at the identity."""
    corners = 0.5 * size * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    vertices = np.column_stack([corners, distance + corners @ np.array(slope)])
    return Scene(vertices, np.array([[0, 2, 1], [0, 3, 2]]), "plane")


def step(near: float = 2.0, far: float = 3.0, size: float = 20.0) -> Scene:
    """Planes z = near (x < 0) and z = far (x > 0) facing a camera at the identity, with the wall between them."""
    s = 0.5 * size
    profile = ((-s, near), (0.0, near), (0.0, far), (s, far))  # x, z
    vertices = np.array([(x, y, z) for x, z in profile for y in (-s, s)])
    strip = np.array([[0, 1, 2], [1, 3, 2]])
    return Scene(vertices, np.concatenate([strip, strip + 2, strip + 4]), "step")


def sphere(radius: float = 1.0, resolution: int = 100) -> Scene:
    """A sphere about the origin: vertices on it, faces within 2 radius / resolution^2 of it."""
    box = np.full(3, 1.1 * radius)
    return Scene(*isosurface(lambda p: np.linalg.norm(p, axis=-1) - radius, -box, box, resolution), "sphere")
