"""OpenCV, imported when it is needed."""

from typing import Any

from cfusion.errors import optional_module


def opencv() -> Any:
    """The module cv2."""
    return optional_module("cv2", missing="stereo and odometry need OpenCV: pip install 'cfusion[frontends]'")
