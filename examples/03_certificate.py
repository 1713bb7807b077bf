"""Change a method by parameters, and read its certificate.

The method `l1` minimises, at a fixed confidence lam,

    E(x) = min_v  alpha_1 |grad x - v| + alpha_2 |sym grad v|  +  lam sum_i sum_k |x_i - d_ki|

`gap` of a result is a certified relative duality gap. The dual variables give a number B <= min E, a true lower bound
and not an estimate, and

    gap = (E(x) - B) / E(x)

E(x) is therefore within a fraction `gap` of the minimum. The solver stops when gap <= tolerance. Every bound of any
run lies below every energy of any run; the last line of the output checks this.

    python examples/03_certificate.py [width of the maps, default 240]
"""

import sys

import numpy as np

import cfusion
from cfusion.energy import L1, TGV, Energy

width = int(sys.argv[1]) if len(sys.argv) > 1 else 240
rng = np.random.default_rng(0)
v, u = np.mgrid[: 3 * width // 4, :width] / width
depth = 2 + 0.5 * u + (np.hypot(u - 0.5, v - 0.4) < 0.2)  # a slope, and a disc in front of it
stack = cfusion.Stack(depth + rng.laplace(0, 0.2, (7, *depth.shape)))

energies, bounds = [], []
print("tolerance   energy      lower bound   gap       iterations")
for tolerance in (1e-2, 1e-3, 1e-4):
    result = cfusion.fuse_stack(stack, "l1", alpha=(2.0, 4.0), tolerance=tolerance, iterations=10_000)
    energies.append(result.energies["total"])
    bounds.append(energies[-1] * (1 - result.gap))
    print(f"{tolerance:<9.0e} {energies[-1]:12.3f} {bounds[-1]:12.3f}   {result.gap:.1e}   {result.iterations:6d}")
print(result.status.value)

# The same method, changed by its parts instead of by parameters; METHODS itself cannot be edited.
by_parts = cfusion.METHODS["l1"].replace(energy=Energy(L1(), TGV(2, (2.0, 4.0))))
same = cfusion.fuse_stack(stack, by_parts, tolerance=1e-2)
print(f"\nchanged by its parts: energy {same.energies['total']:.3f}, terms", end=" ")
print({name: round(value, 1) for name, value in same.energies.items()})

slack = 1e-6 * max(energies)  # energies are sums in single precision
print(f"every bound is below every energy: {max(bounds) <= min(energies) + slack}")
