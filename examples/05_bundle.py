"""Write views as a bundle, read the bundle, fuse it, and write the result.

A bundle is a folder with one `bundle.json` and the depth maps it names (docs/conventions.md has every key):

    bundle.json   {"format": "cfusion-bundle", "version": 1, "unit": "metre", "reference": 1, "views": [...]}
    depth/        000.npy ...   z along the optical axis, NaN = unknown (or 16-bit .png with a scale, .pfm, .exr)
    image/        000.png ...   optional
    confidence/   000.npy ...   optional

The same on the command line:

    cfusion fuse FOLDER/bundle -o FOLDER/result

    python examples/05_bundle.py [width of the images, default 160] [FOLDER, default a temporary one]
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import cfusion
from cfusion.datasets import write_bundle, write_result
from cfusion.synthetic import Laplace, bundle, plane

width = int(sys.argv[1]) if len(sys.argv) > 1 else 160
folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp())

camera = cfusion.Pinhole(fx=width, fy=width, cx=width / 2, cy=3 * width / 8, width=width, height=3 * width // 4)
poses = [cfusion.Pose(np.eye(3), np.array([x, 0.0, 0.0])) for x in (-0.1, 0.0, 0.1)]
views, truth = bundle(plane(3.0, slope=(0.3, 0.1)), poses, camera, Laplace(0.1), np.random.default_rng(0))

write_bundle(views, folder / "bundle", reference=1)
read = cfusion.read(folder / "bundle")
unchanged = all(np.array_equal(a.depth, b.depth, equal_nan=True) for a, b in zip(views, read, strict=True))
print(f"{len(read)} views read, depth bit by bit as written: {unchanged}")

result = cfusion.fuse(read, reference=read.reference)
write_result(result, folder / "result", formats=("npy", "ply"), source=str(folder / "bundle"), unit=read.unit)
print(f"RMSE of one view {np.sqrt(np.nanmean((views[1].depth - truth) ** 2)):.4f}", end=", ")
print(f"fused {np.sqrt(np.nanmean((result.depth - truth) ** 2)):.4f}")

summary = json.loads((folder / "result" / "result.json").read_text())
print(f"{summary['method']}: {summary['status']}")
for path in sorted((folder / "result").iterdir()):
    print(f"  {path.name:16} {path.stat().st_size:8d} bytes")
