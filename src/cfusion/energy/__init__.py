"""The terms of the model, named as in the mathematics."""

from cfusion.energy.energy import Energy
from cfusion.energy.fidelity import L1, L2, DataTerm, Huber
from cfusion.energy.prior import Prior
from cfusion.energy.tgv import TGV, EdgeRule

__all__ = ["L1", "L2", "TGV", "DataTerm", "EdgeRule", "Energy", "Huber", "Prior"]
