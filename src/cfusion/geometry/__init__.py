"""Cameras, poses, views and stacks: a depth map, and where it was seen from."""

from cfusion.geometry.camera import BrownConrady, Camera, Orthographic, Pinhole
from cfusion.geometry.normals import normals
from cfusion.geometry.pose import Pose
from cfusion.geometry.view import Stack, View

__all__ = ["BrownConrady", "Camera", "Orthographic", "Pinhole", "Pose", "Stack", "View", "normals"]
