"""Poses are a group of rigid motions."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cfusion.errors import PoseError, ShapeError
from cfusion.geometry import Pose

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
given = hypothesis.given

SEEDS = st.integers(0, 2**32 - 1)


def random_pose(rng: np.random.Generator) -> Pose:
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return Pose(rotation * np.sign(np.linalg.det(rotation)), rng.normal(size=3))


def close(a: Pose, b: Pose) -> bool:
    return bool(np.allclose(a.matrix(), b.matrix(), rtol=0, atol=1e-12))


@given(SEEDS)
def test_the_group_axioms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = (random_pose(rng) for _ in range(3))
    assert close((a @ b) @ c, a @ (b @ c))
    assert close(a @ a.inverse(), Pose.identity())
    assert close(a.inverse() @ a, Pose.identity())
    assert close(a @ Pose.identity(), a)
    assert close(Pose.identity() @ a, a)


@given(SEEDS)
def test_composition_is_application_in_turn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = random_pose(rng), random_pose(rng)
    points = rng.normal(size=(4, 5, 3))
    np.testing.assert_allclose((a @ b).apply(points), a.apply(b.apply(points)), atol=1e-12)
    homogeneous = np.append(points[0, 0], 1.0)
    np.testing.assert_allclose(a.apply(points[0, 0]), (a.matrix() @ homogeneous)[:3], atol=1e-12)


@given(SEEDS)
def test_distances_and_handedness_stay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pose = random_pose(rng)
    p = rng.normal(size=(3, 3))
    turned = pose.turn(p)
    np.testing.assert_allclose(turned @ turned.T, p @ p.T, atol=1e-12)
    assert np.linalg.det(turned) == pytest.approx(np.linalg.det(p), abs=1e-12)


@given(SEEDS)
def test_matrix_round_trip(seed: int) -> None:
    pose = random_pose(np.random.default_rng(seed))
    assert close(Pose.from_matrix(pose.matrix()), pose)
    assert close(Pose.from_matrix(pose.matrix()[:3]), pose)


def test_a_rounded_rotation_becomes_the_nearest_one() -> None:
    rng = np.random.default_rng(0)
    pose = random_pose(rng)
    rough = pose.matrix()
    rough[:3, :3] += rng.uniform(-1e-3, 1e-3, (3, 3))
    mended = Pose.from_matrix(rough).rotation
    np.testing.assert_allclose(mended.T @ mended, np.eye(3), atol=1e-14)
    offsets = [
        np.linalg.norm((random_small_turn(rng) @ mended) - rough[:3, :3]) for _ in range(200)
    ]  # no rotation nearby is nearer
    assert np.linalg.norm(mended - rough[:3, :3]) <= min(offsets)


def random_small_turn(rng: np.random.Generator) -> NDArray[Any]:
    x, y, z = rng.normal(scale=1e-3, size=3)
    turn, upper = np.linalg.qr(np.eye(3) + np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]))
    return turn * np.sign(np.diag(upper))


def test_an_exact_rotation_is_kept_bit_by_bit() -> None:
    rotation = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert (Pose(rotation, np.zeros(3)).rotation == rotation).all()


@pytest.mark.parametrize(
    ("rotation", "says"),
    [
        (1.01 * np.eye(3), "not rigid.*0.02.*scale"),
        (np.diag([1.0, 1.0, -1.0]), "mirrors"),
        (np.full((3, 3), np.nan), "not finite"),
        (np.zeros((3, 3)), "not rigid"),
        (np.eye(2), r"\(2, 2\)"),
    ],
)
def test_what_is_not_a_rotation_is_refused(rotation: NDArray[Any], says: str) -> None:
    with pytest.raises(PoseError, match=says):
        Pose(rotation, np.zeros(3))


def test_matrices_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(PoseError, match=r"a pose matrix is \(3, 3\); give 4x4 or 3x4"):
        Pose.from_matrix(np.eye(3))
    projective = np.eye(4)
    projective[3, 2] = 1.0
    with pytest.raises(PoseError, match=r"last row .* if it is stored by columns, give its transpose"):
        Pose.from_matrix(projective)  # or moved by (0, 0, 1), as OpenGL and ARKit lay matrices out
    with pytest.raises(PoseError, match=r"last row .*, expected \[0, 0, 0, 1\]$"):
        Pose.from_matrix(2 * np.eye(4))
    with pytest.raises(PoseError, match="not finite"):
        Pose(np.eye(3), np.array([0.0, np.inf, 0.0]))
    with pytest.raises(ShapeError, match=r"\(4, 2\)"):
        Pose.identity().apply(np.zeros((4, 2)))


def test_poses_are_frozen() -> None:
    given_rotation = np.eye(3)
    pose = Pose(given_rotation, np.zeros(3))
    given_rotation[0, 0] = 5.0
    assert pose.rotation[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        pose.translation[0] = 1.0


def test_rotation_and_translation_have_to_be_finite_both() -> None:
    for rotation, translation in ((np.eye(3), [np.nan, 0, 0]), (np.diag([1, np.inf, 1]), np.zeros(3))):
        with pytest.raises(PoseError, match="not finite"):
            Pose(rotation, np.array(translation))
