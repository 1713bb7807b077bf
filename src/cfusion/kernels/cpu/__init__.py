"""The CPU backend: Numba, cache tiles, all cores, the same bits for any number of threads."""

import os

# Idle OpenMP threads would otherwise spin and slow down other processes; read once, when Numba loads it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from cfusion.kernels.cpu.cache import require_cache

require_cache()

from cfusion.kernels.contract import links_of
from cfusion.kernels.cpu.association import close_mask, fill_natural, local_depth_range, splat_nearest
from cfusion.kernels.cpu.certificate import bound
from cfusion.kernels.cpu.compiling import without_collection
from cfusion.kernels.cpu.foresight import precompile
from cfusion.kernels.cpu.iteration import iterate
from cfusion.kernels.cpu.pooling import pooled
from cfusion.kernels.cpu.preparing import count_observations, local_noise_weights, weighted_median
from cfusion.kernels.cpu.pulling import read_view
from cfusion.kernels.cpu.selecting import medians
from cfusion.kernels.cpu.sight import hidden, parallax
from cfusion.kernels.cpu.sums import energy, misfit, order_observations
from cfusion.kernels.cpu.trials import score_difference, split_folds
from cfusion.kernels.cpu.viewing import cosines, reproject
from cfusion.kernels.host import (
    arranging,
    arrays,
    measuring,
    snapshot_rows,
    stream,
    to_device,
    to_host,
    transfer_state,
)
from cfusion.kernels.numpy.maps import to_image
from cfusion.kernels.numpy.preparing import extrapolate, initial_state
from cfusion.kernels.numpy.pulling import reject_occluded

without_collection()
NAME = "cpu"
measure, follow, adapt = measuring(energy, misfit)
sort_observations = arranging(order_observations, misfit)
