"""The NumPy backend: one library, one plain line at a time; the definition the others are held to."""

from cfusion.kernels.contract import links_of
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
from cfusion.kernels.numpy.association import close_mask, fill_natural, relief, splat_nearest
from cfusion.kernels.numpy.certificate import bound
from cfusion.kernels.numpy.iteration import adapt, energy, iterate, misfit
from cfusion.kernels.numpy.maps import whole
from cfusion.kernels.numpy.ordering import middle, order_observations
from cfusion.kernels.numpy.preparing import begin, carry, tally, trust_locally
from cfusion.kernels.numpy.pulling import gate, pull
from cfusion.kernels.numpy.trials import gain, split
from cfusion.kernels.numpy.viewing import cosines, reproject

NAME = "numpy"
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
