"""The sizes of errors over depth, on the device in one launch; the definition is `cfusion.kernels.depth_noise`."""

from functools import cache

import cupy
import numpy as np

from cfusion.kernels import depth_noise
from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import blocks_of, desk, kernel, on_device, shared_memory
from cfusion.kernels.depth_noise import BINS, FEWEST, LEAST_RANGE, NUMBERS, Bins, taken_apart

SOURCES = ("reduce.cuh", "growth.cu")
THREADS, MOST = 1024, 16  # of the one block; keys of a thread, at most
KEY, RESERVED = 8, 40 << 10  # bytes of a key, and of shared memory for what is no key


def sizes_over_depth(surface: Floats, depths: Floats, every: int) -> tuple[float, Bins]:
    """As `depth_noise.sizes_over_depth`; the sample of maps too small to have a stride is sorted on the host."""
    views, height, width = depths.shape
    places = blocks_of(height, every) * blocks_of(width, every)
    items_of_one, items = (blocks_of(number, THREADS) for number in (places, views * places))
    if items > MOST:
        return depth_noise.sizes_over_depth(cupy.asnumpy(surface), cupy.asnumpy(depths), every)
    size = KEY * THREADS * items
    in_shared = size <= shared_memory() - RESERVED
    room = np.uint64(0) if in_shared else cupy.empty(THREADS * items, np.uint64)
    work, maps = desk(), (on_device(each, np.float32) for each in (surface, depths))
    sizes = (np.int32(each) for each in (views, height, width, every, items_of_one, items))
    kernel(SOURCES, "sizes_over_depth", defines(in_shared=in_shared))(
        (1,), (THREADS,), (*maps, *sizes, room, work.page(NUMBERS)), shared_mem=size if in_shared else 0
    )
    return taken_apart(work.turn(NUMBERS))


@cache
def defines(*, in_shared: bool) -> tuple[str, ...]:
    """The macros for which this kernel is compiled."""
    law = f"BINS={BINS}", f"FEWEST={FEWEST}", f"LEAST_RANGE={LEAST_RANGE}"
    return *law, f"THREADS={THREADS}", f"IN_SHARED={in_shared:d}"
