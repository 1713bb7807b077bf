"""Every method gives the bits it gave: a change of code that should not move a result moves none.

`same_bits.json` holds a hash of every map of every method on two small scenes, per backend and per kind of machine.
Bits depend on the processor (fused multiply-adds, vector widths of NumPy's and Numba's loops) and on versions of the
libraries that compile for it. A machine whose kind is not in the file is therefore held to coarse figures only.

A change that moves results on purpose rewrites the file, for the machine it is run on, and says so in the changelog:

    python tests/test_same_bits.py
"""

import hashlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import METHODS, Pinhole, Pose, Result, Stack, View, fuse, fuse_stack, kernels
from cfusion.errors import BackendUnavailable

STORE = Path(__file__).with_name("same_bits.json")
MAPS = ("depth", "confidence", "sigma", "provenance")
BACKENDS = ("numpy", "cpu")
CAMERA = Pinhole(40.0, 40.0, 19.5, 14.5, 40, 30)


def posed_views() -> list[View]:
    """A tilted wall with a step in it and a ball before it, seen from five places; noise that grows with depth."""
    rng = np.random.default_rng(7)
    return [_seen_from(np.array([0.35 * k - 0.7, 0.05 * k, 0.04 * k]), rng, confident=k == 1) for k in range(5)]


def _seen_from(centre: np.ndarray, rng: np.random.Generator, *, confident: bool) -> View:
    y, x = np.mgrid[: CAMERA.height, : CAMERA.width]
    rays = np.stack([(x - CAMERA.cx) / CAMERA.fx, (y - CAMERA.cy) / CAMERA.fy, np.ones(x.shape)], axis=-1)
    wall = _plane(rays, centre, np.array([0.2, -0.1, 1.0]), 9.0)
    near = _plane(rays, centre, np.array([0.0, 0.0, 1.0]), 6.5)
    left = centre[0] + near * rays[..., 0] < -1.2
    depth = np.where(left, near, wall)
    depth = np.fmin(depth, _ball(rays, centre, np.array([0.9, 0.3, 5.0]), 1.1))
    image = np.where(depth < 6.7, 0.8, 0.2) + 0.05 * np.sin(x)
    depth = depth + 0.001 * depth**2 * rng.laplace(0.0, 1.0, depth.shape)
    depth = np.where(rng.random(depth.shape) < 0.05, np.nan, depth)
    depth = np.where(rng.random(depth.shape) < 0.03, rng.uniform(3.0, 12.0, depth.shape), depth)
    depth[12:15, 20:26] = np.nan
    confidence = np.where(np.isnan(depth), 0.0, rng.uniform(0.5, 1.0, depth.shape)) if confident else None
    return View(depth, CAMERA, Pose(np.eye(3), centre), image=image, confidence=confidence)


def _plane(rays: np.ndarray, centre: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """Depth along each ray to the plane normal . p = offset."""
    return (offset - (normal * centre).sum()) / (rays * normal).sum(-1)


def _ball(rays: np.ndarray, centre: np.ndarray, middle: np.ndarray, radius: float) -> np.ndarray:
    """Depth along each ray to a ball; NaN where the ray misses it."""
    to_ball = middle - centre
    a, b, c = (rays * rays).sum(-1), (rays * to_ball).sum(-1), (to_ball * to_ball).sum() - radius**2
    inside = b * b - a * c
    return np.where(inside > 0, (b - np.sqrt(np.maximum(inside, 0))) / a, np.nan)


def registered_stack() -> Stack:
    """Five maps of a slope with a step, one much noisier, weights, holes, a gap that no view saw."""
    rng = np.random.default_rng(8)
    y, x = np.mgrid[: CAMERA.height, : CAMERA.width]
    surface = 5 + 0.02 * x - 0.01 * y + 1.5 * (x > 25)
    spread = np.array([0.03, 0.03, 0.05, 0.2, 0.03])[:, None, None]
    depths = surface + spread * rng.laplace(0.0, 1.0, (5, *surface.shape))
    depths[rng.random(depths.shape) < 0.1] = np.nan
    depths[:, 10:14, 8:12] = np.nan
    depths[:, 5:9, 24:28] = np.nan
    weights = np.where(np.isnan(depths), 0, rng.uniform(0.5, 1.5, depths.shape))
    return Stack(depths, weights, CAMERA, image=(0.3 + 0.4 * (x > 25) + 0.1 * rng.random(x.shape)))


SCENES = {"posed": (fuse, posed_views), "stack": (fuse_stack, registered_stack)}


def run(scene: str, method: str, backend: str) -> Result:
    fused, given = SCENES[scene]
    return fused(given(), method, backend=backend)


def hashes(result: Result) -> dict[str, str]:
    """A short SHA-256 of every map: type, shape and bytes, with one NaN for all."""
    return {name: _hash(getattr(result, name)) for name in MAPS}


def _hash(array: np.ndarray) -> str:
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    what = f"{array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(what).hexdigest()[:16]


def figures(result: Result) -> dict[str, float]:
    """What any machine should find, to a per cent or so."""
    return {
        "depth": float(np.nanmedian(result.depth)),
        "known": float(np.mean(result.provenance >= 0)),
        "observations": float(np.mean(result.provenance)),
    }


def machine() -> str:
    """The kind of machine, as far as bits depend on it: processor, and what compiles for it."""
    try:
        from numpy._core._multiarray_umath import __cpu_features__
    except ImportError:  # NumPy 1
        from numpy.core._multiarray_umath import __cpu_features__

    parts = [sys.platform, platform.machine(), platform.python_version_tuple()[:2], np.__version__, platform.libc_ver()]
    parts.append(sorted(name for name, there in __cpu_features__.items() if there))
    try:
        import llvmlite
        import numba
        from llvmlite import binding
    except ImportError:
        pass
    else:
        features = binding.get_host_cpu_features().flatten()
        parts += [numba.__version__, llvmlite.__version__, binding.get_host_cpu_name(), features]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def stored() -> dict[str, Any]:
    store: dict[str, Any] = json.loads(STORE.read_text()) if STORE.exists() else {"figures": {}, "machines": {}}
    return store


def rewrite() -> None:
    """Take what every method gives now as what it should give, here and (coarsely) everywhere.

    What other kinds of machines gave is forgotten: it was before the change.
    """
    here, coarse = {}, {}
    for key in CASES:
        result = run(*key.split("/"))
        here[key], coarse[key] = hashes(result), {k: round(v, 4) for k, v in figures(result).items()}
    store = {"figures": coarse, "machines": {machine(): here}}
    STORE.write_text(json.dumps(store, indent=1, sort_keys=True) + "\n")


CASES = [f"{scene}/{method}/{backend}" for scene in SCENES for method in METHODS for backend in BACKENDS]


@pytest.mark.parametrize("key", CASES)
def test_every_method_gives_the_bits_it_gave(key: str) -> None:
    scene, method, backend = key.split("/")
    try:
        kernels.load(backend)
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    store, result = stored(), run(scene, method, backend)
    known = store["machines"].get(machine())
    if known is not None:
        assert hashes(result) == known.get(key), "bits moved; on purpose? then python tests/test_same_bits.py"
    assert figures(result) == pytest.approx(store["figures"][key], rel=0.02, abs=0.02)


def test_nothing_is_stored_of_methods_that_are_gone() -> None:
    store = stored()
    for keys in (store["figures"], *store["machines"].values()):
        assert sorted(keys) == sorted(CASES)


if __name__ == "__main__":
    rewrite()
