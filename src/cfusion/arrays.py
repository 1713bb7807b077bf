"""Array aliases with their shapes, and the one policy on types.

Maps and images are float32 (what sensors give, what kernels read), cameras, poses and points float64.
Unknown depth is NaN; weights and confidences are >= 0, and zero where depth is unknown.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

DepthMap: TypeAlias = NDArray[np.float32]  # (H, W), z along the optical axis, NaN = unknown
DepthStack: TypeAlias = NDArray[np.float32]  # (K, H, W), registered depth maps
WeightMap: TypeAlias = NDArray[np.float32]  # (H, W), >= 0
WeightStack: TypeAlias = NDArray[np.float32]  # (K, H, W), >= 0, zero where depth is unknown
Normals: TypeAlias = NDArray[np.float32]  # (H, W, 3), unit, towards the camera, NaN = unknown
Image: TypeAlias = NDArray[np.float32]  # (H, W) or (H, W, 3), 0 = black, 1 = white
Mask: TypeAlias = NDArray[np.bool_]  # (H, W)
MaskStack: TypeAlias = NDArray[np.bool_]  # (K, H, W)
Counts: TypeAlias = NDArray[np.int32]  # (H, W)
Points: TypeAlias = NDArray[np.float64]  # (..., 3), in one frame and the unit of depth
Coordinates: TypeAlias = NDArray[np.float64]  # (...), pixels or units of depth
Matrix: TypeAlias = NDArray[np.float64]  # 3x3, 3x4 or 4x4
