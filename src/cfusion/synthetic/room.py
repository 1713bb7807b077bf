"""An object in front of walls and on a floor: depth edges with a surface on both sides."""

import numpy as np

from cfusion.synthetic.city_block import Polygon
from cfusion.synthetic.scene import Scene
from cfusion.synthetic.smooth_object import LONGEST_SIDE, blob

SIDE = 3.5  # from the centre to the side walls: the paper's orbit, of radius 3, lies inside
BACK, FRONT = 1.6, -4.5  # along z; the back wall is slightly rotated
TURN = 0.25  # by which one end of the back wall is nearer
CEILING = 3.0
GREYS = (0.55, 0.85, 0.7, 0.75)  # floor, back, left, right


def room(thing: Scene | None = None) -> Scene:
    """A thing (None: the smooth object) of longest side 2 units in a room, for the views of `object_bundle`.

    y is up. The thing stands on the floor; the background shows back wall, side walls and floor, but no ceiling.
    """
    stood = (blob() if thing is None else thing).centred().scaled_to(LONGEST_SIDE)
    floor = float(stood.lower[1])
    walls = _walls(floor)
    vertices = np.concatenate([*walls, stood.vertices])
    first = 4 * len(walls)
    quads = np.array([[4 * k + np.array([0, 1, 2]), 4 * k + np.array([0, 2, 3])] for k in range(len(walls))])
    faces = np.concatenate([quads.reshape(-1, 3), stood.faces + first])
    albedo = np.concatenate([np.repeat(GREYS, 2), np.full(len(stood.faces), 0.8)])
    return Scene(vertices, faces, f"room-{stood.name}", albedo)


def _walls(floor: float) -> list[Polygon]:
    """Floor, back wall, left and right wall, by their four corners."""
    left, right = (-SIDE, BACK - TURN), (SIDE, BACK + TURN)  # x and z of the back wall's ends
    ground = [(-SIDE, FRONT), (SIDE, FRONT), right, left]
    return [
        np.array([(x, floor, z) for x, z in ground]),
        _upright(left, right, floor),
        _upright((-SIDE, FRONT), left, floor),
        _upright(right, (SIDE, FRONT), floor),
    ]


def _upright(a: tuple[float, float], b: tuple[float, float], floor: float) -> Polygon:
    (xa, za), (xb, zb) = a, b
    return np.array([(xa, floor, za), (xb, floor, zb), (xb, CEILING, zb), (xa, CEILING, za)])
