"""The NumPy backend: one library, one plain line at a time; the definition the others are held to."""

from cfusion.kernels.contract import links_of
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
from cfusion.kernels.numpy.association import close_mask, fill_natural, relief, splat_nearest
from cfusion.kernels.numpy.certificate import bound
from cfusion.kernels.numpy.iteration import adapt, energy, iterate, misfit
from cfusion.kernels.numpy.maps import account, blend, closing, tilted, whole
from cfusion.kernels.numpy.ordering import middle, order_observations
from cfusion.kernels.numpy.preparing import begin, carry, tally, trust_locally, window_of
from cfusion.kernels.numpy.pulling import changes, differences, gate, local_slope, pull, residuals, soften
from cfusion.kernels.numpy.trials import compare, gain, split
from cfusion.kernels.numpy.viewing import cosines, reproject

NAME = "numpy"
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
