"""The model: one energy of the depth x and the confidence lam."""

from dataclasses import dataclass, field

from cfusion.energy.fidelity import L1, DataTerm
from cfusion.energy.prior import Prior
from cfusion.energy.tgv import TGV
from cfusion.errors import InputError


@dataclass(frozen=True)
class Energy:
    """E(x, lam) = TGV(x; g) + sum_i lam_i sum_k w_ki phi(x_i - d_ki) + prior(lam).

    Without a regulariser the pixels are independent; without a prior lam is fixed to the number `lam`.
    """

    fidelity: DataTerm = field(default_factory=L1)
    regulariser: TGV | None = None
    prior: Prior | None = None
    lam: float = 1.0
    inverse: bool = False  # x is inverse depth

    def __post_init__(self) -> None:
        if not 0 < self.lam < float("inf"):
            raise InputError(f"lam is {self.lam}; give a positive, finite confidence")
