"""The reference backend: NumPy alone, one plain line at a time; the definition the others are held to."""

from cfusion.kernels.contract import links_of
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
from cfusion.kernels.reference.association import close_mask, fill_natural, relief, splat_nearest
from cfusion.kernels.reference.certificate import bound
from cfusion.kernels.reference.iteration import adapt, energy, iterate, misfit
from cfusion.kernels.reference.ordering import middle, order_observations
from cfusion.kernels.reference.preparing import begin, carry, counts, range_of, trust_locally, window_of
from cfusion.kernels.reference.pulling import gate, local_slope, pull, soften
from cfusion.kernels.reference.viewing import cosines, reproject

NAME = "reference"
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
