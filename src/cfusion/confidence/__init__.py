"""Confidence: the weight of each observation, before the solver estimates its own."""

from cfusion.confidence.appearance import Appearance
from cfusion.confidence.confidence import Confidence, Product
from cfusion.confidence.edges import edge_weight, nagel_enkelmann
from cfusion.confidence.geometric import Geometric
from cfusion.confidence.given import Given
from cfusion.confidence.uniform import Uniform

__all__ = ["Appearance", "Confidence", "Geometric", "Given", "Product", "Uniform", "edge_weight", "nagel_enkelmann"]
