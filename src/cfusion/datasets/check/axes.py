"""The axes of a camera: which of them point right, down and forward; OpenCV's are x,y,z."""

from itertools import permutations, product

import numpy as np

from cfusion.arrays import Matrix
from cfusion.errors import InputError

OPENCV, OPENGL, ROS = "opencv", "opengl", "ros"
NAMED = {OPENCV: "x,y,z", OPENGL: "x,-y,-z", ROS: "-y,-z,x"}  # right, down, forward
TOWARDS = (("right", "left"), ("down", "up"), ("forward", "back"))


def turn_of(axes: str) -> Matrix:
    """(3, 3) pose_from_opencv: its columns are the directions right, down and forward in the axes of the pose."""
    parts = [part.strip() for part in NAMED.get(axes, axes).split(",")]
    columns = [_direction(part) for part in parts]
    turn = np.array(columns).T
    if turn.shape != (3, 3) or np.abs(turn).sum(axis=1).tolist() != [1, 1, 1] or np.linalg.det(turn) < 0:
        raise InputError(
            f"--axes is {axes!r}; give opencv, opengl, ros, or the right-handed axes that point right, down and "
            "forward, such as --axes=-y,-z,x"
        )
    return turn


def name_of(turn: Matrix) -> str:
    """The name of axes, or the three that point right, down and forward."""
    signs = {1: "", -1: "-"}
    directions = list(np.rint(turn).astype(int).T)
    text = ",".join(signs[int(each.sum())] + "xyz"[int(np.argmax(np.abs(each)))] for each in directions)
    return next((name for name, axes in NAMED.items() if axes == text), text)


def described(axes: str) -> str:
    """Where x, y and z point."""
    rows = np.rint(turn_of(axes)).astype(int)
    ends = (TOWARDS[int(np.argmax(np.abs(row)))][int(row.sum() < 0)] for row in rows)
    return ", ".join(f"{letter} {end}" for letter, end in zip("xyz", ends, strict=True))


def _direction(part: str) -> list[float]:
    letter = part.removeprefix("-")
    sign = -1.0 if part.startswith("-") else 1.0
    return [sign * (letter == each) for each in "xyz"]


def _every() -> tuple[str, ...]:
    """The names of all 24 right-handed axes, OpenCV's first."""
    texts = []
    for letters, signs in product(permutations("xyz"), product(("", "-"), repeat=3)):
        turn = np.array([_direction(sign + letter) for sign, letter in zip(signs, letters, strict=True)]).T
        if np.linalg.det(turn) > 0:
            texts.append(name_of(turn))
    return tuple(texts)


EVERY_AXES = _every()
