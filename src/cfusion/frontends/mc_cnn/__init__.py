"""MC-CNN: a network compares patches, semi-global matching finds the disparities."""

from cfusion.frontends.mc_cnn.matcher import Curves, McCnn, curve_cues, mc_cnn_curves
from cfusion.frontends.mc_cnn.network import require_network

__all__ = ["Curves", "McCnn", "curve_cues", "mc_cnn_curves", "require_network"]
