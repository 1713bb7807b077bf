"""Rigid motions, named by their frames: world_from_camera @ camera_from_view = world_from_view."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cfusion.arrays import TINY, Matrix, Points, adopt
from cfusion.errors import InputError, PoseError, ShapeError

Vector: TypeAlias = NDArray[np.float64]  # (3,)

RIGID_TOLERANCE = 1e-2  # largest entry of |R^T R - I| attributed to rounding in a file, not to scale or shear
EXACT_TOLERANCE = 1e-12  # below this a rotation is kept bit by bit


@dataclass(frozen=True, eq=False)
class Pose:
    """A rotation and a translation: p_a = rotation @ p_b + translation for a pose `a_from_b`.

    A rotation that is slightly off (max |R^T R - I| <= 1e-2) is replaced by the nearest rotation; any other
    matrix is an error.

    Args:
        rotation: (3, 3) orthonormal, determinant 1; no unit.
        translation: (3,) in the unit of depth.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Pose
        >>> world_from_camera = Pose(np.eye(3), np.array([0.0, 0.0, 1.5]))
        >>> world_from_camera.apply([[0.0, 0.0, 2.0]]).tolist()
        [[0.0, 0.0, 3.5]]
        >>> (world_from_camera.inverse() @ world_from_camera).translation.tolist()
        [0.0, 0.0, 0.0]
    """

    rotation: Matrix  # (3, 3)
    translation: Vector  # (3,), unit of depth

    def __post_init__(self) -> None:
        rotation, translation = _numbers(self.rotation), _numbers(self.translation)
        if rotation.shape != (3, 3) or translation.shape != (3,):
            raise PoseError(
                f"give a (3, 3) rotation and a (3,) translation, not {rotation.shape} and {translation.shape}"
            )
        if not (np.isfinite(rotation).all() and np.isfinite(translation).all()):
            raise PoseError("a pose has entries that are not finite; drop this view or correct its pose")
        rotation = _nearest_rotation(rotation)
        rotation.setflags(write=False)
        translation.setflags(write=False)
        object.__setattr__(self, "rotation", rotation)
        object.__setattr__(self, "translation", translation)

    @classmethod
    def identity(cls) -> "Pose":
        """The identity."""
        return cls(np.eye(3), np.zeros(3))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> "Pose":
        """From a 4x4 (or 3x4) matrix [R t; 0 1]."""
        given = _numbers(matrix)
        if given.shape not in ((4, 4), (3, 4)):
            raise PoseError(f"a pose matrix is {given.shape}; give 4x4 or 3x4")
        if given.shape == (4, 4) and not np.allclose(given[3], (0.0, 0.0, 0.0, 1.0), atol=1e-6):
            by_columns = np.allclose(given[:, 3], (0.0, 0.0, 0.0, 1.0), atol=1e-6)
            hint = "; if it is stored by columns, give its transpose" if by_columns else ""
            raise PoseError(f"the last row of a pose is {given[3].tolist()}, expected [0, 0, 0, 1]{hint}")
        return cls(given[:3, :3], given[:3, 3])

    def matrix(self) -> Matrix:
        """The 4x4 matrix [R t; 0 1]."""
        result = np.eye(4)
        result[:3, :3] = self.rotation
        result[:3, 3] = self.translation
        return result

    def inverse(self) -> "Pose":
        """`b_from_a` for `a_from_b`."""
        return Pose(self.rotation.T, -self.rotation.T @ self.translation)

    def __matmul__(self, other: "Pose") -> "Pose":
        """`a_from_b @ b_from_c` is `a_from_c`."""
        if not isinstance(other, Pose):
            return NotImplemented
        return Pose(self.rotation @ other.rotation, self.rotation @ other.translation + self.translation)

    def apply(self, points: ArrayLike) -> Points:
        """Points (..., 3) of frame b in frame a."""
        return self.turn(points) + self.translation

    def turn(self, directions: ArrayLike) -> Points:
        """Directions (..., 3) of frame b in frame a: rotated, not translated."""
        xyz: Points = adopt(directions, np.float64, "the points")
        if xyz.ndim == 0 or xyz.shape[-1] != 3:
            raise ShapeError(f"points are {xyz.shape}; give (..., 3)")
        # Not `@`: a threaded product of this shape is no faster and stalls on a busy machine.
        return np.asarray(np.einsum("ij,...j->...i", self.rotation, xyz))


def _numbers(given: ArrayLike) -> Matrix:
    """A new array of real numbers; masked entries become NaN."""
    try:
        return np.array(adopt(given, np.float64, "a pose"))
    except InputError as error:
        raise PoseError(str(error)) from None


def _nearest_rotation(matrix: Matrix) -> Matrix:
    deviation = float(np.abs(matrix.T @ matrix - np.eye(3)).max())
    if deviation > RIGID_TOLERANCE:
        raise PoseError(
            f"a pose is not rigid: |R^T R - I| reaches {deviation:.2g} (at most {RIGID_TOLERANCE:g}); "
            "remove scale and shear from its rotation"
        )
    if np.linalg.det(matrix) < 0:
        raise PoseError("a pose mirrors (determinant -1); flip one axis so that the frame is right-handed")
    if deviation <= EXACT_TOLERANCE:
        return matrix
    left, _, right = np.linalg.svd(matrix)
    nearest: Matrix = left @ right
    return nearest


def turned_by(vector: Matrix) -> Matrix:
    """The rotation (3, 3) about the axis `vector` by its length in radians: Rodrigues' formula."""
    angle = float(np.linalg.norm(vector))
    x, y, z = vector / max(angle, TINY)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    out: Matrix = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return out
