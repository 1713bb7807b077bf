"""The public functions: fuse views, maps on one pixel grid, or many groups of views."""

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from cfusion import kernels, methods
from cfusion.arrays import DepthMap
from cfusion.errors import CFusionError, CFusionWarning, InputError, OutOfMemory
from cfusion.geometry import Stack, View
from cfusion.kernels.contract import Backend, Window
from cfusion.methods import Method
from cfusion.parameters import refine
from cfusion.result import Result
from cfusion.solvers import Progress
from cfusion.source import Posed, Registered, Source, reference_index
from cfusion.tiles import crop_stack, crop_view, fuse_in_tiles

Item = TypeVar("Item")
CONCURRENT_BUNDLES = 2  # on a GPU
BYTES_A_PIXEL, BYTES_AN_OBSERVATION = 250, 25  # at the peak of a solve, approximately


def fuse(
    views: Sequence[View],
    method: str | Method = "auto",
    *,
    reference: int | None = None,
    backend: str = "auto",
    progress: Callable[[Progress], None] | None = None,
    check: bool = True,
    **parameters: Any,
) -> Result:
    """Fuse depth maps into one view: `reference`, else the view that the data set names, else the middle one.

    Args:
        views: any number, of any cameras; depths and poses in one unit of length.
        method: `auto`, or another name listed by `cfusion methods`, or a `Method` of your own.
        reference: index of the view to fuse into.
        backend: `cuda`, `cpu`, `numpy`, or `auto`: the fastest that runs here.
        progress: called with a `Progress` from time to time.
        check: warn where poses, K or depths seem to break a convention, as inverted poses do, or the reference's pose
            alone is wrong (a quarter of a second; maps on a GPU are not checked).
        parameters: of the method, by name; `METHODS[name].parameters()` and docs/choosing.md list them.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Pinhole, Pose, View, fuse
        >>> camera, rng = Pinhole(50, 50, 31.5, 23.5, 64, 48), np.random.default_rng(0)
        >>> views = [View(2 + rng.laplace(0, 0.05, (48, 64)), camera, Pose.identity()) for _ in range(5)]
        >>> result = fuse(views, "l1", backend="numpy", tolerance=1e-2)
        >>> bool(np.nanmean(abs(result.depth - 2)) < 0.2 * np.mean(abs(views[0].depth - 2)))
        True
    """
    began = time.perf_counter()
    if reference is None:
        reference = _named_reference(views)
    views = _checked(views)
    chosen = refine(methods.get(method), parameters)
    loaded = kernels.load(backend)
    index = reference_index(views, reference)
    seen = views[index]
    if check:
        warn_of_conventions(views, "The result is", index)

    def run(window: Window | None, method: Method) -> Result:
        given = views
        if window is not None:
            given = [crop_view(view, window) if k == index else view for k, view in enumerate(views)]
        return fuse_source(Posed.of(given, index, loaded), method, loaded, progress).moved(loaded.to_host)

    with _room_for(len(views), seen.shape, loaded):
        result = _whole_or_tiles(run, seen.shape, chosen, loaded)
        result = replace(result, camera=seen.camera, image=seen.image)
    return replace(result, seconds=time.perf_counter() - began)


def fuse_many(
    bundles: Iterable[Sequence[View]],
    method: str | Method = "auto",
    *,
    reference: int | None = None,
    backend: str = "auto",
    check: bool = True,
    **parameters: Any,
) -> Iterator[Result]:
    """Fuse one group of views after the other like `fuse`; on a GPU two at a time, to keep it busy.

    Args:
        bundles: groups of views, one list for each result; each is taken when needed.
        method: as in `fuse`.
        reference: index of the view to fuse into, the same in every group; None: the middle one.
        backend: as in `fuse`.
        check: as in `fuse`, once: of the first group whose views are far enough apart to tell.
        parameters: as in `fuse`.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Pinhole, Pose, View, fuse_many
        >>> camera = Pinhole(50, 50, 7.5, 5.5, 16, 12)
        >>> bundles = ([View(np.full((12, 16), z), camera, Pose.identity())] * 3 for z in (1.0, 2.0))
        >>> [float(result.depth[6, 8]) for result in fuse_many(bundles, "median", backend="numpy")]
        [1.0, 2.0]
    """
    if isinstance(bundles, str | View | np.ndarray) or not isinstance(bundles, Iterable):
        raise InputError(f"fuse_many needs a list of lists of views, not {_named(bundles)}")
    chosen, loaded = refine(methods.get(method), parameters), kernels.load(backend)
    groups: Iterable[Sequence[View]] = (list(each) if isinstance(each, Iterator) else each for each in bundles)
    if check:
        groups = warning_once(groups, lambda views: views, reference)
    for _, outcome in fuse_each(groups, lambda views: views, chosen, loaded, reference=reference):
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


