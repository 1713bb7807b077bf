"""Total generalised variation of order 1, 2 or 3."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from cfusion.errors import InputError

# image -> edge weights g (H, W), or components xx, xy, yy of D^(1/2) (H, W, 3), of the first-order term
EdgeRule = Callable[[NDArray[Any]], NDArray[Any]]

PAPER_ALPHA = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class TGV:
    """min over v, w of alpha_1 |E x - v| + alpha_2 |E v - w| + alpha_3 |E w|; order 1 is total variation.

    Tensor norms are Frobenius norms of symmetric tensors. `edge`, if given, computes weights from the reference image.
    """

    order: int = 2
    alpha: tuple[float, ...] = ()
    edge: EdgeRule | None = None

    def __post_init__(self) -> None:
        if self.order not in (1, 2, 3):
            raise InputError(f"TGV of order {self.order} is not implemented; choose 1, 2 or 3")
        alpha = tuple(float(a) for a in self.alpha) or PAPER_ALPHA[: self.order]
        if len(alpha) != self.order:
            raise InputError(f"alpha has {len(alpha)} weights, order {self.order} needs {self.order}; give those")
        if not all(0 < a < float("inf") for a in alpha):
            raise InputError(f"alpha is {alpha}; give positive, finite weights")
        object.__setattr__(self, "alpha", alpha)
