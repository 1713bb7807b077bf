"""The CUDA backend: CuPy arrays and our own kernels; importing it raises one sentence if no device can be used."""

import cupy as arrays

from cfusion.kernels.cuda import device
from cfusion.kernels.cuda.association import close_mask, fill_natural, local_depth_range, splat_nearest
from cfusion.kernels.cuda.certificate import bound
from cfusion.kernels.cuda.device import stream, to_device, to_host
from cfusion.kernels.cuda.foresight import precompile
from cfusion.kernels.cuda.iteration import follow, iterate, measure
from cfusion.kernels.cuda.maps import to_image
from cfusion.kernels.cuda.ordering import sort_observations, weighted_median
from cfusion.kernels.cuda.pooling import pooled
from cfusion.kernels.cuda.preparing import (
    count_observations,
    extrapolate,
    initial_state,
    links_of,
    local_noise_weights,
    transfer_state,
)
from cfusion.kernels.cuda.pulling import read_view
from cfusion.kernels.cuda.selecting import medians
from cfusion.kernels.cuda.sight import hidden, parallax
from cfusion.kernels.cuda.sums import energy, misfit, snapshot_rows
from cfusion.kernels.cuda.trials import score_difference, split_folds
from cfusion.kernels.cuda.viewing import cosines, reproject
from cfusion.kernels.numpy.pulling import reject_occluded

NAME = "cuda"

device.check()
