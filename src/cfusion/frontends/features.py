"""Features that two stereo pairs share: corners and blobs, tracked in a circle through the four images.

previous left -> previous right -> current right -> current left -> previous left: a feature that does not return to its
start was mistracked (Geiger, Ziegler and Stiller, 2011).
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.frontends.opencv import opencv

Bytes = NDArray[np.uint8]
Places = NDArray[np.float32]  # (N, 2): u, v
BUCKET, PER_BUCKET = 50, 12  # pixels: side of the squares over which features are distributed; most features of each
QUALITY = 0.002  # of the strongest corner
WINDOW, LEVELS = 15, 5  # pixels compared around a feature; of the pyramid: motions of 2^levels windows are found
CLOSURE = 0.5  # pixels between start and end of the circle
EPIPOLAR = 1.0  # pixels between the rows of left and right
BLOB_SHARE = 0.1  # corners are located more precisely than blobs


@dataclass(frozen=True, eq=False)
class Circle:
    """Positions (N, 2) of N features in each of the four images."""

    previous_left: Places
    previous_right: Places
    current_left: Places
    current_right: Places

    def __len__(self) -> int:
        return len(self.previous_left)


def circle_matches(previous: tuple[Bytes, Bytes], current: tuple[Bytes, Bytes]) -> Circle:
    """Features of the previous left image that return to their start, in front of both pairs of cameras."""
    start = spread_features(previous[0])
    way = (previous[0], previous[1], current[1], current[0], previous[0])
    places, kept = [start], np.ones(len(start), np.bool_)
    for here, there in itertools.pairwise(way):
        followed, found = _follow(here, there, places[-1])
        kept &= found
        places.append(followed)
    kept &= np.linalg.norm(places[4] - start, axis=1) <= CLOSURE
    for left, right in ((places[0], places[1]), (places[3], places[2])):
        kept &= np.abs(left[:, 1] - right[:, 1]) <= EPIPOLAR
        kept &= left[:, 0] - right[:, 0] > 0
    return Circle(*(places[k][kept] for k in (0, 1, 3, 2)))


def spread_features(image: Bytes) -> Places:
    """Corners and centres of blobs (N, 2), the strongest few of every bucket."""
    cv2 = opencv()
    strength = cv2.cornerMinEigenVal(image, 3)
    blobs = np.abs(cv2.Laplacian(cv2.GaussianBlur(image.astype(np.float32), (0, 0), 2.0), cv2.CV_32F))
    strength = strength / max(float(strength.max()), 1e-12) + BLOB_SHARE * blobs / max(float(blobs.max()), 1e-12)
    peak = cv2.dilate(strength, np.ones((5, 5), np.uint8)) == strength
    rows, columns = np.nonzero(peak & (strength > QUALITY * float(strength.max())))
    cell = (rows // BUCKET) * (image.shape[1] // BUCKET + 1) + columns // BUCKET
    order = np.lexsort((-strength[rows, columns], cell))
    _, first = np.unique(cell[order], return_index=True)
    rank = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    chosen = order[rank < PER_BUCKET]
    return np.stack([columns[chosen], rows[chosen]], axis=-1).astype(np.float32).reshape(-1, 2)


def _follow(here: Bytes, there: Bytes, places: Places) -> tuple[Places, NDArray[np.bool_]]:
    """Positions of features in another image, by pyramidal Lucas-Kanade; and whether they were found."""
    if len(places) == 0:
        return places, np.zeros(0, np.bool_)
    cv2: Any = opencv()
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 40, 0.003)
    size = (WINDOW, WINDOW)
    found, status, _ = cv2.calcOpticalFlowPyrLK(
        here, there, places[:, None], None, winSize=size, maxLevel=LEVELS, criteria=criteria
    )
    followed: Places = found.reshape(-1, 2)
    height, width = there.shape
    inside = (followed >= 0).all(axis=1) & (followed[:, 0] <= width - 1) & (followed[:, 1] <= height - 1)
    return followed, (status.ravel() == 1) & inside
