"""The symmetrised gradient of every order and its adjoint, on a domain with holes.

Tensor components are stored times sqrt(C(j, m)), so that norms and inner products are plain Euclidean ones:
(E_j u)_m = sqrt((j-m)/j) dx u_m + sqrt(m/j) dy u_(m-1). Odd orders use forward differences, even orders backward ones.
A component exists only where every difference it takes stays inside the domain (`contract.links_of`).
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cfusion.kernels.contract import Floats, Links

Masks = NDArray[np.bool_]


def masks(links: Links, order: int) -> Masks:
    """(order + 1, H, W): where each component of E_order exists."""
    first = (order - 1) * (order + 2) // 2
    return np.stack([(links >> plane) & 1 > 0 for plane in range(first, first + order + 1)])


def symmetrised_gradient(u: Floats, links: Links, order: int) -> Floats:
    """(order, H, W) -> (order + 1, H, W), zero where a component does not exist."""
    forward = order % 2 == 1
    out = np.zeros((order + 1, *u.shape[1:]), u.dtype)
    for m in range(order + 1):
        if m < order:
            out[m] += u.dtype.type(sqrt((order - m) / order)) * _difference(u[m], 1, forward)
        if m > 0:
            out[m] += u.dtype.type(sqrt(m / order)) * _difference(u[m - 1], 0, forward)
    return out * masks(links, order)


def adjoint(p: Floats, links: Links, order: int) -> Floats:
    """The transpose of `symmetrised_gradient`: (order + 1, H, W) -> (order, H, W)."""
    forward = order % 2 == 1
    p = p * masks(links, order)
    out = np.zeros((order, *p.shape[1:]), p.dtype)
    for m in range(order + 1):
        if m < order:
            out[m] += p.dtype.type(sqrt((order - m) / order)) * _difference_adjoint(p[m], 1, forward)
        if m > 0:
            out[m - 1] += p.dtype.type(sqrt(m / order)) * _difference_adjoint(p[m], 0, forward)
    return out


def _difference(u: Floats, axis: int, forward: bool) -> Floats:
    """u[i+1] - u[i], stored at i (forward) or at i+1 (backward); zero at the end of the image."""
    out = np.zeros_like(u)
    step = np.diff(u, axis=axis)
    _part(out, axis, forward)[...] = step
    return out


def _difference_adjoint(p: Floats, axis: int, forward: bool) -> Floats:
    """Each stored difference is added at its later pixel and subtracted at its earlier one."""
    out = np.zeros_like(p)
    kept = _part(p, axis, forward)
    _part(out, axis, forward=False)[...] += kept
    _part(out, axis, forward=True)[...] -= kept
    return out


def _part(u: Floats, axis: int, forward: bool) -> Floats:
    """All but the last (forward) or all but the first (backward) entries along the axis."""
    cut = slice(None, -1) if forward else slice(1, None)
    return u[(slice(None),) * axis + (cut,)]
