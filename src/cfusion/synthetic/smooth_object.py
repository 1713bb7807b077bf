"""A smooth object with a body, a head, ears and paws: round, with creases and parts that occlude each other."""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.synthetic.isosurface import isosurface
from cfusion.synthetic.scene import Scene

LONGEST_SIDE = 2.0
BLEND = 0.035  # width of the rounded creases between parts
RELIEF = 0.006  # height of the bumps on the surface
RELIEF_WAVES = np.array([[19.0, 7.0, -5.0], [-6.0, 17.0, 9.0], [8.0, -10.0, 16.0]])  # rad per unit

# centre, semi-axes, and lean about z and x in degrees; y is up, the face looks towards -z and +x
PARTS = (
    ((-0.15, -0.35, 0.05), (0.62, 0.52, 0.50), (15, 0)),  # body
    ((-0.42, -0.48, 0.02), (0.42, 0.45, 0.52), (0, 0)),  # haunches
    ((0.25, -0.15, -0.05), (0.38, 0.50, 0.36), (-20, 0)),  # chest
    ((0.42, 0.30, -0.12), (0.36, 0.31, 0.30), (-12, 0)),  # head
    ((0.70, 0.20, -0.18), (0.17, 0.14, 0.17), (0, 0)),  # snout
    ((0.30, 0.74, -0.24), (0.11, 0.40, 0.07), (12, 12)),  # ear
    ((0.16, 0.68, 0.06), (0.11, 0.42, 0.07), (28, -14)),  # ear
    ((-0.92, -0.50, 0.05), (0.17, 0.17, 0.17), (0, 0)),  # tail
    ((0.42, -0.74, -0.24), (0.32, 0.13, 0.14), (0, 0)),  # paw
    ((0.44, -0.74, 0.20), (0.32, 0.13, 0.14), (0, 0)),  # paw
    ((-0.22, -0.78, -0.38), (0.36, 0.12, 0.16), (0, 0)),  # foot
    ((-0.22, -0.78, 0.44), (0.36, 0.12, 0.16), (0, 0)),  # foot
)


def blob(resolution: int = 120) -> Scene:
    """A smooth, bunny-like object, y up, its longest side 2 units; `resolution` cells along that side."""
    box = np.array([1.3, 1.3, 1.0])
    vertices, faces = isosurface(_field, -box, box, resolution)
    return Scene(vertices, faces, "blob").centred().scaled_to(LONGEST_SIDE)


def _field(points: Points) -> NDArray[np.float64]:
    """The smooth union of the parts, -s log sum_i exp(-f_i / s), with a relief of three waves."""
    x, y, z = (np.ascontiguousarray(points[..., axis]) for axis in range(3))
    total = np.zeros_like(x)
    for centre, axes, lean in PARTS:
        squared = np.zeros_like(x)
        for a, b, c in _lean(*lean).T / np.array(axes)[:, None]:  # world to unit sphere
            squared += (a * x + b * y + c * z - (a * centre[0] + b * centre[1] + c * centre[2])) ** 2
        total += np.exp((1.0 - np.sqrt(squared)) * (min(axes) / BLEND))
    relief = RELIEF * np.prod([np.sin(a * x + b * y + c * z) for a, b, c in RELIEF_WAVES], axis=0)
    return np.asarray(relief - BLEND * np.log(np.maximum(total, np.finfo(np.float64).tiny)))


def _lean(about_z: float, about_x: float) -> NDArray[np.float64]:
    """The rotation of a part, world_from_part."""
    a, b = np.radians(about_z), np.radians(about_x)
    turn_z = np.array([[np.cos(a), -np.sin(a), 0.0], [np.sin(a), np.cos(a), 0.0], [0.0, 0.0, 1.0]])
    turn_x = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(b), -np.sin(b)], [0.0, np.sin(b), np.cos(b)]])
    return np.asarray(turn_z @ turn_x)
