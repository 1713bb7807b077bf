"""The network of Zbontar and LeCun (2016), fast architecture, with the weights of the package `mccnn` (CNES).

Five 3 x 3 convolutions compute 64 features of the 11 x 11 pixels around each pixel; two pixels are similar if their
unit features have a large inner product. The weights were trained on Middlebury 2014; this project contains none.
"""

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.errors import FileError, MissingDependency, optional_module
from cfusion.frontends.mc_cnn.onnx_file import tensors_of
from cfusion.kernels.stereo import Layer, Stage

Features = NDArray[np.float32]  # (C, H, W), unit length along C
WEIGHTS = "mc_cnn_fast_int8_excl_01.onnx"  # trained with 8-bit layers; better than the float weights on Middlebury
RADIUS = 5  # pixels that five 3 x 3 convolutions remove on each side
INSTALL = "mc-cnn needs its weights and onnxruntime: pip install 'cfusion[mccnn]'"


def features(image: Image) -> Features:
    """Unit features (64, H, W) of a grey image (H, W), invariant to its mean and contrast."""
    session = _session(str(weights_file()))
    found: Features = session.run(None, {"input": padded(image)})[0]
    return found


def padded(image: Image) -> Image:
    """The padded input (H + 10, W + 10) of the network."""
    return np.pad(normed(image), RADIUS, mode="edge")


def normed(image: Image) -> Image:
    """An image (H, W) minus its mean, over its standard deviation; zero if it is flat."""
    plane = np.asarray(image, np.float32)
    spread = float(plane.std())
    return np.asarray((plane - plane.mean()) / (spread if spread > 0 else 1.0), np.float32)


def weights_file() -> Path:
    """The weights in the package `mccnn`, which is located without importing it, so that none of its code runs."""
    try:
        place = importlib.util.find_spec("mc_cnn")
    except ValueError:
        place = None
    folders = [] if place is None else list(place.submodule_search_locations or [])
    for folder in folders:
        file = Path(folder) / "weights" / WEIGHTS
        if file.is_file():
            return file
    raise MissingDependency(INSTALL if not folders else f"mccnn holds no {WEIGHTS}: pip install 'mccnn>=1.4.1'")


def require_network() -> None:
    """Raise before other work if the network's weights or libraries are missing."""
    weights_file()
    _onnxruntime()


@lru_cache(1)
def layers() -> tuple[Layer, ...]:
    """The parameters of the network: two float layers, three byte layers."""
    file = weights_file()
    found: dict[str, Any] = tensors_of(file)
    try:
        return _layers(found)
    except KeyError as missing:
        raise FileError(f"{file} holds no {missing}; pip install 'mccnn>=1.4.1,<2'") from missing


def _layers(found: dict[str, Any]) -> tuple[Layer, ...]:
    ones, out = np.ones(64, np.float32), []
    for number, stage in ((0, Stage.PLAIN), (2, Stage.TO_BYTES)):
        weights, bias = found[f"conv_blocks.{number}.weight"], found[f"conv_blocks.{number}.bias"]
        out.append(Layer(_as_taps(weights), bias, ones, stage, 1.0, float(found["relu_1_scale"])))
    for number, given in ((4, 1), (6, 2), (8, 3)):
        name, step = f"conv_blocks.{number}", found[f"conv2d_{given + 1}_scale"]
        weights, bias = found[f"{name}.weight_quantized"], found[f"{name}.bias_quantized"]
        factor = found[f"relu_{given}_scale"] * found[f"{name}.weight_scale"] / step
        last = number == 8
        next_step = 1.0 if last else float(found[f"relu_{given + 1}_scale"])
        stage = Stage.LAST if last else Stage.BYTES
        out.append(Layer(_as_taps(weights), bias.astype(np.float32), factor, stage, float(step), next_step))
    return tuple(out)


def _as_taps(weights: Features) -> Features:
    """Weights (64, planes, 3, 3) as (planes, 9, 64)."""
    planes = weights.shape[1]
    return np.ascontiguousarray(weights.transpose(1, 2, 3, 0).reshape(planes, 9, -1), np.float32)


@lru_cache(1)
def _session(file: str) -> Any:
    """The network, on the GPU if onnxruntime supports one."""
    runtime = _onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # no warning about a missing GPU
    offered = runtime.get_available_providers()
    wanted = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in offered]
    return runtime.InferenceSession(file, options, providers=wanted)


def _onnxruntime() -> Any:
    return optional_module("onnxruntime", missing=INSTALL)
