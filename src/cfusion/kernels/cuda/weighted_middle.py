"""The middle of weights by weight, in one launch; the definition is `cfusion.kernels.weighted_middle`."""

import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import blocks_of, desk, kernel, multiprocessors, on_device

SOURCES = ("reduce.cuh", "weighted_middle.cu")
THREADS, BLOCKS = 256, 64  # at most
ROUNDS = 8  # of weighted_middle.cu: the blocks wait for each other as often


def weighted_middle(weights: Floats, every: int) -> float:
    """As `cfusion.kernels.weighted_middle.weighted_middle`."""
    views, height, width = weights.shape
    places = views * blocks_of(height, every) * blocks_of(width, every)
    blocks = min(blocks_of(places, THREADS), BLOCKS, multiprocessors())
    work, sizes = desk(), (np.int32(each) for each in (views, height, width, every))
    kernel(SOURCES, "weighted_middle", defines(), cooperative=True)(
        (blocks,),
        (THREADS,),
        (
            on_device(weights, np.float32),
            *sizes,
            work.parts,
            work.gate,
            work.pass_gate(ROUNDS * blocks),
            work.page(1),
        ),
    )
    return float(work.turn(1)[0])


def defines() -> tuple[str, ...]:
    """The macros for which this kernel is compiled."""
    return (f"THREADS={THREADS}",)
