"""The maps of a page, as fine as its size allows: fused depth to 16 bits, the others coarser where they have to be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.view.encode import encode, estimated_size
from cfusion.view.quantise import Quantised, quantise

BYTES_A_PIXEL = 3_750_000 / (640 * 480)  # of the maps of a page: 4 MB, less words and pictures
SMALLEST_BUDGET = 400_000
RELATIVE_STEP = 0.005  # of sigma and confidence
Map = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Layer:
    """A map to put on a page: `step` is what its values are rounded to at best, `coarsest` at worst."""

    key: str
    values: Map
    step: float = 0.0
    coarsest: float = 0.0  # 0: never coarser than the finest
    logarithmic: bool = False
    stride: int = 1
    spare: bool = False  # left out where the page would be too large with it

    def quantised(self, factor: float = 1.0) -> Quantised:
        """Rounded to `factor` times its finest step, as far as it may be."""
        finest = quantise(self.values, self.step, logarithmic=self.logarithmic)
        step = finest.scale if self.coarsest <= finest.scale else min(finest.scale * factor, self.coarsest)
        return quantise(self.values, step, logarithmic=self.logarithmic)


@dataclass(frozen=True)
class Coded:
    """A map as text, and how to read it: value = offset + scale * count, or the exponential of that."""

    key: str
    text: str
    description: Mapping[str, object]
    twin: int = 0  # the place of the layer whose text it shares, its own if none


def coded(layers: Sequence[Layer], pixels: int) -> list[Coded]:
    """All layers, rounded together until the page is small enough; then without those that can be spared.

    A layer that is another one's twin shares its text.
    """
    budget = max(SMALLEST_BUDGET, BYTES_A_PIXEL * pixels)
    sizes: dict[tuple[int, float], int] = {}
    for factor in (2.0**power for power in range(11)):
        rounded = [layer.quantised(factor) for layer in layers]
        twins = _twins(rounded)
        for place, each in enumerate(rounded):
            if twins[place] != place:
                sizes[place, each.scale] = 0
            elif (place, each.scale) not in sizes:
                sizes[place, each.scale] = estimated_size(each.counts)
        total = sum(sizes[place, each.scale] for place, each in enumerate(rounded))
        if total <= budget:
            break
    spared: set[int] = set()
    for place in reversed([at for at, layer in enumerate(layers) if layer.spare]):
        if total > budget:
            spared.add(place)
            total -= sizes[place, rounded[place].scale]
    left = [at for at in range(len(layers)) if at not in spared]
    rounded = [rounded[at] for at in left]
    return [
        replace(_coded(layers[at], each), twin=twin)
        for at, each, twin in zip(left, rounded, _twins(rounded), strict=True)
    ]


def _twins(rounded: Sequence[Quantised]) -> list[int]:
    """For each map the place of the first that is the same."""
    first: dict[tuple[float, float, bytes], int] = {}
    found = []
    for place, each in enumerate(rounded):
        digest = hashlib.sha256(each.counts.tobytes()).digest()
        found.append(first.setdefault((each.scale, each.offset, digest), place))
    return found


def _coded(layer: Layer, rounded: Quantised) -> Coded:
    predictor, text = encode(rounded.counts)
    description = {
        "predictor": predictor,
        "height": rounded.counts.shape[0],
        "width": rounded.counts.shape[1],
        "scale": rounded.scale,
        "offset": rounded.offset,
        "log": rounded.logarithmic,
        "stride": layer.stride,
    }
    return Coded(layer.key, text, description)
