"""Compilation of the kernels of a solve before they are needed, one thread per kind of kernel."""

from cfusion.kernels.contract import Fidelity
from cfusion.kernels.cuda import (
    association,
    certificate,
    growth,
    iteration,
    maps,
    ordering,
    pooling,
    preparing,
    pulling,
    selecting,
    sight,
    sums,
    trials,
    viewing,
    weighted_middle,
)
from cfusion.kernels.cuda.device import Unit, compile_ahead


def precompile(shape: tuple[int, int], order: int, fidelity: Fidelity, posed: bool, adaptive: bool) -> None:
    """As `Backend.precompile`: float32, with and without weights; other kinds are compiled when used."""
    units: list[Unit] = [
        (association.SOURCES, (), False),
        (viewing.SOURCES, (), False),
        (pulling.SOURCES, (), False),
        (sight.SOURCES, (), False),
        *((pooling.SOURCES, (f"REAL={real}",), False) for real in ("float", "double")),
        (selecting.SOURCES, (), True),
        (growth.SOURCES, growth.defines(in_shared=True), False),
        (preparing.SOURCES, preparing.defines(), False),
        (maps.SOURCES, maps.defines(), False),
        (weighted_middle.SOURCES, weighted_middle.defines(), True),
        (trials.SOURCES, trials.defines(), False),
        (sums.TRAVEL, ("REAL=float", f"ORDER={order}"), False),
        *iteration.units_for(shape, order, fidelity),
    ]
    for weighted in (False, True):
        kind = ("REAL=float", order, int(fidelity), weighted, False, False, False)
        units.append((ordering.SOURCES, ordering.defines("REAL=float", weighted, fidelity), False))
        units.append((sums.SOURCES, sums.defines_of(kind), False))
        units.append((sums.SOURCES, sums.defines_of((*kind[:1], 1, *kind[2:])), False))
        units += [(certificate.SOURCES, certificate.with_room(kind, 4), cooperative) for cooperative in (False, True)]
    compile_ahead(dict.fromkeys(units))
