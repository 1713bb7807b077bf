"""A frame too large for a device's memory, fused in overlapping tiles, each halved until it fits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cfusion.errors import InputError
from cfusion.geometry import Camera, Stack, View
from cfusion.kernels.contract import Window
from cfusion.methods import Method
from cfusion.result import Result
from cfusion.solvers import Status

HALO = 48  # pixels around a tile that are fused and discarded: smoothing reaches about as far
LEAST = 64  # pixels of a side that is not halved again
WORST_LAST = (Status.closed_form, Status.converged, Status.at_rounding, Status.partial_optimum, Status.settled)

Run = Callable[[Window, Method], Result]  # fuses a part of the frame; raises MemoryError if it is too large


def fuse_in_tiles(shape: tuple[int, int], method: Method, run: Run) -> Result:
    """Fuse the whole frame from parts; MemoryError if even the smallest does not fit.

    Parameters that the method chooses are chosen on the first part and kept for the others; the noise of the views is
    estimated in each part. There is no certificate of the whole: the gap is NaN, and `parameters["tiles"]` is the
    number of parts.
    """
    waiting, done = _halves((slice(0, shape[0]), slice(0, shape[1]))), list[tuple[Window, Window, Result]]()
    nothing: InputError | None = None
    if not waiting:
        raise MemoryError("the frame is too small to be divided")
    while waiting:
        core = waiting.pop(0)
        window = _with_halo(core, shape)
        try:
            result = run(window, method)
        except MemoryError:
            halves = _halves(core)
            if not halves:
                raise
        except InputError as error:  # no observation in this part
            nothing = error
            continue
        else:
            done.append((core, window, result))
            method = _with_choices(method, result)
            continue
        waiting = halves + waiting
    if not done:
        raise nothing or InputError("nothing was observed")
    return _whole(shape, done)


def crop_view(view: View, window: Window) -> View:
    """A part of a view, with its camera cropped."""
    image, confidence = (None if each is None else each[window] for each in (view.image, view.confidence))
    camera = crop_camera(view.camera, window)
    return replace(view, depth=view.depth[window], camera=camera, image=image, confidence=confidence)


def crop_stack(stack: Stack, window: Window) -> Stack:
    """A part of a stack."""
    there = (slice(None), *window)
    weights = None if stack.weights is None else stack.weights[there]
    filled = None if stack.filled is None else stack.filled[there]
    camera = None if stack.camera is None else crop_camera(stack.camera, window)
    image = None if stack.image is None else stack.image[window]
    return Stack.unchecked(stack.depths[there], weights, camera, image, filled)


def crop_camera(camera: Camera, window: Window) -> Camera:
    """The same camera with a cropped image."""
    rows, columns = window
    size = {"width": columns.stop - columns.start, "height": rows.stop - rows.start}
    return replace(camera, cx=camera.cx - columns.start, cy=camera.cy - rows.start, **size)


def _halves(core: Window) -> list[Window]:
    """A core halved across its longer side; empty if it is too small."""
    rows, columns = core
    tall = rows.stop - rows.start >= columns.stop - columns.start
    side = rows if tall else columns
    if side.stop - side.start < 2 * LEAST:
        return []
    middle = (side.start + side.stop) // 2
    parts = slice(side.start, middle), slice(middle, side.stop)
    return [(part, columns) if tall else (rows, part) for part in parts]


def _with_halo(core: Window, shape: tuple[int, int]) -> Window:
    """A core with its margin, clipped to the image."""
    rows, columns = (
        slice(max(side.start - HALO, 0), min(side.stop + HALO, size)) for side, size in zip(core, shape, strict=True)
    )
    return rows, columns


def _with_choices(method: Any, result: Result) -> Any:
    """The method with its open parameters set to the choices of a result."""
    settings = getattr(method, "settings", None)
    return method if settings is None else replace(method, settings=settings.decided(result.parameters))


def _whole(shape: tuple[int, int], parts: Sequence[tuple[Window, Window, Result]]) -> Result:
    """The cores of all parts, assembled."""
    depth, sigma = (np.full(shape, np.nan, np.float32) for _ in range(2))
    confidence, provenance = np.zeros(shape, np.float32), np.full(shape, -1, np.int16)
    for core, window, result in parts:
        inner = tuple(
            slice(side.start - around.start, side.stop - around.start)
            for side, around in zip(core, window, strict=True)
        )
        depth[core], sigma[core] = result.depth[inner], result.sigma[inner]
        confidence[core], provenance[core] = result.confidence[inner], result.provenance[inner]
    results = [result for _, _, result in parts]
    return replace(
        results[0],
        depth=depth,
        confidence=confidence,
        sigma=sigma,
        provenance=provenance,
        history=(),
        gap=float("nan"),
        energies={},
        status=max((result.status for result in results), key=_badness),
        iterations=sum(result.iterations for result in results),
        parameters={**results[0].parameters, "tiles": len(results)},
        views=(),
    )


def _badness(status: Status) -> int:
    return WORST_LAST.index(status) if status in WORST_LAST else len(WORST_LAST)
