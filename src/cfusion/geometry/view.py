"""A depth map with its camera and pose, and several depth maps in one view."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cfusion.arrays import (
    Counts,
    DepthMap,
    DepthStack,
    Image,
    MaskStack,
    WeightMap,
    WeightStack,
    adopt,
    chunks,
    on_host,
)
from cfusion.errors import InputError, ShapeError
from cfusion.geometry.camera import Camera
from cfusion.geometry.pose import Pose
from cfusion.kernels.contract import Memory

COUNTS = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32")  # integer types of sensors and codecs
INTEGERS = (*COUNTS, "int64", "uint64")  # what NumPy makes of `(1000 * depth).astype(int)`
LARGEST = 1e15
WEIGHTS = float(np.float32(1e-12)), float(np.float32(1e12))  # the largest: beyond, sums and steps exceed float32


@dataclass(frozen=True, eq=False)
class View:
    """A depth map with its camera and pose.

    Args:
        depth: (H, W) z along the optical axis, in any unit of length, positive; NaN where unknown. Floats of any
            array library; stored as float32.
        camera: its camera, of the same shape.
        pose: world_from_camera, its translation in the unit of depth.
        image: (H, W) or (H, W, 3) from 0 (black) to 1 (white), or None.
        confidence: (H, W) weight of each depth, at least 0, without unit, the largest between 1e-12 and 1e12; 0: not
            used; None: equal weights. Only ratios count. It is not the confidence of a `Result`.
        name: shown to the user.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Pinhole, Pose, View
        >>> camera = Pinhole(50, 50, 31.5, 23.5, 64, 48)
        >>> view = View(np.full((48, 64), 2.0), camera, Pose.identity(), name="first")
        >>> view.shape, view.depth.dtype.name
        ((48, 64), 'float32')
    """

    depth: DepthMap  # (H, W), z along the axis, NaN where unknown
    camera: Camera
    pose: Pose  # world_from_camera
    image: Image | None = None  # (H, W) or (H, W, 3) in [0, 1]
    confidence: WeightMap | None = None  # (H, W), >= 0, zero where depth is unknown
    name: str = ""

    if TYPE_CHECKING:  # accepts anything array-like, stores float32

        def __init__(
            self,
            depth: ArrayLike,
            camera: Camera,
            pose: Pose,
            image: ArrayLike | None = None,
            confidence: ArrayLike | None = None,
            name: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.camera, Camera):
            raise InputError(
                f"camera is {type(self.camera).__name__}; make one with Pinhole(fx, fy, cx, cy, width, height)"
            )
        if not isinstance(self.pose, Pose):
            raise InputError(f"pose is {type(self.pose).__name__}; make one with Pose.from_matrix(world_from_camera)")
        depth = np.array(_lengths(self.depth, "depth", INTEGERS))
        if depth.shape != self.camera.shape:
            raise ShapeError(f"depth is {depth.shape}, its camera sees {self.camera.shape}")
        _refuse_extremes(depth)
        unusable = int(np.count_nonzero(depth <= 0))
        if unusable:
            raise InputError(f"depth is zero or negative at {unusable} of {depth.size} pixels; use NaN for unknown")
        _store(self, "depth", depth)
        if self.image is not None:
            _store(self, "image", _checked_image(self.image, depth.shape))
        if self.confidence is not None:
            weights = _checked_weights(self.confidence, depth, "confidence")
            _store(self, "confidence", np.array(weights))

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W)."""
        return self.camera.shape

    def __repr__(self) -> str:
        """One line instead of all pixels."""
        known = self.depth[~np.isnan(self.depth)]
        depths = f"depth {known.min():.3g} to {known.max():.3g}, " if known.size else ""
        what = f"{self.shape[1]} x {self.shape[0]}, known {known.size / self.depth.size:.1%}, {depths}"
        return f"View({self.name!r}, {what}{type(self.camera).__name__})"


