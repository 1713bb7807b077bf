"""A small scene with exact depths, laid down in every format that can be written back."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from cfusion import Pinhole, Pose, View
from cfusion.cli.main import main
from cfusion.datasets import write_views
from cfusion.io.codecs.png import Encoding, write_image, write_png

CAMERA = Pinhole(40.0, 40.0, 15.5, 11.5, 32, 24)
QUICK = ("--method", "median", "--backend", "numpy", "--quiet")
NORMAL, OFFSET = np.array([0.1, 0.05, -1.0]), -2.0  # the wall NORMAL . x = OFFSET


def pose_at(x: float, turn: float = 0.0) -> Pose:
    """A camera moved along x and turned about y."""
    c, s = np.cos(turn), np.sin(turn)
    return Pose(np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]), np.array([x, 0.0, 0.0]))


def wall_depth(pose: Pose, camera: Pinhole = CAMERA) -> np.ndarray:
    """The exact depth of the wall, NaN where it lies behind."""
    columns, rows = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    x, y = (columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy
    rays = pose.turn(np.stack([x, y, np.ones_like(x)], -1))
    depth = (OFFSET - NORMAL @ pose.translation) / (rays @ NORMAL)
    return np.where(depth > 0, depth, np.nan).astype(np.float32)


def wall_view(number: int, noise: float = 0.01, x: float | None = None, turn: float = 0.0) -> View:
    """The wall from a step further along x, with noise of its own."""
    pose = pose_at(0.05 * number if x is None else x, turn)
    rng = np.random.default_rng(number)
    depth = wall_depth(pose) + rng.normal(0, noise, CAMERA.shape).astype(np.float32)
    image = np.full((*CAMERA.shape, 3), (0.2, 0.4, 0.6), np.float32)
    return View(depth, CAMERA, pose, image, name=f"view {number}")


def walk(count: int = 5) -> list[View]:
    return [wall_view(number) for number in range(count)]


def run(*arguments: object) -> int:
    return main(["scene", *(str(argument) for argument in arguments)])


def _poses(views: list[View], folder: Path, name: Callable[[int], str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, view in enumerate(views):
        np.savetxt(folder / name(number), view.pose.matrix())


def _frames(views: list[View], scale: float, depth: Callable[[int], Path], colour: Callable[[int], Path]) -> None:
    for number, view in enumerate(views):
        for file in (depth(number), colour(number)):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_png(depth(number), view.depth, Encoding(scale))
        assert view.image is not None
        write_image(colour(number), view.image)


def lay(views: list[View], folder: Path, format: str) -> Path:
    """Views in any format that can be written back."""
    k = f"{CAMERA.fx} 0 {CAMERA.cx}\n0 {CAMERA.fy} {CAMERA.cy}\n0 0 1\n"
    if format == "7-scenes":
        _poses(views, folder, lambda n: f"frame-{n:06d}.pose.txt")
        _frames(
            views, 0.001, lambda n: folder / f"frame-{n:06d}.depth.png", lambda n: folder / f"frame-{n:06d}.color.png"
        )
        (folder / "camera-intrinsics.txt").write_text(k)
    elif format == "scannet":
        _poses(views, folder / "pose", lambda n: f"{n}.txt")
        _frames(views, 0.001, lambda n: folder / "depth" / f"{n}.png", lambda n: folder / "color" / f"{n}.png")
        (folder / "intrinsic").mkdir()
        (folder / "intrinsic" / "intrinsic_depth.txt").write_text(k)
    elif format == "replica":
        results = folder / "results"
        _frames(views, 1 / 6553.5, lambda n: results / f"depth{n:06d}.png", lambda n: results / f"frame{n:06d}.png")
        poses = [" ".join(map(repr, view.pose.matrix().ravel().tolist())) for view in views]
        (folder / "traj.txt").write_text("\n".join([*poses, ""]))
        camera = '{"camera": {"fx": 40, "fy": 40, "cx": 15.5, "cy": 11.5, "scale": 6553.5}}'
        (folder / "cam_params.json").write_text(camera)
    elif format == "tum":
        write_views(views, folder, "tum")
    else:
        write_views(views, folder, format)
    return folder


FORMATS = ("bundle", "nerfstudio", "colmap", "openmvs", "mvsnet", "7-scenes", "tum", "replica", "scannet", "open3d")


def short_of_memory() -> None:
    """Let this process grow no more."""
    import resource

    import psutil

    now = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (now + (24 << 20), -1))  # to talk, not to work


def disk_is_full() -> None:
    """Let this process write no file larger than a record."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, -1))


def never_ends() -> None:
    """Let this process take tasks and not end them."""
    import threading

    from cfusion.scene import cluster

    cluster.work = lambda job, tasks: threading.Event().wait()  # type: ignore[assignment, return-value]
