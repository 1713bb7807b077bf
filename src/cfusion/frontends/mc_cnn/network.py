"""The network of Zbontar and LeCun (2016), fast architecture, with the weights of the package `mccnn` (CNES).

Five 3 x 3 convolutions make 64 features of the 11 x 11 pixels around each one; two pixels look alike if their unit
features have a large inner product. The weights were trained on Middlebury 2014; none of them lie in this project.
"""

import importlib
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.errors import MissingDependency

Features = NDArray[np.float32]  # (C, H, W), unit length along C
WEIGHTS = "mc_cnn_fast_int8_excl_01.onnx"  # trained with 8-bit layers; better than the float ones on Middlebury
RADIUS = 5  # pixels that five 3 x 3 convolutions take away on each side
INSTALL = "mc-cnn needs its weights and onnxruntime: pip install 'cfusion[mccnn]'"


def features(image: Image) -> Features:
    """Unit features (64, H, W) of a grey image (H, W); mean and contrast of the whole image do not matter."""
    session = _session(str(weights_file()))
    found: Features = session.run(None, {"input": np.pad(normed(image), RADIUS, mode="edge")})[0]
    return found


def normed(image: Image) -> Image:
    """(H, W) an image less its mean, in its standard deviations; zero if it is flat."""
    plane = np.asarray(image, np.float32)
    spread = float(plane.std())
    return np.asarray((plane - plane.mean()) / (spread if spread > 0 else 1.0), np.float32)


def weights_file() -> Path:
    """Where the package `mccnn` keeps the weights; it is found, not imported, so that nothing of it runs."""
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
    """Say now, not after other work, what is missing."""
    weights_file()
    _onnxruntime()


@lru_cache(1)
def _session(file: str) -> Any:
    """The network, on the GPU where onnxruntime has one."""
    runtime = _onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # a missing GPU is not worth a warning
    offered = runtime.get_available_providers()
    wanted = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in offered]
    return runtime.InferenceSession(file, options, providers=wanted)


def _onnxruntime() -> Any:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        raise MissingDependency(INSTALL) from None
