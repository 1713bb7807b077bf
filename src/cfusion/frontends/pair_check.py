"""Mistakes that a stereo pair shows before it is matched: swapped, unrectified, unrelated, a range too short.

Some hundred points are found in both images by their looks, wherever they are. In a rectified pair they lie in the same
row, and further left in the right image; how far tells the range of disparities that is needed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.errors import InputError
from cfusion.frontends.opencv import opencv

POINTS = 3000
RATIO = 0.8  # the best match is that much better than the second best
FEW = 12  # points: below, nothing is said but that the images have little in common
ROW = 2.0  # pixels that rows may differ in a rectified pair
AGREEING = 0.5  # share of the points that have to lie in one row
BACKWARDS = 0.7  # share of points with negative disparities that means swapped
TEXTURED = 1.0  # mean difference of neighbouring grey values, of 255: an image that has something to be found
STEP = 2.0  # pixels: a disparity below -STEP is negative
BEYOND = 0.02  # share of points beyond the range that is worth a word
PILE = 0.01  # share of the matched pixels at the end of the range that is worth a word


@dataclass(frozen=True, eq=False)
class Points:
    """Points found in both images."""

    left: NDArray[np.float64]  # (N, 2) u, v
    right: NDArray[np.float64]  # (N, 2) u', v'

    @property
    def disparity(self) -> NDArray[np.float64]:
        """(N,) u - u', pixels."""
        return self.left[:, 0] - self.right[:, 0]

    @property
    def rows(self) -> NDArray[np.float64]:
        """(N,) v - v', pixels."""
        return self.left[:, 1] - self.right[:, 1]

    @property
    def level(self) -> NDArray[np.bool_]:
        """Those that lie in one row."""
        return np.abs(self.rows) <= ROW


def require_pair(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> Points:
    """The points of a pair that can be matched; an error that names the mistake otherwise."""
    points = find_points(left, right)
    count = len(points.rows)
    textured = min(float(np.abs(np.diff(each.astype(np.float32), axis=1)).mean()) for each in (left, right)) > TEXTURED
    if count < FEW and not textured:
        return points  # too smooth to say anything
    in_row = int(points.level.sum())
    if in_row < max(FEW, AGREEING * count):
        of_one_scene = _of_one_scene(points)
        if of_one_scene < max(2 * FEW, AGREEING * count):
            raise InputError(
                f"of {count} points that look alike in both images only {max(in_row, of_one_scene)} fit two views of "
                "one scene; the pair seems unrelated (another moment, another place); check the two names, or pass "
                "--unchecked"
            )
        off = np.median(points.rows)
        spread = np.median(np.abs(points.rows - off))
        raise InputError(
            f"{100 * (1 - points.level.mean()):.0f} % of {count} points lie in another row of the right image "
            f"(by {off:+.1f} pixels, give or take {spread:.1f}): the pair is not rectified; give a full calibration "
            "(--calib with K1, D1, K2, D2, R, T), or pass --unchecked"
        )
    level = points.disparity[points.level]
    if np.mean(level < -STEP) > BACKWARDS:
        raise InputError(
            f"{100 * np.mean(level < -STEP):.0f} % of {len(level)} points lie further right in the right image: "
            "left and right are swapped; give them the other way round, or pass --unchecked"
        )
    return points


def range_warning(points: Points, disparity: NDArray[np.float32], disparities: int) -> str | None:
    """A sentence where the range searched is too short: by the points, or by disparities that pile up at its end."""
    level = points.disparity[points.level]
    beyond = level[level >= disparities]
    known = np.isfinite(disparity)
    share = float(known.mean())
    piled = float(np.mean(disparity[known] >= disparities - 2)) if known.any() else 0.0
    if len(level) >= FEW and len(beyond) > max(2, BEYOND * len(level)):
        needed = 16 * int(np.ceil(1.1 * np.quantile(level, 0.995) / 16))
        return (
            f"{100 * len(beyond) / len(level):.0f} % of the points found in both images have disparities of "
            f"{disparities} or more, and {100 * share:.0f} % of the pixels were matched: the range is too short; "
            f"try --disparities {needed}"
        )
    if piled > PILE:
        return (
            f"{100 * piled:.0f} % of the matched pixels lie at the end of the range of {disparities} disparities: "
            f"it may be too short; try --disparities {2 * disparities}"
        )
    return None


def _of_one_scene(points: Points) -> int:
    """How many points fit one epipolar geometry, whichever it is."""
    if len(points.rows) < FEW:
        return 0
    cv2 = opencv()
    _, inside = cv2.findFundamentalMat(points.left, points.right, cv2.FM_RANSAC, 1.0, 0.999)
    return 0 if inside is None else int(inside.sum())


def find_points(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> Points:
    """Points that are each other's best match and clearly better than the second best, anywhere in the images."""
    cv2 = opencv()
    detector = cv2.ORB_create(POINTS)
    found = [detector.detectAndCompute(np.ascontiguousarray(each), None) for each in (left, right)]
    if any(descriptors is None or len(descriptors) < 2 for _, descriptors in found):
        return Points(np.zeros((0, 2)), np.zeros((0, 2)))
    (ours, first), (theirs, second) = found
    matcher = cv2.BFMatcher(cv2.NORM_HAMMING)
    there = _best(matcher.knnMatch(first, second, k=2))
    back = _best(matcher.knnMatch(second, first, k=2))
    pairs = [(one, other) for one, other in there.items() if back.get(other) == one]
    table = np.array([(*ours[one].pt, *theirs[other].pt) for one, other in pairs], np.float64).reshape(-1, 4)
    return Points(table[:, :2], table[:, 2:])


def _best(matches: list[tuple]) -> dict[int, int]:  # type: ignore[type-arg]
    return {
        two[0].queryIdx: two[0].trainIdx
        for two in matches
        if len(two) == 2 and two[0].distance < RATIO * two[1].distance
    }


def same_size(left: Image, right: Image) -> None:
    """Say that the sizes differ, and how."""
    if left.shape[:2] != right.shape[:2]:
        sizes = [f"{each.shape[1]} x {each.shape[0]}" for each in (left, right)]
        raise InputError(
            f"the left image is {sizes[0]} pixels, the right one {sizes[1]}; a pair has one size: "
            "were they cropped or scaled apart?"
        )
