"""Whole scenes: every view fused from its best neighbours, written back, and one cloud and mesh of them all."""

from cfusion.scene.every_view import fuse_every
from cfusion.scene.graph import Graph, in_time
from cfusion.scene.neighbours import by_surface

__all__ = ["Graph", "by_surface", "fuse_every", "in_time"]
