"""From images to depth: stereo matching and odometry; OpenCV and Numba are imported when needed."""

from cfusion.frontends.kitti import kitti_bundle_views

__all__ = ["kitti_bundle_views"]
