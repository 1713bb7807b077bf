"""MC-CNN (Zbontar and LeCun, 2016): the network's cost, cross-based aggregation, semi-global matching, refinement.

The paths run over the pair and over the mirrored pair, so that both images get a map; the agreement of the two, and
the cost curve at each pixel, give the probability that its disparity is right.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.errors import InputError, optional_module
from cfusion.frontends.mc_cnn.network import features, normed
from cfusion.frontends.mc_cnn.semi_global import Penalties, semi_global

Floats = NDArray[np.float32]
# Published for the fast network on KITTI 2012; our costs and steps are half of theirs.
PENALTIES = Penalties(small_step=2.0, large_step=27.86, one_edge=3.0, both_edges=7.5, ground=1.5, edge=0.02)
MARGIN = 0.3  # difference of path costs at which the margin counts one half


@dataclass(frozen=True)
class McCnn:
    """Path penalties published for the fast network on KITTI 2012; crosses, missing there, tuned on Middlebury pairs.

    Costs are in [0, 1]: 0 for equal features, 1 for opposite ones.
    """

    disparities: int = 128
    penalties: Penalties = PENALTIES
    aggregations: int = 2  # rounds of cross-based aggregation before the paths
    arm: int = 5  # pixels: the longest arm of a cross
    arm_tolerance: float = 0.03  # difference of grey values in [0, 1] at which an arm ends

    def __post_init__(self) -> None:
        small, large, one, both, ground, edge = self.penalties
        if not (0 < small <= large and 1 <= one <= both and ground >= 1 and edge > 0):
            raise InputError(
                f"penalties are {tuple(self.penalties)}; give 0 < small <= large step, 1 <= one_edge <= both_edges, "
                "ground >= 1, edge > 0"
            )
        if self.aggregations < 0 or self.arm < 1:
            raise InputError(f"aggregations = {self.aggregations}, arm = {self.arm}; give at least 0 and 1")


class Curves(NamedTuple):
    """A summary of the costs over all disparities of a pixel; each (H, W)."""

    disparity: Floats  # of least cost after the paths, pixels
    best: Floats  # its cost
    second: Floats  # least cost more than a pixel away
    plain: Floats  # the network's own cost at the disparity


def mc_cnn_curves(left: Image, right: Image, settings: McCnn) -> tuple[Curves, Floats]:
    """The curves of the left image, and the right image's disparity, both unchecked.

    Two volumes (H, W, D) are in memory: crosses are common to both images, so the mirrored pair has the same costs.
    """
    kernels = _kernels()
    cost = kernels.cost_volume(features(left), features(right), settings.disparities)
    spare = np.empty_like(cost)
    crosses = [kernels.arms(each, settings.arm, settings.arm_tolerance) for each in (left, right)]
    left, right = normed(left), normed(right)
    for _ in range(settings.aggregations):
        kernels.aggregate(cost, spare, *crosses)
    total = semi_global(kernels, cost, spare, left, right, settings.penalties)
    disparity, best, second = kernels.winners(total)
    at = np.rint(disparity).astype(np.intp)[..., None]
    found = Curves(disparity, best, second, np.take_along_axis(cost, at, axis=2)[..., 0])
    kernels.mirror(cost, spare)
    ours, theirs = (np.ascontiguousarray(each[:, ::-1]) for each in (right, left))
    other = kernels.winners(semi_global(kernels, spare, cost, ours, theirs, settings.penalties))[0]
    return found, np.ascontiguousarray(other[:, ::-1])


def curve_cues(curves: Curves) -> Floats:
    """Cues (2, H, W) in [0, 1], 0 = good: small margin to the second best, dissimilarity of the two pixels."""
    margin = np.maximum(curves.second - curves.best, 0)
    return np.stack([MARGIN / (MARGIN + margin), np.clip(curves.plain, 0, 1)]).astype(np.float32)


def _kernels() -> Any:
    missing = "mc-cnn needs Numba: pip install 'cfusion[cpu]', or match with sgm"
    optional_module("cfusion.kernels.cpu", missing=missing)  # sets how Numba's threads wait
    return optional_module("cfusion.frontends.mc_cnn.kernels", missing=missing)
