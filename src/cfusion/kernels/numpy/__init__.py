"""The NumPy backend: the plain definition with which the others are compared."""

from cfusion.kernels.contract import links_of
from cfusion.kernels.depth_noise import growth
from cfusion.kernels.host import (
    arranging,
    arrays,
    measuring,
    medians,
    of_each,
    precompile,
    snapshot_rows,
    stream,
    to_device,
    to_host,
    transfer_state,
)
from cfusion.kernels.numpy import pulling
from cfusion.kernels.numpy.association import close_mask, fill_natural, local_depth_range, splat_nearest
from cfusion.kernels.numpy.certificate import bound
from cfusion.kernels.numpy.iteration import adapt, energy, iterate, misfit
from cfusion.kernels.numpy.maps import to_image
from cfusion.kernels.numpy.motions import removal
from cfusion.kernels.numpy.ordering import order_observations, weighted_median
from cfusion.kernels.numpy.pooling import pooled
from cfusion.kernels.numpy.preparing import count_observations, extrapolate, initial_state, local_noise_weights
from cfusion.kernels.numpy.pulling import reject_occluded
from cfusion.kernels.numpy.sight import hidden, parallax
from cfusion.kernels.numpy.trials import score_difference, split_folds
from cfusion.kernels.numpy.viewing import cosines, reproject

NAME = "numpy"
measure, follow = measuring(energy, adapt)
sort_observations = arranging(order_observations, misfit)
read_view = of_each(pulling.read_view)
