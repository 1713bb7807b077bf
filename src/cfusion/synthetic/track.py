"""The paper's camera tracks, and bundles of noisy views along them."""

from collections.abc import Sequence
from math import isfinite, pi, sin
from types import UnionType

import numpy as np
from numpy.random import Generator

from cfusion.arrays import DepthMap, is_number, is_whole
from cfusion.errors import InputError
from cfusion.geometry import Camera, Pinhole, Pose, View
from cfusion.synthetic.city_block import city
from cfusion.synthetic.noise import Noise
from cfusion.synthetic.render import RayCaster
from cfusion.synthetic.scene import Scene

PAPER_CAMERA = Pinhole(576.0, 576.0, 320.0, 240.0, 640, 480)
ORBIT_VIEWS = 72
ORBIT_DISTANCE = 3.0  # model units
ORBIT_REFERENCE = 35  # the paper's view 36, counted from 0
MOST_VIEWS, MOST_HEIGHT = 10_000, 1e9
ORBIT_BASELINE = ORBIT_DISTANCE * sin(pi / ORBIT_VIEWS)  # converts the objects' depths to disparities


def orbit(count: int = ORBIT_VIEWS, distance: float = ORBIT_DISTANCE) -> list[Pose]:
    """Poses around the vertical axis y, all looking at the origin: eye = distance (sin t, 0, cos t)."""
    poses = []
    for t in 2 * pi * np.arange(count) / count:
        backward = np.array([np.sin(t), 0.0, np.cos(t)])
        right, down = np.array([np.cos(t), 0.0, -np.sin(t)]), np.array([0.0, -1.0, 0.0])
        poses.append(Pose(np.column_stack([right, down, -backward]), distance * backward))
    return poses


def nadir(count: int = 11, spacing: float = 4.0, height: float = 300.0) -> list[Pose]:
    """Poses looking straight down (world z is up, image x along world x), along x about the origin."""
    looking_down = np.diag([1.0, -1.0, -1.0])
    along = spacing * (np.arange(count) - 0.5 * (count - 1))
    return [Pose(looking_down, np.array([x, 0.0, height])) for x in along]


def bundle(
    scene: Scene,
    poses: Sequence[Pose],
    camera: Camera,
    noise: Noise | None,
    rng: Generator,
    *,
    image: bool = True,
) -> tuple[list[View], DepthMap]:
    """Noisy views of a scene, and the true depth (H, W) of the middle one."""
    if not poses:
        raise InputError("no poses were given; give at least one")
    _require("scene", scene, Scene, "a scene, as of blob(), room() or load_mesh()")
    _require("camera", camera, Camera, "a camera, such as a Pinhole")
    _require("noise", noise, Noise | None, "a noise, such as Laplace(0.6), or None")
    _require("rng", rng, Generator, "a generator, such as numpy.random.default_rng(0)")
    caster = RayCaster(scene)
    views: list[View] = []
    truths: list[DepthMap] = []
    for k, pose in enumerate(poses):
        depth, picture = caster.photograph(camera, pose) if image else (caster.render(camera, pose), None)
        observed = depth if noise is None else noise(depth, rng)
        views.append(View(observed, camera, pose, picture, name=f"{scene.name}-{k:02d}"))
        truths.append(depth)
    return views, truths[len(truths) // 2]


def object_bundle(
    scene: Scene,
    noise: Noise | None,
    rng: Generator,
    views: int = 11,
    spacing: int = 1,
    camera: Camera = PAPER_CAMERA,
    *,
    image: bool = True,
) -> tuple[list[View], DepthMap]:
    """Neighbouring views of the paper's orbit with view 36 of 72 in the middle, and its true depth."""
    _require_views(views)
    if not is_whole(spacing, -ORBIT_VIEWS, ORBIT_VIEWS):
        raise InputError(f"spacing is {spacing!r}; give a whole number of steps of the orbit, which has {ORBIT_VIEWS}")
    around = orbit()
    chosen = [ORBIT_REFERENCE + spacing * (k - views // 2) for k in range(views)]
    return bundle(scene, [around[k % ORBIT_VIEWS] for k in chosen], camera, noise, rng, image=image)


def city_bundle(
    scene: Scene | None,
    noise: Noise | None,
    rng: Generator,
    views: int = 11,
    spacing: float = 4.0,
    camera: Camera = PAPER_CAMERA,
    *,
    height: float = 300.0,
    image: bool = True,
) -> tuple[list[View], DepthMap]:
    """Views of a city (None: the built-in one) from straight above, and the true depth of the middle one."""
    _require_views(views)
    if not (is_number(spacing) and is_number(height) and isfinite(spacing) and 0 < height < MOST_HEIGHT):
        raise InputError(f"spacing is {spacing!r}, height {height!r}; give two lengths, the second positive")
    seen = city() if scene is None else scene
    return bundle(seen, nadir(views, spacing, height), camera, noise, rng, image=image)


def _require_views(views: object) -> None:
    if not is_whole(views, 1, MOST_VIEWS):
        raise InputError(f"views is {views!r}; give a whole number from 1 to {MOST_VIEWS}")


def _require(name: str, value: object, kind: type | UnionType, expected: str) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{name} is of type {type(value).__name__}; give {expected}")
