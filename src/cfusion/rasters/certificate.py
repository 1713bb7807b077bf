"""One certificate for the whole mosaic: energy and lower bound of the assembled primal and dual, streamed from disk.

The dual of order 2 is repaired block by block. The halo of a block holds everything that its core depends on, so the
repaired blocks together are the repaired whole, without seams. One factor, the smallest that any block needs, then
makes the whole dual feasible, and the bound is summed over the blocks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cfusion.rasters.runner import HERE, Crew
from cfusion.rasters.solve_tile import Settings
from cfusion.rasters.tiles import Tile, blocks
from cfusion.rasters.work import BLOCK, REPAIR_ROUNDS, Work, bound_block, energy_block, repair_block

FEASIBLE = 1 - 1e-4  # scaling the dual by this loosens the bound less than the usual tolerance
MOST_TURNS = 4  # at most, repeats of the repair


@dataclass(frozen=True)
class Certificate:
    """min E lies between bound and energy."""

    regulariser: float
    fidelity: float
    bound: float
    factor: float  # by which the dual is scaled to become feasible
    floor: float  # energies below are rounding errors

    @property
    def energy(self) -> float:
        return self.regulariser + self.fidelity

    @property
    def gap(self) -> float:
        """(E - B) / max(E, floor): an energy below the floor counts as zero."""
        return max(self.energy - self.bound, 0.0) / max(self.energy, self.floor)


def blocks_of(work: Work) -> tuple[Tile, ...]:
    """Blocks of fixed size, whatever the size of tiles."""
    return blocks(work.height, work.width, BLOCK)


def certify(
    work: Work,
    settings: Settings,
    number: int,
    crew: Crew = HERE,
    progress: Callable[[float], None] = lambda share: None,
) -> Certificate:
    """Certify state `number`; the other state's image is overwritten."""
    every = blocks_of(work)

    def of_all(function: Callable[..., Any], *given: object) -> list[Any]:
        found: dict[int, Any] = {}
        crew.run(function, [(work, settings, number, *given, block) for block in every], found.__setitem__)
        return [found[place] for place in range(len(every))]

    parts = of_all(energy_block)
    progress(0.2)
    for turn in range(MOST_TURNS):
        factors = of_all(repair_block, turn, REPAIR_ROUNDS)
        if min(factors) >= FEASIBLE:
            break
    progress(0.7)
    bounds = of_all(bound_block, turn + 1, min(factors))
    progress(1.0)
    return Certificate(
        regulariser=math.fsum(part[0] for part in parts),
        fidelity=math.fsum(part[1] for part in parts),
        bound=math.fsum(bounds),
        factor=min(factors),
        floor=settings.energy_floor,
    )
