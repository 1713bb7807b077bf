"""The CUDA backend: CuPy arrays, our own kernels; importing it fails with one sentence where no device can be used."""

import cupy as arrays

from cfusion.kernels.cuda import device
from cfusion.kernels.cuda.association import close_mask, fill_natural, splat_nearest
from cfusion.kernels.cuda.certificate import bound
from cfusion.kernels.cuda.device import to_device, to_host
from cfusion.kernels.cuda.iteration import iterate
from cfusion.kernels.cuda.ordering import order_observations
from cfusion.kernels.cuda.pulling import pull
from cfusion.kernels.cuda.sums import energy, misfit, sample, travelled

NAME = "cuda"

__all__ = [
    "NAME",
    "arrays",
    "bound",
    "close_mask",
    "energy",
    "fill_natural",
    "iterate",
    "misfit",
    "order_observations",
    "pull",
    "sample",
    "splat_nearest",
    "to_device",
    "to_host",
    "travelled",
]

device.check()
