"""Where every parameter ends: the last value that is taken, and the first that is refused."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from cfusion import methods
from cfusion.auto.settings import Settings
from cfusion.confidence import Appearance, Geometric
from cfusion.datasets.check.correction import Correction
from cfusion.datasets.check.remap import Remap
from cfusion.energy import TGV, Energy, Huber, Prior
from cfusion.errors import InputError
from cfusion.geometry import BrownConrady, Orthographic, Pinhole
from cfusion.rasters.options import Options as Mosaic
from cfusion.rasters.runner import Crew
from cfusion.scene.cluster import MOST_WORKERS, Cluster
from cfusion.scene.volume import Volume
from cfusion.solvers import ACS, AMA, PDHG, Biconvex
from cfusion.source import Splat
from cfusion.synthetic import Blobs, Gauss, Holes, Kinect, Laplace, Outliers, Regional, Stereo

INF, NAN, TINY = float("inf"), float("nan"), 1e-9
A_STEREO = partial(Stereo, sigma_disparity=0.1, focal_baseline=5.0)
AN_OUTLIERS = partial(Outliers, fraction=0.1, low=1.0, high=2.0)
A_VOLUME = partial(Volume, voxel=1.0, truncation=4.0, unit_sigma=1.0)
A_HOLES = partial(Holes, fraction=0.1, radius=2.0)
A_REGIONAL = partial(Regional, fraction=0.1, factor=2.0)
A_BLOBS = partial(Blobs, fraction=0.1, radius=2.0)


def pinhole(**given: Any) -> Pinhole:
    return Pinhole(**({"fx": 5.0, "fy": 5.0, "cx": 1.0, "cy": 1.0, "width": 3, "height": 2} | given))


def flat(**given: Any) -> Orthographic:
    return Orthographic(**({"pixel_size": 1.0, "cx": 1.0, "cy": 1.0, "width": 3, "height": 2} | given))


def a_lens(**given: Any) -> BrownConrady:
    return BrownConrady(5.0, 5.0, 1.0, 1.0, 3, 2, **given)


LIMITS: list[tuple[Callable[..., object], str, tuple[Any, ...], tuple[Any, ...]]] = [
    (Settings, "rounds", (1, 2.0), (0, 1.5, -1)),
    (Settings, "gate", (TINY,), (0.0, -1.0, NAN)),
    (Settings, "damping", (TINY, 1.0), (0.0, 1.0 + TINY, NAN)),
    (Settings, "fill_radius", (0, 5), (-1, 1.5)),
    (Settings, "lam", (TINY, 1e9), (0.0, INF, NAN)),
    (Settings, "min_confidence", (0.0, 1 - TINY), (1.0, -TINY, NAN)),
    (Settings, "refine_poses", (True, False), (1, 0.5, "no")),
    (Settings, "keep_views", (True, False), (1, 0.5, "no")),
    (PDHG, "tolerance", (0.0, 1.0), (-TINY, INF, NAN)),
    (PDHG, "iterations", (1,), (0, 1.5)),
    (PDHG, "relaxation", (TINY, 2 - TINY), (0.0, 2.0)),
    (ACS, "outer", (1,), (0,)),
    (ACS, "tolerance", (0.0,), (-TINY, INF)),
    (AMA, "outer", (1,), (0,)),
    (AMA, "tolerance", (0.0,), (-TINY, INF)),
    (AMA, "nu", (TINY,), (0.0,)),
    (AMA, "mu", (None, TINY), (-1.0,)),
    (AMA, "growth", (1.0,), (1 - TINY,)),
    (Biconvex, "iterations", (1,), (0,)),
    (Biconvex, "block", (1,), (0,)),
    (Biconvex, "tolerance", (0.0,), (-TINY, INF)),
    (Huber, "delta", (TINY,), (0.0, INF, -1.0)),
    (Energy, "lam", (TINY,), (0.0, INF)),
    (Prior, "rate", (TINY,), (0.0, INF, -1.0)),
    (Prior, "b", (None, TINY), (0.0, -1.0)),
    (Prior, "shape", (0.5 + TINY,), (0.5,)),
    (TGV, "order", (1, 2, 3), (0, 4)),
    (Geometric, "floor", (0.0, 1.0), (-TINY, 1 + TINY)),
    (Appearance, "alpha", (TINY,), (0.0, INF)),
    (Appearance, "beta", (TINY,), (0.0, NAN)),
    (Appearance, "sigma", (0.0,), (-TINY, INF)),
    (Appearance, "floor", (0.0,), (-TINY, INF)),
    (Splat, "radius", (0, 3), (-1, 0.5)),
    (Laplace, "scale", (0.0, 2.0), (-TINY, INF, NAN)),
    (Gauss, "sigma", (0.0, 2.0), (-TINY, INF, NAN)),
    (pinhole, "width", (3, 1), (0, 1.0, True)),
    (pinhole, "height", (2, 1), (0, 1.0, True)),
    (pinhole, "fx", (TINY,), (0.0, -1.0, INF, NAN, "5")),
    (pinhole, "fy", (TINY,), (0.0, -1.0, INF, NAN)),
    (pinhole, "cx", (-5.0, 99.0), (INF, NAN, True)),
    (pinhole, "cy", (-5.0, 99.0), (INF, NAN)),
    (flat, "pixel_size", (TINY,), (0.0, -1.0, INF)),
    (a_lens, "k1", (0.1, -0.1), (INF, NAN, "1")),
    (a_lens, "k3", (0.1, -0.1), (INF, NAN)),
    (a_lens, "p2", (0.01, -0.01), (INF, NAN)),
    (Crew, "workers", (1, 2.0), (0, 1.5)),
    (Mosaic, "tolerance", (TINY, 1 - TINY), (0.0, 1.0, NAN)),
    (Mosaic, "iterations", (1,), (0, -1)),
    (Mosaic, "alpha", (None, (TINY, TINY)), ((1.0,), (0.0, 1.0), (1.0, NAN), (INF, 1.0), (1.0, 2.0, 3.0))),
    (Cluster, "count", (1, MOST_WORKERS), (0, -1, MOST_WORKERS + 1)),
    (A_VOLUME, "voxel", (TINY, 4.0), (0.0, 4.1, NAN)),
    (A_VOLUME, "truncation", (1.0,), (0.9, NAN)),
    (A_VOLUME, "unit_sigma", (TINY,), (0.0, NAN)),
    (Correction, "depth_scale", (TINY,), (0.0, -1.0, INF, NAN)),
    (Correction, "shift_centre", (-0.5, 9.0), (INF, NAN)),
    (Remap, "factor", (TINY,), (0.0, -1.0, INF, NAN)),
    (Remap, "shift", (-5.0, 5.0), (INF, NAN)),
    (
        lambda **given: Stereo(**({"sigma_disparity": 0.1, "focal_baseline": 5.0} | given)),
        "focal_baseline",
        (TINY,),
        (0.0, INF),
    ),
    (
        lambda **given: Stereo(**({"sigma_disparity": 0.1, "focal_baseline": 5.0} | given)),
        "sigma_disparity",
        (0.0,),
        (-TINY,),
    ),
    (
        lambda **given: Outliers(**({"fraction": 0.1, "low": 1.0, "high": 2.0} | given)),
        "fraction",
        (0.0, 1.0),
        (-TINY, 1 + TINY),
    ),
    (AN_OUTLIERS, "low", (TINY, 2.0), (0.0, 2.1)),
    (AN_OUTLIERS, "high", (1.0,), (INF, 0.9)),
    (A_HOLES, "radius", (TINY,), (0.0, -1.0)),
    (A_HOLES, "fraction", (0.0, 1.0), (-TINY, 1 + TINY)),
    (A_REGIONAL, "factor", (0.0,), (-TINY,)),
    (A_REGIONAL, "smoothness", (0.0,), (-TINY,)),
    (A_BLOBS, "radius", (TINY,), (0.0,)),
    (A_BLOBS, "low", (TINY, 0.3), (0.0, 0.31)),
    (A_BLOBS, "high", (0.03, 1 - TINY), (1.0, 0.02)),
    (A_REGIONAL, "fraction", (0.0, 1.0), (-TINY, 1 + TINY)),
    (A_BLOBS, "fraction", (0.0, 1.0), (-TINY, 1 + TINY)),
    (Kinect, "step", (TINY,), (0.0, -1.0)),
    (Kinect, "focal_baseline", (TINY,), (0.0, -1.0, INF)),
    (Kinect, "focal", (TINY,), (0.0, INF)),
]


@pytest.mark.parametrize(
    ("make", "name", "taken", "refused"), LIMITS, ids=lambda each: each if isinstance(each, str) else ""
)
def test_limits(make: Callable[..., object], name: str, taken: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    for value in taken:
        make(**{name: value})
    for value in refused:
        with pytest.raises(InputError):
            make(**{name: value})
            pytest.fail(f"{name} = {value!r} was taken")


def test_weights_of_a_regulariser_are_as_many_as_its_order() -> None:
    assert TGV(2, (1.0, 2.0)).alpha == (1.0, 2.0)
    for wrong in ((1.0,), (1.0, 2.0, 3.0), (0.0, 1.0), (1.0, INF)):
        with pytest.raises(InputError, match="alpha"):
            TGV(2, wrong)


def test_the_defaults_of_methods_are_those_that_are_documented() -> None:
    """`cfusion methods` prints them, docs/choosing.md explains them, and every published figure is of them."""
    convex = {"lam": 1.0, "tolerance": 1e-3, "iterations": 3000}
    splat = {"fill": True, "radius": 5, "fill_radius": 0}
    second = {"order": 2, "alpha": (1.0, 2.0)}
    joint = {"shape": 1.5, "rate": 0.1, "outer": 20}
    own = {"rounds": 3, "gate": 6.0, "min_confidence": 0.8, "refine_poses": True, "keep_views": False, "fill_radius": 5}
    expected = {"auto": convex | own, "l1": convex | second | splat, "adapt-hprior": convex | second | joint | splat}
    for name, parameters in expected.items():
        assert methods.get(name).parameters() == parameters
    assert Settings().damping == 0.5
    assert PDHG().relaxation == 1.7
