"""The CUDA backend: CuPy arrays, our own kernels; importing it fails with one sentence where no device can be used."""

import cupy as arrays

from cfusion.kernels.cuda import device
from cfusion.kernels.cuda.association import close_mask, fill_natural, relief, splat_nearest
from cfusion.kernels.cuda.certificate import bound
from cfusion.kernels.cuda.device import lane, stacked, to_device, to_host
from cfusion.kernels.cuda.foresight import foresee
from cfusion.kernels.cuda.iteration import follow, iterate, measure
from cfusion.kernels.cuda.maps import account, blend, gaps, tilted, whole
from cfusion.kernels.cuda.ordering import arrange, middle, order_observations
from cfusion.kernels.cuda.preparing import begin, carry, links_of, resume, tally, trust_locally, window_of
from cfusion.kernels.cuda.pulling import changes, differences, gate, local_slope, pull, residuals, soften
from cfusion.kernels.cuda.selecting import medians, quantiles
from cfusion.kernels.cuda.sums import adapt, energy, misfit, sample, travelled
from cfusion.kernels.cuda.trials import compare, gain, split
from cfusion.kernels.cuda.viewing import cosines, reproject

NAME = "cuda"

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

device.check()
