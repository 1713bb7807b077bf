"""The CUDA backend: CuPy arrays, our own kernels; importing it fails with one sentence where no device can be used."""

import cupy as arrays

from cfusion.kernels.cuda import device
from cfusion.kernels.cuda.association import close_mask, fill_natural, splat_nearest
from cfusion.kernels.cuda.certificate import bound
from cfusion.kernels.cuda.device import lane, side_by_side, to_device, to_host
from cfusion.kernels.cuda.iteration import iterate
from cfusion.kernels.cuda.ordering import middle, order_observations
from cfusion.kernels.cuda.pulling import pull
from cfusion.kernels.cuda.sums import adapt, energy, misfit, sample, travelled
from cfusion.kernels.cuda.viewing import cosines, reproject

NAME = "cuda"

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

device.check()
