"""The CUDA backend: CuPy arrays, our own kernels; importing it fails with one sentence where no device can be used."""

import cupy as arrays

from cfusion.kernels.cuda import device
from cfusion.kernels.cuda.association import close_mask, fill_natural, relief, splat_nearest
from cfusion.kernels.cuda.certificate import bound
from cfusion.kernels.cuda.device import lane, stacked, to_device, to_host
from cfusion.kernels.cuda.foresight import foresee
from cfusion.kernels.cuda.iteration import follow, iterate, measure
from cfusion.kernels.cuda.maps import whole
from cfusion.kernels.cuda.ordering import arrange, middle, order_observations
from cfusion.kernels.cuda.preparing import begin, carry, links_of, resume, tally, trust_locally
from cfusion.kernels.cuda.pulling import gate, pull
from cfusion.kernels.cuda.selecting import medians
from cfusion.kernels.cuda.sums import adapt, energy, misfit, sample
from cfusion.kernels.cuda.trials import gain, split
from cfusion.kernels.cuda.viewing import cosines, reproject

NAME = "cuda"

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

device.check()
