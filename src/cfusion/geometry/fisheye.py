"""ETH3D's lens, for its reader only: a camera of this kind does not exist here, and other fisheyes are not modelled.

An equidistant fisheye with radial, tangential and thin prism terms (COLMAP's THIN_PRISM_FISHEYE).
"""

import numpy as np

from cfusion.arrays import Coordinates


def thin_prism_fisheye(
    parameters: tuple[float, ...], x: Coordinates, y: Coordinates
) -> tuple[Coordinates, Coordinates]:
    """Pixel coordinates of the rays (x, y, 1), in the convention of K.

    With r = |(x, y)|, theta = atan r and (a, b) = (x, y) theta / r, q = a^2 + b^2:
    u = fx (a + a (k1 q + k2 q^2 + k3 q^3 + k4 q^4) + 2 p1 a b + p2 (q + 2 a^2) + s1 q) + cx, v accordingly.
    """
    fx, fy, cx, cy, k1, k2, p1, p2, k3, k4, s1, s2 = parameters
    r = np.hypot(x, y)
    shrunk = np.where(r > 0, np.arctan(r) / np.where(r > 0, r, 1.0), 1.0)
    a, b = x * shrunk, y * shrunk
    q = a * a + b * b
    radial = 1 + q * (k1 + q * (k2 + q * (k3 + q * k4)))
    across = a * radial + 2 * p1 * a * b + p2 * (q + 2 * a * a) + s1 * q
    down = b * radial + 2 * p2 * a * b + p1 * (q + 2 * b * b) + s2 * q
    return fx * across + cx, fy * down + cy