def fuse_each(
    tasks: Iterable[Item],
    read: Callable[[Item], Sequence[View]],
    method: Method,
    backend: Backend,
    *,
    reference: int | None = 0,
    progress: Callable[[int, Progress], None] | None = None,
) -> Iterator[tuple[Item, Result | Exception]]:
    """Yield every task with its result, in order, or with the error if it cannot be read or fused.

    `progress` is called with the number of the task and the events of `fuse`. Tasks are taken when needed, and their
    conventions are not checked.
    """

    def one(number: int, task: Item) -> Result | Exception:
        callback = None if progress is None else partial(progress, number)
        try:
            with backend.stream():
                views = read(task)
                return fuse(views, method, reference=reference, backend=backend.NAME, progress=callback, check=False)
        except Exception as error:
            return error

    if backend.arrays is np:  # in this thread, so that an interrupt ends it at once
        for number, task in enumerate(tasks):
            yield task, one(number, task)
        return
    waiting: deque[tuple[Item, Future[Result | Exception]]] = deque()
    pool = ThreadPoolExecutor(CONCURRENT_BUNDLES)
    try:
        for number, task in enumerate(tasks):
            waiting.append((task, pool.submit(one, number, task)))
            if len(waiting) > CONCURRENT_BUNDLES:
                done, outcome = waiting.popleft()
                yield done, outcome.result()
        while waiting:
            done, outcome = waiting.popleft()
            yield done, outcome.result()
    finally:
        pool.shutdown(cancel_futures=True)


def fuse_stack(
    stack: Stack,
    method: str | Method = "auto",
    *,
    backend: str = "auto",
    progress: Callable[[Progress], None] | None = None,
    **parameters: Any,
) -> Result:
    """Fuse depth maps on one pixel grid; the result is in the memory of the input, host or GPU.

    Args:
        stack: K maps on one pixel grid, of any sign.
        method: as in `fuse`.
        backend: as in `fuse`.
        progress: called with a `Progress` from time to time.
        parameters: as in `fuse`.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Stack, fuse_stack
        >>> heights = np.random.default_rng(0).normal(-3.0, 0.1, (7, 20, 30))  # metres, below the sea
        >>> round(float(np.mean(fuse_stack(Stack(heights), "mean", backend="numpy").depth)), 1)
        -3.0
    """
    began = time.perf_counter()
    if not isinstance(stack, Stack):
        raise InputError(f"fuse_stack needs a cfusion.Stack, not {_named(stack)}; make one with Stack(depths)")
    chosen = refine(methods.get(method), parameters)
    loaded = kernels.load(backend)

    def run(window: Window | None, method: Method) -> Result:
        given = stack if window is None else crop_stack(stack, window)
        result = fuse_source(Registered(given), method, loaded, progress)
        return result.moved(loaded.to_host) if stack.on_host else result

    with _room_for(stack.views, stack.shape, loaded):
        result = _whole_or_tiles(run, stack.shape, chosen, loaded) if stack.on_host else run(None, chosen)
        result = replace(result, camera=stack.camera, image=stack.image)
    return replace(result, seconds=time.perf_counter() - began)


def fuse_source(
    source: Source, method: Method, backend: Backend, progress: Callable[[Progress], None] | None = None
) -> Result:
    """Fuse the observations of a source; the maps stay in the backend's memory, and `seconds` is not set."""
    return Result.of(method(source, backend, progress), source.frame, method.name, method.parameters(), backend)


