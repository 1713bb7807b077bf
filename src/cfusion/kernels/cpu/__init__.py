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
    arrays,
    foresee,
    gain,
    lane,
    measuring,
    medians,
    quantiles,
    sample,
    stacked,
    surveying,
    to_device,
    to_host,
    travelled,
    weight_of_data,
)
from cfusion.kernels.reference.association import relief
from cfusion.kernels.reference.ordering import middle
from cfusion.kernels.reference.preparing import begin, carry, counts, range_of, trust_locally, window_of
from cfusion.kernels.reference.pulling import gate, local_slope, soften
from cfusion.kernels.reference.viewing import reproject

NAME = "cpu"
measure, follow = measuring(energy, adapt)
survey = surveying(misfit)

__all__ = [
    "NAME",
    "adapt",
    "arrays",
    "begin",
    "bound",
    "carry",
    "close_mask",
    "cosines",
    "counts",
    "energy",
    "fill_natural",
    "follow",
    "foresee",
    "gain",
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
    "range_of",
    "relief",
    "reproject",
    "sample",
    "soften",
    "splat_nearest",
    "stacked",
    "survey",
    "to_device",
    "to_host",
    "travelled",
    "trust_locally",
    "weight_of_data",
    "window_of",
]
