"""Cameras per pixel; formulas in `cfusion.kernels.numpy.cameras`."""

from __future__ import annotations

from numba import njit

from cfusion.kernels.contract import Floats
from cfusion.kernels.cpu.sums import INSIDE
from cfusion.kernels.numpy.cameras import UNBENDING


@njit(**INSIDE)
def is_bent(camera: Floats) -> bool:
    """The same as the definition."""
    return camera[5] != 0 or camera[6] != 0 or camera[7] != 0 or camera[8] != 0 or camera[9] != 0


@njit(**INSIDE)
def slopes(camera: Floats, u: float, v: float) -> tuple[float, float]:
    """The same as the definition, for one pixel."""
    x, y = (u - camera[3]) / camera[1], (v - camera[4]) / camera[2]
    if is_bent(camera):
        there_x, there_y = x, y
        for _ in range(UNBENDING):
            radial, along, down = _terms(camera, x, y)
            x, y = (there_x - along) / radial, (there_y - down) / radial
    return x, y


@njit(**INSIDE)
def row_of_slopes(camera: Floats, i: int, across: Floats, down: Floats) -> None:
    """Write the slopes of a row of pixels."""
    for j in range(len(across)):
        across[j], down[j] = slopes(camera, j, i)


@njit(**INSIDE)
def bent(camera: Floats, x: float, y: float) -> tuple[float, float]:
    """The same as the definition, for one pair of slopes."""
    radial, along, down = _terms(camera, x, y)
    return x * radial + along, y * radial + down


@njit(**INSIDE)
def _terms(camera: Floats, x: float, y: float) -> tuple[float, float, float]:
    q = x * x + y * y
    radial = 1 + q * (camera[5] + q * (camera[6] + q * camera[9]))
    p1, p2 = camera[7], camera[8]
    return radial, 2 * p1 * x * y + p2 * (q + 2 * x * x), p1 * (q + 2 * y * y) + 2 * p2 * x * y
