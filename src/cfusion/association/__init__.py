"""Association: views of one scene, each from its own place, become a stack in one of them."""

from cfusion.association.splat import Splat

__all__ = ["Splat"]
