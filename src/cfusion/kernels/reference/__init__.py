"""The reference backend: NumPy alone, one plain line at a time; the definition the others are held to."""

from cfusion.kernels.host import arrays, sample, to_device, to_host, travelled
from cfusion.kernels.reference.association import close_mask, fill_natural, splat_nearest
from cfusion.kernels.reference.certificate import bound
from cfusion.kernels.reference.iteration import energy, iterate, misfit
from cfusion.kernels.reference.ordering import order_observations
from cfusion.kernels.reference.pulling import pull

NAME = "reference"

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
