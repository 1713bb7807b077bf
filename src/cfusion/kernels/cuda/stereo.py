"""Matching on the device: `cfusion.kernels.stereo` with CuPy and our kernels."""

import cupy

from cfusion.kernels.cuda.device import kernel
from cfusion.kernels.stereo import DeviceStereo


def stereo() -> DeviceStereo:
    """The steps of a matcher on this device."""
    return DeviceStereo(cupy, kernel)
