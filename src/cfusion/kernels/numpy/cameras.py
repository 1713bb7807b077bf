"""Cameras as ten numbers: (kind, fx, fy, cx, cy, k1, k2, p1, p2, k3); kind 0 perspective, 1 orthographic.

A perspective camera distorts slopes (x, y) = (X/Z, Y/Z) by Brown and Conrady's model; u = fx x' + cx, v = fy y' + cy:

    x' = x (1 + k1 q + k2 q^2 + k3 q^3) + 2 p1 x y + p2 (q + 2 x^2),    q = x^2 + y^2
    y' = y (1 + k1 q + k2 q^2 + k3 q^3) + p1 (q + 2 y^2) + 2 p2 x y
"""

import numpy as np

from cfusion.kernels.contract import Floats

UNBENDING = 20  # rounds of x <- (x' - tangential(x)) / radial(x): 1e-9 of a slope for lenses that do not fold


def slopes(camera: Floats, u: Floats, v: Floats) -> tuple[Floats, Floats]:
    """x / z and y / z of pixels (orthographic: x and y)."""
    x, y = (u - camera[3]) / camera[1], (v - camera[4]) / camera[2]
    return unbent(camera, *np.broadcast_arrays(x, y)) if is_bent(camera) else (x, y)


def pixels(camera: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """u and v of slopes; the inverse of `slopes`."""
    if is_bent(camera):
        x, y = bent(camera, x, y)
    return camera[1] * x + camera[3], camera[2] * y + camera[4]


def is_bent(camera: Floats) -> bool:
    """Whether the lens has distortion."""
    return bool(np.any(camera[5:]))


def bent(camera: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Distorted slopes."""
    radial, along, down = _terms(camera, x, y)
    return x * radial + along, y * radial + down


def unbent(camera: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Undistorted slopes."""
    there_x, there_y = x, y
    for _ in range(UNBENDING):
        radial, along, down = _terms(camera, x, y)
        x, y = (there_x - along) / radial, (there_y - down) / radial
    return x, y


def _terms(camera: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """The radial factor and the two tangential terms."""
    k1, k2, p1, p2, k3 = camera[5:]
    q = x * x + y * y
    radial = 1 + q * (k1 + q * (k2 + q * k3))
    return radial, 2 * p1 * x * y + p2 * (q + 2 * x * x), p1 * (q + 2 * y * y) + 2 * p2 * x * y