@dataclass(frozen=True, eq=False)
class Stack:
    """K depth maps on one pixel grid: pixel (i, j) of all of them sees the same point.

    Association turns views into a stack; everything after that needs the stack alone. Depths may have any sign (a
    height map may lie below zero). Arrays of the right type are not copied, and stay on the GPU if they are there:
    CuPy's, or those of any library with DLPack.

    Args:
        depths: (K, H, W) in one unit of length, NaN where unknown.
        weights: (K, H, W) >= 0, no unit, the largest between 1e-12 and 1e12; None: 1 where a depth is known.
        camera: the camera of the view, for points and normals; or None.
        image: (H, W) or (H, W, 3) from 0 to 1, or None.
        filled: (K, H, W) True where a depth was interpolated instead of measured, or None.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Stack
        >>> surveys = np.array([[[1.0, 2.0]], [[1.2, np.nan]]])  # two maps of 1 x 2 pixels
        >>> Stack(surveys).count.tolist()
        [[2, 1]]
    """

    depths: DepthStack  # (K, H, W), NaN where unknown
    weights: WeightStack | None = None  # (K, H, W), >= 0; None = 1 where depth is known
    camera: Camera | None = None
    image: Image | None = None  # of the reference
    filled: MaskStack | None = None  # (K, H, W) interpolated instead of measured

    if TYPE_CHECKING:  # as in View

        def __init__(
            self,
            depths: ArrayLike,
            weights: ArrayLike | None = None,
            camera: Camera | None = None,
            image: ArrayLike | None = None,
            filled: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        depths = _lengths(self.depths, "the stack", COUNTS)
        if depths.ndim != 3:
            raise ShapeError(f"a stack is {depths.shape}; give (K, H, W), for a single map depth[None]")
        if depths.shape[0] == 0:
            raise InputError("the stack holds no depth maps; give at least one")
        if depths.size == 0:
            raise ShapeError(f"the stack is {depths.shape}; give maps with pixels")
        _refuse_extremes(depths)
        if all(bool(np.isnan(depth).all()) for depth in chunks(depths)):
            raise InputError("every depth in the stack is NaN; give maps with known depths")
        _store(self, "depths", depths)
        if self.weights is not None:
            _store(self, "weights", _checked_weights(self.weights, depths, "weights"))
        if self.camera is not None and not isinstance(self.camera, Camera):
            raise InputError(f"camera is {type(self.camera).__name__}; give a Pinhole or another camera, or none")
        if self.camera is not None and self.camera.shape != self.shape:
            raise ShapeError(f"the depth maps are {self.shape}, their camera sees {self.camera.shape}")
        if self.image is not None:
            _store(self, "image", _checked_image(self.image, self.shape))
        if self.filled is not None:
            filled = adopt(self.filled, np.bool_, "filled")
            if filled.shape != depths.shape:
                raise ShapeError(f"filled is {filled.shape}, the depths are {depths.shape}; give the same shape")
            _store(self, "filled", filled)

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W)."""
        return self.depths.shape[1], self.depths.shape[2]

    @property
    def views(self) -> int:
        """K, the number of depth maps."""
        return len(self.depths)

    def __repr__(self) -> str:
        """One line instead of all pixels."""
        weighed = "" if self.weights is None else ", weighed"
        return f"Stack({self.views} maps, {self.shape[1]} x {self.shape[0]}{weighed})"

    @property
    def count(self) -> Counts:
        """The number (H, W) of observations of positive weight per pixel."""
        count = np.zeros_like(self.depths[0], dtype=np.int32)
        for seen in self.seen():
            count += seen.sum(axis=0)
        return count

    def seen(self) -> Iterator[MaskStack]:
        """Masks of known depths of positive weight: map by map, (1, H, W), on the host; all, (K, H, W), on a GPU."""
        if self.weights is None:
            return (~np.isnan(depths) for depths in chunks(self.depths))
        return (weights > 0 for weights in chunks(self.weights))

    @property
    def on_host(self) -> bool:
        """Whether its maps are NumPy arrays."""
        return on_host(self.depths)

    @classmethod
    def unchecked(
        cls,
        depths: DepthStack,
        weights: WeightStack | None,
        camera: Camera | None,
        image: Image | None,
        filled: MaskStack | None = None,
    ) -> "Stack":
        """A stack of arrays that are known to be valid, such as those of an association; they are not checked."""
        stack = object.__new__(cls)
        for name, array in (("depths", depths), ("weights", weights), ("filled", filled)):
            if array is None:
                object.__setattr__(stack, name, None)
            else:
                _store(stack, name, array)
        object.__setattr__(stack, "camera", camera)
        object.__setattr__(stack, "image", image)
        return stack

    def weighed(self, weights: WeightStack) -> "Stack":
        """The same stack with valid weights: float32, >= 0, zero where depth is unknown."""
        weighed = copy(self)
        _store(weighed, "weights", weights)
        return weighed

    def with_depths(self, depths: DepthStack, weights: WeightStack | None) -> "Stack":
        """The same stack with some depths, or views, removed; the `filled` mask is dropped."""
        return Stack.unchecked(depths, weights, self.camera, self.image)

    def in_memory_of(self, backend: Memory) -> "Stack":
        """The stack in a backend's memory; itself if it is there already."""
        if backend.arrays is np:
            if not self.on_host:
                raise InputError(f"the stack is on a GPU, backend {backend.NAME!r} is not; pass backend='cuda'")
            return self
        return self.moved(lambda array: backend.to_device(array, array.dtype)) if self.on_host else self

    def moved(self, move: Any) -> "Stack":
        """The same stack with each map moved by `move`, without checks."""
        moved = copy(self)
        for name in ("depths", "weights", "filled"):
            array = getattr(self, name)
            object.__setattr__(moved, name, None if array is None else move(array))
        return moved


