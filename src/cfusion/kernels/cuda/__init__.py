"""The CUDA backend: CuPy arrays, our own kernels; importing it fails with one sentence where no device can be used."""

import cupy as arrays

from cfusion.kernels.cuda import device
from cfusion.kernels.cuda.association import close_mask, fill_natural, relief, splat_nearest
from cfusion.kernels.cuda.certificate import bound
from cfusion.kernels.cuda.device import lane, stacked, to_device, to_host
from cfusion.kernels.cuda.foresight import foresee
from cfusion.kernels.cuda.iteration import follow, iterate, measure
from cfusion.kernels.cuda.ordering import middle, order_observations
from cfusion.kernels.cuda.preparing import begin, carry, counts, gain, links_of, range_of, trust_locally, window_of
from cfusion.kernels.cuda.pulling import gate, local_slope, pull, soften
from cfusion.kernels.cuda.selecting import medians, quantiles
from cfusion.kernels.cuda.sums import adapt, energy, misfit, sample, survey, travelled, weight_of_data
from cfusion.kernels.cuda.viewing import cosines, reproject

NAME = "cuda"

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

device.check()
