"""What others read of a scene: Open3D cloud, mesh and its own layout, OpenCV the maps; and formats of no layout."""

import json
from pathlib import Path

import numpy as np
import pytest
from walls import CAMERA, NORMAL, OFFSET, QUICK, lay, pose_at, run, walk, wall_depth

from cfusion import Pinhole, View, read
from cfusion.io.codecs.png import Encoding, write_image, write_png
from cfusion.scene.fused_view import read_fused

# Where the depth maps of a format are, and their counts per metre, as its own tools read them.
MAPS = {
    "7-scenes": ("*.depth.png", 1000.0),
    "scannet": ("depth/*.png", 1000.0),
    "open3d": ("depth/*.png", 1000.0),
    "tum": ("depth/*.png", 5000.0),
    "replica": ("results/depth*.png", 6553.5),
    "mvsnet": ("**/*.pfm", 1e6),
}


@pytest.mark.parametrize("format", MAPS)
def test_opencv_reads_the_maps(format: str, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
    data, out = lay(walk(3), tmp_path / "data", format), tmp_path / "out"
    options = ("--option", "camera=(40.0,40.0,15.5,11.5)") if format == "tum" else ()
    assert run(data, "-o", out, *QUICK, *options) == 0
    pattern, scale = MAPS[format]
    files = sorted(file for file in out.glob(pattern) if (data / file.relative_to(out)).is_file())
    found = cv2.imread(str(files[1]), cv2.IMREAD_UNCHANGED).astype(np.float64)
    fused = np.nan_to_num(read_fused(out / "cfusion", 1).depth)
    np.testing.assert_allclose(found / (1 if format == "mvsnet" else scale), fused, atol=0.51 / scale)


def test_open3d_reads_cloud_mesh_and_trajectory(tmp_path: Path) -> None:
    open3d = pytest.importorskip("open3d", reason="Open3D is not installed", exc_type=ImportError)
    pytest.importorskip("skimage", reason="a mesh needs scikit-image")
    data, out = lay(walk(4), tmp_path / "data", "open3d"), tmp_path / "out"
    assert run(data, "-o", out, *QUICK, "--mesh", "--voxel", 0.05) == 0
    cloud = open3d.io.read_point_cloud(str(out / "scene.ply"))
    points, normals = np.asarray(cloud.points), np.asarray(cloud.normals)
    off = np.abs(points @ NORMAL - OFFSET) / np.linalg.norm(NORMAL)
    assert len(points) > 500
    assert np.median(off) < 0.01
    assert cloud.has_colors()
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-4)
    for name in ("mesh.ply", "mesh.glb"):
        mesh = open3d.io.read_triangle_mesh(str(out / name))
        assert len(mesh.triangles) > 100
        assert mesh.has_vertex_colors()
    trajectory = next(out.glob("*.log"), None) or next(out.glob("*.json"))
    poses = open3d.io.read_pinhole_camera_trajectory(str(trajectory)).parameters
    for number, pose in enumerate(poses):
        expected = pose_at(0.05 * number).inverse().matrix()
        np.testing.assert_allclose(pose.extrinsic, expected, atol=1e-6)


def test_icl_nuim_is_written_back_in_its_own_counts(tmp_path: Path) -> None:
    camera = Pinhole(481.2, 480.0, 319.5, 239.5, 32, 24)
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "depth").mkdir(parents=True)
    lines = []
    for number in range(3):
        noise = np.random.default_rng(number).normal(0, 0.01, camera.shape)
        depth = (wall_depth(pose_at(0.01 * number), camera) + noise).astype(np.float32)
        write_png(data / "depth" / f"{number}.png", depth, Encoding(1 / 5000))
        lines.append(f"{number} {0.01 * number} 0 0 0 0 0 1")
    (data / "room.gt.freiburg").write_text("\n".join([*lines, ""]))
    assert run(data, "-o", out, *QUICK) == 0
    for number, view in enumerate(read(out, format="icl-nuim")):
        fused = read_fused(out / "cfusion", number)
        np.testing.assert_allclose(view.depth, fused.depth, atol=0.51 / 5000)
    assert (out / "room.gt.freiburg").read_bytes() == (data / "room.gt.freiburg").read_bytes()


def test_formats_without_a_layout_become_bundles(tmp_path: Path) -> None:
    """The arrays of a depth network in one file, and KITTI's disparities: nothing to give back but views."""
    views = walk(3)
    _npz(views, tmp_path / "network" / "scene.npz")
    sequence = _kitti_odometry(views, tmp_path / "kitti" / "sequences" / "00")
    for data in (tmp_path / "network" / "scene.npz", sequence):
        out = tmp_path / f"out-{data.stem}"
        assert run(data, "-o", out, *QUICK) == 0
        written = read(out, format="bundle")
        assert json.loads((out / "cfusion" / "scene.json").read_text())["written"] == "bundle"
        for number, view in enumerate(written):
            np.testing.assert_array_equal(view.depth, read_fused(out / "cfusion", number).depth)
            np.testing.assert_allclose(view.pose.matrix(), views[number].pose.matrix(), atol=1e-6)
        assert len(written) == 3
        assert written.unit == read(data).unit  # the network's is no metre


