"""The reference backend: NumPy alone, one plain line at a time; the definition the others are held to."""

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
from cfusion.kernels.reference.association import close_mask, fill_natural, relief, splat_nearest
from cfusion.kernels.reference.certificate import bound
from cfusion.kernels.reference.iteration import adapt, energy, iterate, misfit
from cfusion.kernels.reference.maps import account, blend, closing, tilted, whole
from cfusion.kernels.reference.ordering import middle, order_observations
from cfusion.kernels.reference.preparing import begin, carry, tally, trust_locally, window_of
from cfusion.kernels.reference.pulling import changes, differences, gate, local_slope, pull, residuals, soften
from cfusion.kernels.reference.trials import compare, gain, split
from cfusion.kernels.reference.viewing import cosines, reproject

NAME = "reference"
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
