"""What users write, for the type checker alone: what runs is accepted."""

import numpy as np
from numpy.typing import NDArray

import cfusion


def fused(depth64: NDArray[np.float64], depth32: NDArray[np.float32], trust: NDArray[np.float64]) -> cfusion.Result:
    """Maps in double and in single precision."""
    camera = cfusion.Pinhole.from_matrix(np.eye(3), 64, 48)
    pose = cfusion.Pose.from_matrix(np.eye(4))
    views = [
        cfusion.View(depth64, camera, pose, confidence=trust),
        cfusion.View(depth32, camera, pose, image=depth64 / depth64.max(), name="single"),
    ]
    result = cfusion.fuse(views, reference=0)
    kept: NDArray[np.float32] = views[0].depth
    assert cfusion.evaluate(result.depth, depth64).rmse >= 0 <= kept.size
    return cfusion.fuse_stack(cfusion.Stack(np.stack([depth64, depth64])), "l1", lam=0.5)
