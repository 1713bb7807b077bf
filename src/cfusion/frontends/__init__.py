"""From images to depth: stereo matching and odometry; OpenCV and Numba are imported when needed."""

from cfusion.frontends.direct_odometry import Alignment, DirectMotion, direct_motion
from cfusion.frontends.elas import Elas
from cfusion.frontends.kitti import kitti_bundle_views
from cfusion.frontends.mc_cnn import McCnn
from cfusion.frontends.odometry import Motion, motion, trajectory
from cfusion.frontends.rig import Rig, StereoFrame
from cfusion.frontends.stereo import MATCHERS, Checks, Matching, Sgm, elas, match, mc_cnn, sgm

__all__ = [
    "MATCHERS",
    "Alignment",
    "Checks",
    "DirectMotion",
    "Elas",
    "Matching",
    "McCnn",
    "Motion",
    "Rig",
    "Sgm",
    "StereoFrame",
    "direct_motion",
    "elas",
    "kitti_bundle_views",
    "match",
    "mc_cnn",
    "motion",
    "sgm",
    "trajectory",
]