def _store(owner: View | Stack, name: str, array: NDArray[np.generic]) -> None:
    """Set a field of a frozen dataclass to a read-only view of the array."""
    window = array.view()
    if on_host(array):
        window.setflags(write=False)
    object.__setattr__(owner, name, window)


def _maps(array: NDArray[np.float32]) -> Any:
    """The maps of a map or stack, one by one."""
    return chunks(array.reshape(-1, *array.shape[-2:]))


def _lengths(given: ArrayLike, what: str, refused: tuple[str, ...]) -> NDArray[np.float32]:
    """Depths as float32; integers are refused, as only the caller knows their unit."""
    kind = getattr(given, "dtype", None)
    if getattr(kind, "name", str(kind).removeprefix("torch.")) in refused:  # NumPy's name leaves the byte order out
        raise InputError(f"{what} is {kind}, which are counts; give lengths, e.g. depth / 1000.0 for millimetres")
    lengths: NDArray[np.float32] = adopt(given, np.float32, what)
    return lengths


def _refuse_extremes(depth: NDArray[np.float32]) -> None:
    """Refuse infinite depths, and units in which sums of squares exceed float32."""
    if depth.size == 0:
        return
    largest = max(float(np.nan_to_num(abs(each), nan=0.0, posinf=np.inf).max()) for each in _maps(depth))
    if np.isinf(largest):
        infinite = sum(int(np.isinf(each).sum()) for each in _maps(depth))
        raise InputError(f"depth is infinite at {infinite} of {depth.size} pixels; use NaN for unknown")
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise InputError(f"depth reaches {largest:.2g}; choose a unit in which it lies between 1e-15 and 1e15")


def _checked_weights(given: ArrayLike, depth: NDArray[np.float32], what: str) -> NDArray[np.float32]:
    """Weights as float32, finite, >= 0, zero where depth is unknown; copied only if that changes them."""
    weights = adopt(given, np.float32, what, masked=0.0)
    if weights.shape != depth.shape:
        raise ShapeError(f"{what} is {weights.shape}, depth is {depth.shape}; give the same shape")
    bad, stray, largest = 0, False, 0.0
    for weight, known in zip(_maps(weights), (~np.isnan(each) for each in _maps(depth)), strict=True):
        bad += int((~(np.isfinite(weight) & (weight >= 0)) & known).sum())
        stray = stray or bool(((weight != 0) & ~known).any())
        largest = max(largest, float(np.where(known, weight, 0).max()) if weight.size else 0.0)
    if bad:
        raise InputError(f"{what} is negative or not finite at {bad} of {weights.size} pixels; use 0 for no weight")
    if largest > 0 and not WEIGHTS[0] <= largest <= WEIGHTS[1]:
        raise InputError(
            f"{what} reaches {largest:.2g}; scale it to lie between 1e-12 and 1e12, as only ratios count, or give 0"
        )
    return np.where(np.isnan(depth), np.float32(0), weights) if stray else weights


def _checked_image(given: ArrayLike, shape: tuple[int, ...]) -> Image:
    """An image as float32 with the shape of its depth map, in [0, 1]."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError("image has masked pixels; fill them, or leave the image out")
    try:
        image = np.asarray(given)
    except ValueError:
        raise InputError("image has rows of different lengths; give an array (H, W) or (H, W, 3)") from None
    if image.dtype.kind not in "fiu":
        raise InputError(f"image is {image.dtype}; give real numbers in [0, 1]")
    if image.shape not in (shape, (*shape, 3)):
        raise ShapeError(f"image is {image.shape}, its depth map is {shape}; resize one, or convert to grey or RGB")
    if image.dtype.kind in "iu":
        raise InputError(f"image is {image.dtype}; divide by its largest value to get floats in [0, 1]")
    image = image.astype(np.float32)
    if not (image.min() >= 0 and image.max() <= 1):
        raise InputError(f"image runs from {image.min():g} to {image.max():g}; scale it to [0, 1]")
    return image
