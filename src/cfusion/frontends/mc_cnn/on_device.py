"""The whole matcher on a CUDA device: two images are uploaded, a checked map and its cues come back."""

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cfusion import kernels
from cfusion.arrays import Image
from cfusion.errors import BackendUnavailable, OutOfMemory
from cfusion.frontends import cues, refine
from cfusion.frontends.mc_cnn.matcher import MARGIN, McCnn
from cfusion.frontends.mc_cnn.network import layers, normed, padded
from cfusion.kernels.stereo import PLANES, DeviceStereo

if TYPE_CHECKING:
    from cfusion.frontends.stereo import Checks

Floats = NDArray[np.float32]
MODULE = "cfusion.kernels.cuda.stereo"
BACKENDS = ("auto", "cuda", "cpu")


def uses_device(backend: str) -> bool:
    """Whether this backend matches on a CUDA device."""
    if backend == "auto":
        return kernels.available()[0] == "cuda"
    if backend not in BACKENDS:
        raise BackendUnavailable(f"mc-cnn has no backend {backend!r}; choose one of: {', '.join(BACKENDS)}")
    return backend == "cuda"


def match_on_device(left: Image, right: Image, settings: McCnn, checks: "Checks", backend: str) -> Any:
    """The checked disparity (H, W) and its cues (8, H, W) on the host; None if `auto` lacks device memory."""
    cuda = kernels.load("cuda")
    device: DeviceStereo = importlib.import_module(MODULE).stereo()
    try:
        with cuda.stream():
            made = matched(device, left, right, settings, checks)
            return tuple(cuda.to_host(each) for each in made)
    except MemoryError as error:
        if backend == "auto":
            return None
        raise OutOfMemory(
            f"{settings.disparities} disparities of {left.shape[1]} x {left.shape[0]} pixels need about "
            f"{bytes_needed(left.shape, settings.disparities) / 1e9:.2g} GB on the GPU, and less is free; "
            "pass backend='cpu', or search fewer"
        ) from error


def bytes_needed(shape: tuple[int, ...], disparities: int) -> int:
    """Bytes on the device: two volumes, the features of both images, and one layer's output."""
    return 4 * shape[0] * shape[1] * (2 * disparities + 3 * PLANES)


def matched(
    device: DeviceStereo, left: Image, right: Image, settings: McCnn, checks: "Checks"
) -> tuple[Floats, Floats]:
    """The same steps as on the CPU in the same order; results stay on the device."""
    curves, mirrored = curves_on_device(device, left, right, settings)
    apart, found = device.checked(curves[0], mirrored, checks.tolerance)
    if checks.speck > 0:
        device.drop_specks(found, checks.speck, checks.speck_step)
    seen = device.cues(found, apart, left, curves, (cues.JUMP, cues.TEXTURE, MARGIN))
    return device.refined(found, refine.RADIUS, refine.WIDTH, refine.STEP), seen


def curves_on_device(device: DeviceStereo, left: Image, right: Image, settings: McCnn) -> tuple[Floats, Floats]:
    """The left image's curves (4, H, W) in the order of `Curves`, and the right image's disparity, mirrored."""
    cost = _cost_volume(device, left, right, settings.disparities)
    spare = device.arrays.empty(cost.shape, np.float32)
    crosses = [device.arms(each, settings.arm, settings.arm_tolerance) for each in (left, right)]
    for _ in range(settings.aggregations):
        device.aggregate(cost, spare, *crosses)
    steps = settings.penalties.table(), settings.penalties.ground, settings.penalties.edge
    ours, theirs = normed(left), normed(right)
    curves = device.winners(device.semi_global(cost, spare, ours, theirs, *steps), cost)
    device.mirror(cost, spare)
    ours, theirs = theirs[:, ::-1], ours[:, ::-1]
    return curves, device.winners(device.semi_global(spare, cost, ours, theirs, *steps), spare)[0]


def _cost_volume(device: DeviceStereo, left: Image, right: Image, disparities: int) -> Floats:
    """A function of its own, so that the features are freed at its end."""
    ours, theirs = (device.features(padded(each), layers()) for each in (left, right))
    return device.cost_volume(ours, theirs, disparities)
