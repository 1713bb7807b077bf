"""The laws of noise over depth that every backend knows: another one is tested by a line here."""

from cfusion.kernels.depth_noise import DepthNoise

LAWS = tuple(DepthNoise(2.0, power) for power in (0, 1, 2))
