"""Proximal maps of the data term: argmin_x step * sum_k w_k phi(x - d_k) + (x - f)^2 / 2, per pixel, in closed form.

Observations are sorted along K, +inf with weight zero where missing.
"""

import numpy as np

from cfusion.kernels.contract import Fidelity, Floats, Observations


def data_prox(f: Floats, step: Floats, seen: Observations, fidelity: Fidelity, delta: float) -> Floats:
    """The prox of the whole data term of one pixel; `step` is tau * lam."""
    if fidelity is Fidelity.L2:
        return (f + step * seen.total * seen.values[0]) / (1 + step * seen.total)
    if fidelity is Fidelity.HUBER:
        return _huber(f, step, seen, delta)
    return _l1(f, step, seen)


def _l1(f: Floats, step: Floats, seen: Observations) -> Floats:
    """max over j of min(d_(j+1), f + step (S - 2 C_j)), C_j the weight of the j smallest and d_(K+1) = +inf."""
    slope = seen.total.copy()
    best = np.full_like(f, -np.inf)
    for k, value in enumerate(seen.values):
        best = np.maximum(best, np.minimum(value, f + step * slope))
        slope -= 2 if seen.weights is None else 2 * seen.weights[k]
    return np.maximum(best, f + step * -seen.total)


def _huber(f: Floats, step: Floats, seen: Observations, delta: float) -> Floats:
    """The root of x - f + step sum_k w_k clip((x - d_k) / delta, -1, 1), found on the sorted corners d_k -+ delta."""
    weights = known_weights(seen)
    corners = np.concatenate([seen.values - delta, seen.values + delta])
    gains = np.concatenate([weights, -weights]) * step / delta
    order = np.argsort(corners, axis=0, kind="stable")
    corners, gains = np.take_along_axis(corners, order, 0), np.take_along_axis(gains, order, 0)
    # the slope past corner j is 1 + the gains so far; on that piece the root is linear interpolation from the corner
    below = f + step * seen.total  # root of the first piece, where every clip is -1
    slope, x = np.ones_like(f), below
    height = corners[0] - below  # value of the increasing function at the first corner
    for j in range(len(corners)):
        past = height < 0
        slope = np.where(past, slope + gains[j], slope)
        with np.errstate(invalid="ignore"):
            x = np.where(past, corners[j] - height / slope, x)
            if j + 1 < len(corners):
                height = np.where(past, height + slope * (corners[j + 1] - corners[j]), np.inf)
    return x


def known_weights(seen: Observations) -> Floats:
    """The weights (K, H, W), with implicit ones written out."""
    if seen.weights is not None:
        return seen.weights
    return np.isfinite(seen.values).astype(seen.values.dtype)


def penalty(t: Floats, fidelity: Fidelity, delta: float) -> Floats:
    """phi: |t|, t^2 / 2, or Huber's t^2 / (2 delta) up to delta and |t| - delta / 2 beyond."""
    size = np.abs(t)
    if fidelity is Fidelity.L2:
        return t * t / 2
    if fidelity is Fidelity.HUBER:
        return np.where(size <= delta, t * t / (2 * delta), size - delta / 2)
    return size
