"""OpenCV, imported when it is needed."""

import importlib
from typing import Any

from cfusion.errors import MissingDependency


def opencv() -> Any:
    """The module cv2."""
    try:
        return importlib.import_module("cv2")
    except ImportError:
        raise MissingDependency("stereo and odometry need OpenCV: pip install 'cfusion[frontends]'") from None