def test_eth3d_and_middlebury_become_bundles(tmp_path: Path) -> None:
    views = walk(3)
    pair = _middlebury(tmp_path / "middlebury")
    for data, format, poses in (
        (_eth3d(views, tmp_path / "eth3d"), "eth3d", [view.pose for view in views]),
        (pair, "middlebury", [pose_at(0.0), pose_at(0.05)]),
    ):
        out = tmp_path / f"out-{format}"
        assert run(data, "-o", out, *QUICK) == 0
        assert json.loads((out / "cfusion" / "scene.json").read_text())["format"] == format
        written = read(out, format="bundle")
        assert len(written) == len(poses)
        for number, (view, pose) in enumerate(zip(written, poses, strict=True)):
            np.testing.assert_array_equal(view.depth, read_fused(out / "cfusion", number).depth)
            np.testing.assert_allclose(view.pose.matrix(), pose.matrix(), atol=1e-6)
            assert np.nanmedian(np.abs(view.depth - wall_depth(pose, CAMERA))) < 0.01


def _eth3d(views: list[View], folder: Path) -> Path:
    maps = folder / "ground_truth_depth" / "dslr_images_undistorted"
    places = folder / "dslr_calibration_undistorted"
    for made in (maps, places):
        made.mkdir(parents=True)
    k = f"{CAMERA.fx} {CAMERA.fy} {CAMERA.cx + 0.5} {CAMERA.cy + 0.5}"
    (places / "cameras.txt").write_text(f"1 PINHOLE {CAMERA.width} {CAMERA.height} {k}\n")
    lines = []
    for number, view in enumerate(views):
        x, y, z = view.pose.inverse().translation
        lines.append(f"{number + 1} 1 0 0 0 {x} {y} {z} 1 dslr_images_undistorted/{number}.JPG\n\n")
        (maps / f"{number}.JPG").write_bytes(view.depth.astype("<f4").tobytes())
    (places / "images.txt").write_text("".join(lines))
    return folder


def _middlebury(folder: Path) -> Path:
    """A pair 0.05 apart with both disparities, from the bottom row up."""
    folder.mkdir()
    k = f"[{CAMERA.fx} 0 {CAMERA.cx}; 0 {CAMERA.fy} {CAMERA.cy}; 0 0 1]"
    (folder / "calib.txt").write_text(
        f"cam0={k}\ncam1={k}\ndoffs=0\nbaseline=0.05\nwidth={CAMERA.width}\nheight={CAMERA.height}\nndisp=8\n"
    )
    for number in (0, 1):
        disparity = 0.05 * CAMERA.fx / wall_depth(pose_at(0.05 * number), CAMERA)
        head = f"Pf\n{CAMERA.width} {CAMERA.height}\n-1.0\n".encode()
        (folder / f"disp{number}.pfm").write_bytes(head + disparity[::-1].astype("<f4").tobytes())
    return folder


def _npz(views: list[View], file: Path) -> None:
    file.parent.mkdir()
    k = np.array([[CAMERA.fx, 0, CAMERA.cx], [0, CAMERA.fy, CAMERA.cy], [0, 0, 1]], np.float32)
    camera_from_world = np.stack([view.pose.inverse().matrix()[:3] for view in views]).astype(np.float32)
    depth = np.stack([view.depth for view in views])
    np.savez(file, depth=depth, conf=np.ones_like(depth), extrinsics=camera_from_world, intrinsics=np.stack([k] * 3))


def _kitti_odometry(views: list[View], folder: Path) -> Path:
    for name in ("image_0", "disparity"):
        (folder / name).mkdir(parents=True)
    (folder.parent.parent / "poses").mkdir()
    row = f"{CAMERA.fx} 0 {CAMERA.cx} {{}} 0 {CAMERA.fy} {CAMERA.cy} 0 0 0 1 0"
    (folder / "calib.txt").write_text(f"P0: {row.format(0)}\nP1: {row.format(-0.5 * CAMERA.fx)}\n")
    (folder / "times.txt").write_text("0\n1\n2\n")
    poses = []
    for number, view in enumerate(views):
        np.save(folder / "disparity" / f"{number:06d}.npy", (0.5 * CAMERA.fx / view.depth).astype(np.float32))
        write_image(folder / "image_0" / f"{number:06d}.png", np.full(CAMERA.shape, 0.5, np.float32))
        poses.append(" ".join(map(repr, view.pose.matrix()[:3].ravel().tolist())))
    (folder.parent.parent / "poses" / "00.txt").write_text("\n".join([*poses, ""]))
    return folder
