"""Textured scenes whose disparity, depth and motion are known in closed form."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from cfusion import Pinhole, Pose
from cfusion.frontends.rig import Rig, StereoFrame

Floats = NDArray[np.float64]
Texture = Callable[[Floats], NDArray[np.float32]]  # points (..., n) to grey values in [0, 1]
CAMERA = Pinhole(fx=200.0, fy=200.0, cx=119.5, cy=59.5, width=240, height=120)
RIG = Rig(CAMERA, baseline=0.5)
WALLS = ((1, 1.5), (1, -3.0), (0, -3.0), (0, 3.5), (2, 14.0))  # axis and place: ground, ceiling, sides, end


def waves(seed: int, dimensions: int, longest: float, shortest: float, count: int = 60) -> Texture:
    """A band-limited random texture: a sum of waves, so that it can be read between pixels without error."""
    rng = np.random.default_rng(seed)
    length = np.exp(rng.uniform(np.log(shortest), np.log(longest), count))
    direction = rng.normal(size=(count, dimensions))
    direction *= (2 * np.pi / length / np.linalg.norm(direction, axis=1))[:, None]
    phase = rng.uniform(0, 2 * np.pi, count)

    def texture(points: Floats) -> NDArray[np.float32]:
        total = sum(np.cos(points @ wave + shift) for wave, shift in zip(direction, phase, strict=True))
        return np.clip(0.5 + 0.5 * np.asarray(total) / np.sqrt(2 * count), 0, 1).astype(np.float32)

    return texture


def pixel_grid(height: int, width: int) -> Floats:
    """(H, W, 2): u, v."""
    return np.stack(np.meshgrid(np.arange(width, dtype=float), np.arange(height, dtype=float)), axis=-1)


def slanted_pair(height: int = 96, width: int = 200) -> tuple[StereoFrame, Floats]:
    """A ground plane: disparity grows from row to row; right pixel u sees left pixel u + d."""
    texture = waves(0, 2, 30.0, 4.0)
    grid = pixel_grid(height, width)
    disparity = 6 + 0.15 * grid[..., 1]
    seen = grid.copy()
    seen[..., 0] += disparity
    return StereoFrame(texture(grid), texture(seen)), disparity


def step_pair(near: float = 18.0, far: float = 6.0) -> tuple[StereoFrame, Floats]:
    """A board in front of a wall: disparity of the left image; left of the board, the right camera cannot see."""
    height, width, first, last = 96, 200, 90, 150
    front, back = waves(1, 2, 30.0, 4.0), waves(2, 2, 30.0, 4.0)
    grid = pixel_grid(height, width)

    def on_board(u: Floats) -> NDArray[np.bool_]:
        return (u >= first) & (u < last)

    ahead, behind = grid + np.array([near, 0]), grid + np.array([far, 0])
    left = np.where(on_board(grid[..., 0]), front(grid), back(grid))
    right = np.where(on_board(ahead[..., 0]), front(ahead), back(behind))
    return StereoFrame(left, right), np.where(on_board(grid[..., 0]), near, far)


def corridor(world_from_camera: Pose) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Image and depth (H, W) of a textured corridor, seen from inside."""
    texture = waves(3, 3, 2.0, 0.25)
    rays = CAMERA.back_project(np.ones(CAMERA.shape))
    directions, origin = world_from_camera.turn(rays), world_from_camera.translation
    depth = np.full(CAMERA.shape, np.inf)
    for axis, place in WALLS:
        with np.errstate(divide="ignore"):
            z = (place - origin[axis]) / directions[..., axis]
        depth = np.where((z > 0) & (z < depth), z, depth)
    image = texture(origin + directions * depth[..., None])
    return image, depth.astype(np.float32)


def corridor_frame(world_from_camera: Pose) -> StereoFrame:
    """The corridor as the rig sees it."""
    to_the_right = Pose(np.eye(3), np.array([RIG.baseline, 0.0, 0.0]))
    return StereoFrame(corridor(world_from_camera)[0], corridor(world_from_camera @ to_the_right)[0])


def turned(degrees: tuple[float, float, float], translation: tuple[float, float, float]) -> Pose:
    """A pose turned about x, y, z in this order."""
    rotation = np.eye(3)
    for axis, angle in enumerate(np.radians(degrees)):
        one, other = (axis + 1) % 3, (axis + 2) % 3
        turn = np.eye(3)
        turn[one, one] = turn[other, other] = np.cos(angle)
        turn[other, one], turn[one, other] = np.sin(angle), -np.sin(angle)
        rotation = turn @ rotation
    return Pose(rotation, np.array(translation))


MOVED = turned((0.3, -1.2, 0.4), (0.05, -0.02, 0.6))  # one frame of a car that turns


def angle_degrees(rotation: Floats) -> float:
    """The angle of a rotation, exact for small ones too."""
    skew = rotation - rotation.T
    sine = np.linalg.norm([skew[2, 1], skew[0, 2], skew[1, 0]]) / 2
    return float(np.degrees(np.arctan2(sine, (np.trace(rotation) - 1) / 2)))


@pytest.fixture
def kitti() -> Path:
    """The training folder of KITTI 2012."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("CFUSION_DATA", beside)) / "kitti2012" / "training"
    if not folder.is_dir():
        pytest.skip("needs kitti2012 in the folder that CFUSION_DATA names")
    return folder


@pytest.fixture(scope="session")
def scenes() -> SimpleNamespace:
    """Everything above, by name."""
    return SimpleNamespace(
        camera=CAMERA,
        rig=RIG,
        moved=MOVED,
        waves=waves,
        pixel_grid=pixel_grid,
        slanted_pair=slanted_pair,
        step_pair=step_pair,
        corridor=corridor,
        corridor_frame=corridor_frame,
        turned=turned,
        angle_degrees=angle_degrees,
    )
