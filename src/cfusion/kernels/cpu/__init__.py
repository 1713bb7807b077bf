"""The CPU backend: Numba, cache tiles, all cores, the same bits for any number of them."""

import os

# Idle OpenMP threads would otherwise spin, and slow down whoever shares the cores; read once, when Numba loads it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from cfusion.kernels.cpu.association import close_mask, fill_natural, splat_nearest
from cfusion.kernels.cpu.certificate import bound
from cfusion.kernels.cpu.iteration import iterate
from cfusion.kernels.cpu.pulling import pull
from cfusion.kernels.cpu.sums import adapt, energy, misfit, order_observations
from cfusion.kernels.cpu.viewing import cosines
from cfusion.kernels.host import arrays, lane, sample, side_by_side, to_device, to_host, travelled
from cfusion.kernels.reference.ordering import middle
from cfusion.kernels.reference.viewing import reproject

NAME = "cpu"

__all__ = [
    "NAME",
    "adapt",
    "arrays",
    "bound",
    "close_mask",
    "cosines",
    "energy",
    "fill_natural",
    "iterate",
    "lane",
    "middle",
    "misfit",
    "order_observations",
    "pull",
    "reproject",
    "sample",
    "side_by_side",
    "splat_nearest",
    "to_device",
    "to_host",
    "travelled",
]
