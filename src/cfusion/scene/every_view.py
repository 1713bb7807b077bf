"""Fuse every view of a scene from its best neighbours, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cfusion import kernels, methods
from cfusion.errors import CFusionError, InputError
from cfusion.fuse import fuse_many
from cfusion.geometry import Stack, View
from cfusion.io.arguments import views_of
from cfusion.methods import Method
from cfusion.parameters import refine
from cfusion.result import Result
from cfusion.scene.graph import NEIGHBOURS, Graph
from cfusion.scene.kept import Kept
from cfusion.scene.neighbours import by_surface


def fuse_every(
    views: Sequence[View],
    method: str | Method = "auto",
    *,
    neighbours: int | Graph = NEIGHBOURS,
    backend: str = "auto",
    failed: Callable[[int, CFusionError], None] | None = None,
    **parameters: Any,
) -> Iterator[Result]:
    """The result of every view, in order, each fused from the view and its best `neighbours` (or those of a graph).

    Views may be lazy: each is read when its turn comes and kept as long as it fits. A view that cannot be fused ends
    the iteration with its error, unless `failed` is given: then that hears its number and error, and the rest go on.
    """
    if isinstance(views, View | Stack) or not isinstance(views, Sequence):
        raise InputError(f"fuse_every takes a list of views, not {type(views).__name__}")
    views_of(views, "fuse_every")
    refined = refine(methods.get(method), parameters)  # a mistake in these is not one of the views
    loaded = kernels.load(backend).NAME
    kept = Kept.of(views)
    graph = neighbours if isinstance(neighbours, Graph) else by_surface(kept, failed=failed).cut(neighbours)
    if len(graph) != len(views):
        raise InputError(f"the graph has {len(graph)} views, {len(views)} were given")
    return _each(kept, graph, refined, loaded, failed)


def _each(
    views: Sequence[View],
    graph: Graph,
    method: Method,
    backend: str,
    failed: Callable[[int, CFusionError], None] | None,
) -> Iterator[Result]:
    number = 0
    while number < len(views):
        bundles = (tuple(views[other] for other in graph.bundle(view)) for view in range(number, len(views)))
        try:
            for result in fuse_many(bundles, method, reference=0, backend=backend):
                number += 1
                yield result
        except CFusionError as error:
            if failed is None:
                raise type(error)(f"view {number}: {error}") from None
            failed(number, error)
            number += 1  # and go on behind it
