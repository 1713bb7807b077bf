"""The factor on the stored values with which views fit best: found on a grid, then refined between its neighbours."""

from dataclasses import replace

import numpy as np

from cfusion.datasets.check.reprojection import STATED, Hypothesis, Meaning, Samples

GRID = np.geomspace(1e-8, 1e8, 79)  # factors tried
ROUNDS = 9  # of bisection between them
EVERY = 4  # of the samples: one of so many suffices to find a factor
NEEDED_OVERLAP = 0.05  # for a factor to be judged


def cost_of(samples: Samples, hypothesis: Hypothesis, every: int = EVERY) -> tuple[bool, float]:
    """What a search compares: whether too few samples meet, then the cost of those that do."""
    found = samples.residuals(hypothesis, every)
    return found.overlap < NEEDED_OVERLAP, found.cost


def best_factor(samples: Samples, meaning: Meaning, under: Hypothesis = STATED) -> float:
    """The factor with the smallest residuals, under a hypothesis about everything else."""
    unit = 1.0 if meaning is Meaning.z else samples.typical * max(samples.motion, 1e-3 * samples.typical)
    factors = list(unit * GRID)

    def cost(factor: float) -> tuple[bool, float]:
        return cost_of(samples, replace(under, name="", factor=factor, meaning=meaning))

    costs = [cost(factor) for factor in factors]
    best = min(range(len(factors)), key=lambda index: costs[index])
    low, high = factors[max(best - 1, 0)], factors[min(best + 1, len(factors) - 1)]
    for _ in range(ROUNDS):
        between = list(np.geomspace(low, high, 5))
        tried = [cost(factor) for factor in between]
        place = min(range(len(between)), key=lambda index: tried[index])
        low, high = between[max(place - 1, 0)], between[min(place + 1, len(between) - 1)]
        factors.append(between[place])
        costs.append(tried[place])
    return float(factors[min(range(len(factors)), key=lambda index: costs[index])])
