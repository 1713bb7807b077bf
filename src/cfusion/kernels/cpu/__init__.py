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
    quantiles,
    resume,
    sample,
    stacked,
    to_device,
    to_host,
    travelled,
)
from cfusion.kernels.numpy.association import relief
from cfusion.kernels.numpy.maps import account, blend, closing, tilted, whole
from cfusion.kernels.numpy.ordering import middle
from cfusion.kernels.numpy.preparing import begin, carry, tally, trust_locally, window_of
from cfusion.kernels.numpy.pulling import changes, differences, gate, local_slope, residuals, soften
from cfusion.kernels.numpy.trials import compare, gain, split
from cfusion.kernels.numpy.viewing import reproject

NAME = "cpu"
measure, follow = measuring(energy, adapt)
arrange = arranging(order_observations, misfit)
gaps = closing(close_mask)

__all__ = [
    "NAME",
    "account",
    "adapt",
    "arrange",
    "arrays",
    "begin",
    "blend",
    "bound",
    "carry",
    "changes",
    "close_mask",
    "compare",
    "cosines",
    "differences",
    "energy",
    "fill_natural",
    "follow",
    "foresee",
    "gain",
    "gaps",
    "gate",
    "iterate",
    "lane",
    "links_of",
    "local_slope",
    "measure",
    "medians",
    "middle",
    "misfit",
    "order_observations",
    "pull",
    "quantiles",
    "relief",
    "reproject",
    "residuals",
    "resume",
    "sample",
    "soften",
    "splat_nearest",
    "split",
    "stacked",
    "tally",
    "tilted",
    "to_device",
    "to_host",
    "travelled",
    "trust_locally",
    "whole",
    "window_of",
]
