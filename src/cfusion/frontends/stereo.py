"""Stereo matching: rectified pairs to disparity maps, each with a confidence.

Images are (H, W) or (H, W, 3) in [0, 1]; left pixel u matches right pixel u - d with 0 <= d < disparities.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image, WeightMap
from cfusion.errors import BackendUnavailable, InputError, ShapeError, suggestion
from cfusion.frontends import consistency
from cfusion.frontends.cues import pair_cues, unlikeness, unsupported
from cfusion.frontends.elas import elas_maps
from cfusion.frontends.mc_cnn import McCnn, curve_cues, mc_cnn_curves, on_device, require_network
from cfusion.frontends.opencv import opencv
from cfusion.frontends.refine import refined
from cfusion.frontends.trust import ELAS_TRUST, MC_CNN_TRUST, SGM_TRUST, Trust

Bytes = NDArray[np.uint8]
MOST_DISPARITIES = 2048
BLOCK = 3  # pixels of a block of `sgm`, odd
SMALL_STEP, LARGE_STEP = 4, 64  # its P1 and P2, per pixel of the block: disparity changes by one, or by more
PREFILTER = 63  # Sobel responses are clipped at this value


class Matching(NamedTuple):
    """The result of a matcher for the left image."""

    disparity: consistency.Disparity  # (H, W) pixels, NaN = unknown
    confidence: WeightMap  # (H, W) probability that it is right to a pixel, zero where unknown
    sigma: consistency.Disparity  # (H, W) standard deviation in pixels, including systematic errors, NaN = unknown
    weight: WeightMap  # (H, W) in [0, 1], weight of the pixel in a fusion, zero where unknown


class Found(NamedTuple):
    """A map that passed its checks, and the cues against each pixel."""

    disparity: consistency.Disparity  # (H, W) pixels, NaN = unknown
    cues: NDArray[np.float32]  # (C, H, W) in [0, 1], 0 = good: those of `cues`, then the matcher's own


@dataclass(frozen=True)
class Checks:
    """The checks of a map after matching."""

    tolerance: float = 1.0  # pixels, between the left and the right image's disparity
    speck: int = 100  # pixels: smaller segments are dropped
    speck_step: float = 2.0  # pixels of disparity between neighbours of one segment
    gap: int = 0  # pixels: holes up to this width are interpolated


SGM_CHECKS = Checks()
ELAS_CHECKS = Checks(tolerance=1.0, speck=400, speck_step=1.0, gap=7)
MC_CNN_CHECKS = Checks(tolerance=1.0, speck=400, speck_step=1.0)


@dataclass(frozen=True)
class Matcher:
    """A named matcher: its search for disparities, and the calibration of its confidence."""

    summary: str
    find: Callable[[Image, Image, int, str], Found]  # images, disparities, backend
    trust: Trust
    backends: tuple[str, ...] = ("auto", "cpu")

    def __call__(self, left: Image, right: Image, disparities: int, backend: str = "auto") -> Matching:
        self.require(backend)
        return _with_confidence(self.find(left, right, disparities, backend), self.trust)

    def require(self, backend: str) -> None:
        """Raise if the matcher does not have this backend."""
        if backend not in self.backends:
            raise BackendUnavailable(
                f"this matcher has no backend {backend!r}; choose one of: {', '.join(self.backends)}"
            )


def match(
    left: Image, right: Image, matcher: str = "sgm", disparities: int = 128, *, backend: str = "auto"
) -> Matching:
    """Match with a named matcher at its default settings; `mc-cnn` runs on a GPU if there is one.

    backend: `auto`, `cuda` or `cpu`; only `mc-cnn` supports `cuda`.
    """
    return MATCHERS[known_matcher(matcher)](left, right, disparities, backend)


def known_matcher(name: str) -> str:
    """The name of a matcher; an unknown one raises with a suggestion."""
    if name not in MATCHERS:
        raise InputError(f"there is no matcher {name!r}; {suggestion(name, MATCHERS)}")
    return name


def require_matcher(name: str, backend: str = "auto") -> None:
    """Raise before other work if a matcher is unknown or lacks a library."""
    opencv()
    MATCHERS[known_matcher(name)].require(backend)
    if known_matcher(name) == "mc-cnn":
        require_network()


def _sgm(left: Image, right: Image, disparities: int, checks: Checks) -> Found:
    """Semi-global matching (Hirschmüller, 2008) over 8 paths, by OpenCV."""
    ours, theirs = _pair(left, right, disparities)
    disparity = _one_way(ours, theirs, disparities)
    other = _one_way(theirs[:, ::-1], ours[:, ::-1], disparities)[:, ::-1]
    return _with_likeness(_checked(disparity, other, checks, ours), ours, theirs)


def _elas(left: Image, right: Image, disparities: int, checks: Checks) -> Found:
    ours, theirs = _pair(left, right, disparities)
    maps = elas_maps(ours, theirs, disparities)
    found = _with_likeness(_checked(maps.left, maps.right, checks, ours), ours, theirs)
    return Found(found.disparity, np.concatenate([found.cues, unsupported(maps.away)[None]]))


def _mc_cnn(left: Image, right: Image, settings: McCnn, checks: Checks, backend: str) -> Found:
    ours, theirs = _pair(left, right, settings.disparities)
    if on_device.uses_device(backend) and checks.gap <= 0:  # holes are interpolated on the host only
        made = on_device.match_on_device(_in_unit(ours), _in_unit(theirs), settings, checks, backend)
        if made is not None:
            return Found(*made)
    curves, other = mc_cnn_curves(_in_unit(ours), _in_unit(theirs), settings)
    found = _checked(curves.disparity, other, checks, ours)
    smooth = refined(found.disparity, consistency.without_holes(found.disparity))
    return Found(smooth, np.concatenate([found.cues, curve_cues(curves)]))


MATCHERS: Mapping[str, Matcher] = MappingProxyType(
    {
        "sgm": Matcher(
            "semi-global matching over eight paths (OpenCV)",
            lambda left, right, disparities, _: _sgm(left, right, disparities, SGM_CHECKS),
            SGM_TRUST,
        ),
        "elas": Matcher(
            "support points and planes between them (Geiger et al., 2010)",
            lambda left, right, disparities, _: _elas(left, right, disparities, ELAS_CHECKS),
            ELAS_TRUST,
        ),
        "mc-cnn": Matcher(
            "a network's cost and semi-global matching (Zbontar and LeCun, 2016)",
            lambda left, right, disparities, backend: _mc_cnn(
                left, right, McCnn(disparities=disparities), MC_CNN_CHECKS, backend
            ),
            MC_CNN_TRUST,
            on_device.BACKENDS,
        ),
    }
)


def _checked(disparity: consistency.Disparity, other: consistency.Disparity, checks: Checks, image: Bytes) -> Found:
    apart = consistency.disagreement(disparity, other)
    found = consistency.agreeing(disparity, apart, checks.tolerance)
    found = consistency.without_specks(found, checks.speck, checks.speck_step)
    whole = consistency.bridged(found, checks.gap)
    return Found(whole, pair_cues(whole, apart, _in_unit(image)))


def _with_likeness(found: Found, left: Bytes, right: Bytes) -> Found:
    """The map with one more cue, for matchers that keep no costs: how unlike the images are where it matches them."""
    unlike = unlikeness(found.disparity, _in_unit(left), _in_unit(right))
    return Found(found.disparity, np.concatenate([found.cues, unlike[None]]))


def _with_confidence(found: Found, trust: Trust) -> Matching:
    confidence = trust.confidence(found.cues, np.isfinite(found.disparity))
    sigma, weight = trust.sigma(found.cues, confidence), trust.weight(found.cues, confidence)
    return Matching(found.disparity, confidence, sigma, weight)


def _one_way(ours: Bytes, theirs: Bytes, disparities: int) -> consistency.Disparity:
    """Disparity of the first image; matching pixels of the second lie further left."""
    cv2 = opencv()
    count = 16 * -(-disparities // 16)  # OpenCV requires a multiple of 16
    area = BLOCK**2
    engine = cv2.StereoSGBM_create(
        minDisparity=0,
        numDisparities=count,
        blockSize=BLOCK,
        P1=SMALL_STEP * area,
        P2=LARGE_STEP * area,
        disp12MaxDiff=-1,  # checked here, against the other image's own map
        preFilterCap=PREFILTER,
        uniquenessRatio=0,
        mode=cv2.STEREO_SGBM_MODE_HH,
    )
    # OpenCV omits columns that cannot have every disparity: pad the left
    wide = [cv2.copyMakeBorder(each, 0, 0, count, 0, cv2.BORDER_REPLICATE) for each in (ours, theirs)]
    found = engine.compute(*wide)[:, count:].astype(np.float32) / 16
    outside = found > np.arange(found.shape[1])[None, :]
    return np.where((found < 0) | outside, np.nan, found).astype(np.float32)


def _in_unit(grey: Bytes) -> Image:
    return grey.astype(np.float32) / np.float32(255)


def _pair(left: Image, right: Image, disparities: int) -> tuple[Bytes, Bytes]:
    if left.shape[:2] != right.shape[:2]:
        raise ShapeError(f"the left image is {left.shape[:2]}, the right one {right.shape[:2]}; rectify them first")
    if not 16 <= disparities <= MOST_DISPARITIES:
        raise InputError(f"disparities is {disparities}; choose between 16 and {MOST_DISPARITIES} pixels")
    return grey_bytes(left), grey_bytes(right)


def grey_bytes(image: Image) -> Bytes:
    """An image in [0, 1] as grey bytes (H, W), with colours weighted as in ITU-R BT.601."""
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3) or 0 in image.shape:
        raise ShapeError(f"an image is {image.shape}; give (H, W) or (H, W, 3)")
    plane = image if image.ndim == 2 else image @ np.array([0.299, 0.587, 0.114], np.float32)
    if not (plane.min() >= 0 and plane.max() <= 1 + 1e-6):  # also of NaN
        raise InputError("an image has values outside [0, 1]; divide by its largest one")
    return np.ascontiguousarray(np.rint(255 * plane).astype(np.uint8))
