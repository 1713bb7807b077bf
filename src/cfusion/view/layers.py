"""The maps of a page, as fine as its size allows: fused depth in 16 bits, others coarser if necessary."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.view.encode import Quantised, encode, estimated_size, quantise

BYTES_A_PIXEL = 3_750_000 / (640 * 480)  # for the maps of a page: 4 MB, less text and pictures
SMALLEST_BUDGET = 400_000
RELATIVE_STEP = 0.005  # of sigma and confidence
Map = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Layer:
    """A map for a page, rounded to `step` at best and to `coarsest` at worst."""

    key: str
    values: Map
    step: float = 0.0
    coarsest: float = 0.0  # 0: always the finest
    logarithmic: bool = False
    stride: int = 1
    reducible: bool = False
    spare: bool = False  # dropped if the page would be too large

    def at_every(self, pixels: int) -> Layer:
        """The layer at every `pixels`-th pixel, if it may be reduced."""
        if not self.reducible or pixels <= self.stride:
            return self
        every = pixels // self.stride
        return replace(self, values=self.values[::every, ::every], stride=pixels)

    def finest(self) -> Quantised:
        """The layer rounded to its step."""
        return quantise(self.values, self.step, logarithmic=self.logarithmic)


@dataclass(frozen=True)
class Coded:
    """A map as text, and its meaning: value = offset + scale * count, or the exponential of that."""

    key: str
    text: str
    description: Mapping[str, object]
    twin: int = 0  # index of the layer whose text it shares; its own if none


def coded(layers: Sequence[Layer], pixels: int, *, taken: int = 0) -> list[Coded]:
    """All layers within the size that a page of this many pixels may have, less what is `taken`.

    They are rounded together, then the reducible ones are shown at every second or fourth pixel, then spare ones are
    dropped. A layer equal to another shares its text.
    """
    budget = max(SMALLEST_BUDGET, BYTES_A_PIXEL * pixels - taken)
    for reduced in (1, 2, 4):
        layers = [layer.at_every(reduced) for layer in layers]
        rounded, sizes = _rounded_to(layers, budget)
        if sum(sizes) <= budget:
            break
    left = list(range(len(layers)))
    for place in reversed([at for at, layer in enumerate(layers) if layer.spare]):
        if sum(sizes[at] for at in left) > budget:
            left.remove(place)
    rounded = [rounded[at] for at in left]
    return [
        replace(_coded(layers[at], each), twin=twin)
        for at, each, twin in zip(left, rounded, _twins(rounded), strict=True)
    ]


def _rounded_to(layers: Sequence[Layer], budget: float) -> tuple[list[Quantised], list[int]]:
    """The finest rounding within the budget, or the coarsest; and the approximate size of each layer."""
    finest = [layer.finest() for layer in layers]
    twins = _twins(finest)
    known: dict[tuple[int, int], int] = {}
    for power in range(11):
        factors = [
            max(1, min(2**power, int(each.coarsest / fine.scale))) for each, fine in zip(layers, finest, strict=True)
        ]
        for place, (fine, factor) in enumerate(zip(finest, factors, strict=True)):
            if twins[place] == place and (place, factor) not in known:
                known[place, factor] = estimated_size(fine.coarser(factor).counts)
        sizes = [known[at, factor] if twins[at] == at else 0 for at, factor in enumerate(factors)]
        if sum(sizes) <= budget:
            break
    return [fine.coarser(factor) for fine, factor in zip(finest, factors, strict=True)], sizes


def _twins(rounded: Sequence[Quantised]) -> list[int]:
    """For each map the index of the first equal one."""
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