def _whole_or_tiles(
    run: Callable[[Window | None, Method], Result], shape: tuple[int, int], method: Method, backend: Backend
) -> Result:
    """Fuse all at once, or in tiles if a device has too little memory."""
    try:
        return run(None, method)
    except MemoryError:
        if backend.arrays is np or method.parameters().get("keep_views"):
            raise
    return fuse_in_tiles(shape, method, run)  # here, where the error no longer keeps arrays of its frames alive


@contextmanager
def _room_for(views: int, shape: tuple[int, int], backend: Backend) -> Iterator[None]:
    """Turn running out of memory into an error of one sentence."""
    try:
        yield
    except MemoryError as error:
        if isinstance(error, OutOfMemory):
            raise
        needed = (BYTES_A_PIXEL + BYTES_AN_OBSERVATION * views) * shape[0] * shape[1] / 1e9
        raise OutOfMemory(
            f"{views} maps of {shape[1]} x {shape[0]} pixels need about {needed:.2g} GB in the memory of backend "
            f"{backend.NAME!r}, and less is free; crop or shrink them, give fewer, or pass another backend"
        ) from error


def _checked(views: Iterable[View]) -> Sequence[View]:
    if isinstance(views, Stack):
        raise InputError("fuse needs views; for registered depth maps use fuse_stack(stack)")
    if isinstance(views, str | PathLike):
        raise InputError(f"fuse needs a list of views, not a path; read it first: fuse(read({str(views)!r}))")
    if isinstance(views, View | np.ndarray) or not isinstance(views, Iterable):
        raise InputError(f"fuse needs a list of views, not {_named(views)}")
    if not isinstance(views, Sequence):
        views = list(views)
    if len(views) == 0:
        raise InputError("there are no views; give at least one")
    for view in views:
        if not isinstance(view, View):
            raise InputError(
                f"views must be cfusion.View, not {_named(view)}; for arrays use fuse_stack(Stack(depths))"
            )
    if all(_all_unknown(view.depth) for view in views):
        raise InputError("every depth in every view is NaN; give views with known depths")
    if all(view.confidence is not None and not view.confidence.any() for view in views):
        raise InputError("every confidence in every view is 0; give some known depths a positive one, or none at all")
    return views


def warn_of_conventions(
    views: Sequence[View], result: str, reference: int | None = None, *, stacklevel: int = 3
) -> bool:
    """Whether a few views can tell: wrong conventions, which nothing else would reveal, are then warned of.

    So is a wrong pose of the reference, if it is given. Maps on a GPU are not looked at.
    """
    from cfusion.datasets.check import quick_check

    if len(views) == 0 or not isinstance(views[len(views) // 2].depth, np.ndarray):
        return False
    found = quick_check(views, reference)
    if found is not None and found.caution:
        as_given = "of the data as given; cfusion.datasets.check tells more, check=False asks nothing."
        warnings.warn(f"{found.caution} {result} {as_given}", CFusionWarning, stacklevel=stacklevel)
    return found is not None and not found.too_close


def warning_once(
    tasks: Iterable[Item], read: Callable[[Item], Sequence[View]], reference: int | None
) -> Iterator[Item]:
    """The tasks as they are, for `fuse_each`; until the views of one can tell, their conventions are looked at."""
    told = False
    for task in tasks:
        if not told:
            with suppress(CFusionError):  # a mistake is told when the task is fused
                views = _checked(read(task))
                index = reference_index(views, _named_reference(views) if reference is None else reference)
                told = warn_of_conventions(views, "Results are", index, stacklevel=5)
        yield task


def _named_reference(views: object) -> int | None:
    """The view that a data set says to fuse into."""
    return getattr(views, "reference", None)


def _all_unknown(depth: DepthMap) -> bool:
    """True if every pixel is NaN. Every 16th row is tested first: it usually decides."""
    return bool(np.isnan(depth[::16]).all() and np.isnan(depth).all())


def _named(given: object) -> str:
    """The name of an argument's type for messages."""
    return "None" if given is None else type(given).__name__
