"""Mistakes in a stereo pair that show before matching: swapped, unrectified or unrelated images, a range too short.

Some hundred points are found in both images by their looks alone. In a rectified pair they lie in the same row, and
further left in the right image; their displacements give the required range of disparities.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.errors import InputError
from cfusion.frontends.opencv import opencv

POINTS = 3000
RATIO = 0.8  # largest ratio of the best over the second best match
FEW = 12  # points: with fewer, the only statement is that the images have little in common,
LEAST = 100  # if there were so many to compare; small images have fewer, as none lies within 31 pixels of the border
ROW = 2.0  # pixels by which rows may differ in a rectified pair
AGREEING = 0.5  # share of points that have to lie in one row
BACKWARDS = 0.7  # share of points with negative disparities from which images count as swapped
TEXTURED = 1.0  # mean difference of neighbouring grey values, of 255, from which an image has texture
STEP = 2.0  # pixels: disparities below -STEP are negative
BEYOND = 0.02  # share of points beyond the range that causes a warning
UNCHECKED = "pass --unchecked"  # how a user skips the check
PILE = 0.01  # share of matched pixels at the end of the range that causes a warning


@dataclass(frozen=True, eq=False)
class Points:
    """Points found in both images."""

    left: NDArray[np.float64]  # (N, 2) u, v
    right: NDArray[np.float64]  # (N, 2) u', v'
    candidates: int = POINTS  # found in the image that has fewer of them, before they were compared

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
        """Whether each point lies in one row."""
        return np.abs(self.rows) <= ROW


def require_pair(left: NDArray[np.uint8], right: NDArray[np.uint8], *, unless: str = UNCHECKED) -> Points:
    """The common points of a valid pair; otherwise an error that names the mistake; `unless` tells how to skip it."""
    points = find_points(left, right)
    count = len(points.rows)
    textured = min(float(np.abs(np.diff(each.astype(np.float32), axis=1)).mean()) for each in (left, right)) > TEXTURED
    if count < FEW and (not textured or points.candidates < LEAST):
        return points  # too smooth or too small to decide
    in_row = int(points.level.sum())
    if in_row < max(FEW, AGREEING * count):
        of_one_scene = _of_one_scene(points)
        if of_one_scene < max(2 * FEW, AGREEING * count):
            raise InputError(
                f"of {count} points that look alike in both images only {max(in_row, of_one_scene)} fit two views of "
                "one scene; the pair seems unrelated (another moment, another place); check the two names, or "
                f"{unless}"
            )
        off = np.median(points.rows)
        spread = np.median(np.abs(points.rows - off))
        raise InputError(
            f"{100 * (1 - points.level.mean()):.0f} % of {count} points lie in another row of the right image "
            f"(by {off:+.1f} +- {spread:.1f} pixels): the pair is not rectified; give a full calibration "
            f"(--calib with K1, D1, K2, D2, R, T), or {unless}"
        )
    level = points.disparity[points.level]
    if np.mean(level < -STEP) > BACKWARDS:
        raise InputError(
            f"{100 * np.mean(level < -STEP):.0f} % of {len(level)} points lie further right in the right image: "
            f"left and right are swapped; exchange them, or {unless}"
        )
    return points


def short_range(points: Points, disparities: int, *, setting: str = "--disparities ") -> str | None:
    """A sentence if the points need a larger range than the one searched, with the `setting` to change."""
    level = points.disparity[points.level]
    beyond = level[level >= disparities]
    if len(level) < FEW or len(beyond) <= max(2, BEYOND * len(level)):
        return None
    needed = 16 * int(np.ceil(1.1 * np.quantile(level, 0.995) / 16))
    return (
        f"{100 * len(beyond) / len(level):.0f} % of the points found in both images have disparities of "
        f"{disparities} or more: the range is too short; try {setting}{needed}"
    )


def range_warning(points: Points, disparity: NDArray[np.float32], disparities: int) -> str | None:
    """A sentence if the searched range is too short, by the points or by disparities that accumulate at its end."""
    told = short_range(points, disparities)
    if told is not None:
        return told
    known = np.isfinite(disparity)
    piled = float(np.mean(disparity[known] >= disparities - 2)) if known.any() else 0.0
    if piled > PILE:
        return (
            f"{100 * piled:.0f} % of the matched pixels lie at the end of the range of {disparities} disparities: "
            f"it may be too short; try --disparities {2 * disparities}"
        )
    return None


def _of_one_scene(points: Points) -> int:
    """The number of points that fit one epipolar geometry."""
    if len(points.rows) < FEW:
        return 0
    cv2 = opencv()
    _, inside = cv2.findFundamentalMat(points.left, points.right, cv2.FM_RANSAC, 1.0, 0.999)
    return 0 if inside is None else int(inside.sum())


def find_points(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> Points:
    """Points that are each other's best match, clearly better than the second best, anywhere in the images."""
    cv2 = opencv()
    detector = cv2.ORB_create(POINTS)
    found = [detector.detectAndCompute(np.ascontiguousarray(each), None) for each in (left, right)]
    if any(descriptors is None or len(descriptors) < 2 for _, descriptors in found):
        return Points(np.zeros((0, 2)), np.zeros((0, 2)), 0)
    (ours, first), (theirs, second) = found
    matcher = cv2.BFMatcher(cv2.NORM_HAMMING)
    there = _best(matcher.knnMatch(first, second, k=2))
    back = _best(matcher.knnMatch(second, first, k=2))
    pairs = [(one, other) for one, other in there.items() if back.get(other) == one]
    table = np.array([(*ours[one].pt, *theirs[other].pt) for one, other in pairs], np.float64).reshape(-1, 4)
    return Points(table[:, :2], table[:, 2:], min(len(first), len(second)))


def _best(matches: list[tuple]) -> dict[int, int]:  # type: ignore[type-arg]
    return {
        two[0].queryIdx: two[0].trainIdx
        for two in matches
        if len(two) == 2 and two[0].distance < RATIO * two[1].distance
    }


def same_size(left: Image, right: Image) -> None:
    """Raise if the sizes differ."""
    if left.shape[:2] != right.shape[:2]:
        sizes = [f"{each.shape[1]} x {each.shape[0]}" for each in (left, right)]
        raise InputError(
            f"the left image is {sizes[0]} pixels, the right one {sizes[1]}; a pair has one size: "
            "give images that were cropped and scaled alike"
        )


def not_the_same(left: Image, right: Image) -> None:
    """Raise if both images are one."""
    if np.array_equal(left, right):
        raise InputError("left and right are the same image; give the images of the two cameras")
