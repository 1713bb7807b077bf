"""Fuse every view of a scene with its best neighbours, or every few frames of a sequence with the frames around."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from cfusion import kernels, methods
from cfusion.errors import CFusionError, InputError
from cfusion.fuse import fuse_each, warn_of_conventions, warning_once
from cfusion.geometry import Stack, View
from cfusion.io.arguments import views_of
from cfusion.methods import Method
from cfusion.parameters import refine
from cfusion.result import Result
from cfusion.scene.graph import NEIGHBOURS, Graph
from cfusion.scene.neighbours import by_surface
from cfusion.scene.view_cache import ViewCache


def fuse_every(
    views: Sequence[View],
    method: str | Method = "auto",
    *,
    neighbours: int | Graph = NEIGHBOURS,
    into: Sequence[int] | None = None,
    backend: str = "auto",
    failed: Callable[[int, CFusionError], None] | None = None,
    check: bool = True,
    **parameters: Any,
) -> Iterator[Result]:
    """Yield a result for every view, in order: each view is fused with its best neighbours.

    For a sequence, `neighbours=in_time(len(views), 11)` with `into=range(0, len(views), 5)` fuses eleven frames into
    every fifth frame.
    Views may be lazy: each is read when it is needed and cached while memory allows. A view that cannot be fused ends
    the iteration with its error; if `failed` is given, `failed(index, error)` is called and the iteration goes on.

    Args:
        views: of one scene, in one unit of length.
        method: as in `fuse`.
        neighbours: the number of other views fused with each view, or a graph that names them.
        into: indices of the views to fuse into; None for all.
        backend: as in `fuse`.
        failed: called with the index and the error of each view that cannot be fused.
        check: as in `fuse`, once: of some views around the middle one; with a given graph, of the first that are fused.
        parameters: parameters of the method, by name.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Pinhole, Pose, View, fuse_every
        >>> camera = Pinhole(20, 20, 15.5, 11.5, 32, 24)
        >>> poses = [Pose(np.eye(3), np.array([0.05 * k, 0, 0])) for k in range(3)]
        >>> views = [View(np.full((24, 32), 2.0), camera, pose) for pose in poses]
        >>> [result.depth.shape for result in fuse_every(views, "median", neighbours=2, backend="numpy")]
        [(24, 32), (24, 32), (24, 32)]
    """
    if isinstance(views, View | Stack) or not isinstance(views, Sequence):
        raise InputError(f"fuse_every needs a list of views, not {type(views).__name__}")
    views_of(views, "fuse_every")
    refined = refine(methods.get(method), parameters)  # here, so that a wrong parameter is no view's failure
    loaded = kernels.load(backend)
    kept = ViewCache.of(views)
    chosen = range(len(views)) if into is None else into
    strange = [number for number in chosen if not 0 <= number < len(views)]
    if strange:
        raise InputError(f"view {strange[0]} of `into` does not exist; give indices from 0 to {len(views) - 1}")
    given = isinstance(neighbours, Graph)
    if check and not given:
        with suppress(CFusionError):  # a view that cannot be read is reported in its turn
            warn_of_conventions(kept, "Results are")
    graph = neighbours if isinstance(neighbours, Graph) else by_surface(kept, failed=failed).cut(neighbours)
    if len(graph) != len(views):
        raise InputError(f"the graph has {len(graph)} views but {len(views)} were given; build it from the same views")

    def bundle(number: int) -> Sequence[View]:
        return tuple(kept[other] for other in graph.bundle(number))

    def each() -> Iterator[Result]:
        tasks = warning_once(chosen, bundle, 0) if check and given else chosen
        for number, outcome in fuse_each(tasks, bundle, refined, loaded):
            if isinstance(outcome, Result):
                yield outcome
            elif not isinstance(outcome, CFusionError):
                raise outcome
            elif failed is None:
                raise type(outcome)(f"view {number}: {outcome}") from None
            else:
                failed(number, outcome)

    return each()
