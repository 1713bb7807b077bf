"""The reference backend: NumPy alone, one plain line at a time; the definition the others are held to."""

from cfusion.kernels.host import arrays, lane, sample, side_by_side, to_device, to_host, travelled
from cfusion.kernels.reference.association import close_mask, fill_natural, splat_nearest
from cfusion.kernels.reference.certificate import bound
from cfusion.kernels.reference.iteration import adapt, energy, iterate, misfit
from cfusion.kernels.reference.ordering import middle, order_observations
from cfusion.kernels.reference.pulling import pull
from cfusion.kernels.reference.viewing import cosines, reproject

NAME = "reference"

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
