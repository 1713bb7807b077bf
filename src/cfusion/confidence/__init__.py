"""Confidence: the weight of each observation, before the solver estimates its own."""

from cfusion.confidence.appearance import Appearance
from cfusion.confidence.confidence import Confidence, Given, Product, Uniform
from cfusion.confidence.edges import edge_weight, nagel_enkelmann
from cfusion.confidence.geometric import Geometric

__all__ = ["Appearance", "Confidence", "Geometric", "Given", "Product", "Uniform", "edge_weight", "nagel_enkelmann"]
