"""The CPU backend: Numba, cache tiles, all cores, the same bits for any number of them."""

import os

# Idle OpenMP threads would otherwise spin, and slow down whoever shares the cores; read once, when Numba loads it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from cfusion.kernels.contract import links_of
from cfusion.kernels.cpu.association import close_mask, fill_natural, splat_nearest
from cfusion.kernels.cpu.certificate import bound
from cfusion.kernels.cpu.iteration import iterate
from cfusion.kernels.cpu.pulling import pull
from cfusion.kernels.cpu.sums import adapt, energy, misfit, order_observations
from cfusion.kernels.cpu.viewing import cosines
from cfusion.kernels.host import (
    arranging,
    arrays,
    foresee,
    lane,
    measuring,
    medians,
    resume,
    sample,
    stacked,
    to_device,
    to_host,
)
from cfusion.kernels.numpy.association import relief
from cfusion.kernels.numpy.maps import whole
from cfusion.kernels.numpy.ordering import middle
from cfusion.kernels.numpy.preparing import begin, carry, tally, trust_locally
from cfusion.kernels.numpy.pulling import gate
from cfusion.kernels.numpy.trials import gain, split
from cfusion.kernels.numpy.viewing import reproject

NAME = "cpu"
measure, follow = measuring(energy, adapt)
arrange = arranging(order_observations, misfit)

__all__ = [
    "NAME",
    "adapt",
    "arrange",
    "arrays",
    "begin",
    "bound",
    "carry",
    "close_mask",
    "cosines",
    "energy",
    "fill_natural",
    "follow",
    "foresee",
    "gain",
    "gate",
    "iterate",
    "lane",
    "links_of",
    "measure",
    "medians",
    "middle",
    "misfit",
    "order_observations",
    "pull",
    "relief",
    "reproject",
    "resume",
    "sample",
    "splat_nearest",
    "split",
    "stacked",
    "tally",
    "to_device",
    "to_host",
    "trust_locally",
    "whole",
]
