"""The parts of each command in order, with their expected seconds on a typical machine."""

import os
from collections.abc import Sequence

from cfusion.cli.forecast import Part

ALONE, TOGETHER = "one thread", "all threads"  # kinds of parts with different paces

# Seconds per megapixel on one thread of a typical machine: for a method, and for each view in addition.
A_MEGAPIXEL = {"auto": 9.0, "input": 0.2, "mean": 0.3, "median": 0.4, "rof": 0.6, "l1": 1.2}
A_MEGAPIXEL |= {"tgv-fusion": 6.5, "l1-heuristic": 9.0, "rof-adapt": 1.1, "l1-adapt": 2.2}
OF_OTHERS = 5.0
A_VIEW = {"auto": 1.3, "input": 0.0}
A_VIEW_OF_OTHERS = 0.06
VIEWS = 11  # typically
KERNELS = Part("loading", 0.7, ALONE)
FOR_A_THREAD = 1 << 15  # pixels per thread, for threads to be used
GAIN = 0.8  # speed-up = threads ** GAIN
WRITING, PAGE = "writing", "making the page"
WRITING_SECONDS, PAGE_SECONDS = 1.2, 3.0  # per megapixel
PAGE_OF_A_METHOD = 0.9  # seconds per megapixel, for each method on the page
LEAST = 0.05  # seconds
MATCHING = {"mc-cnn": 20.0}  # seconds per pair


def fusing(method: str, pixels: float, views: int = VIEWS) -> float:
    """Expected seconds to fuse views of this many pixels, with all threads."""
    each = A_MEGAPIXEL.get(method, OF_OTHERS) + views * A_VIEW.get(method, A_VIEW_OF_OTHERS)
    faster: float = max(1.0, min(threads(), pixels / FOR_A_THREAD)) ** GAIN
    return LEAST + each * pixels / 1e6 / faster


def threads() -> int:
    """The number of threads that a backend would use, found without importing it."""
    chosen = os.environ.get("NUMBA_NUM_THREADS", "")
    if chosen.isdigit():
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def writing(pixels: float, *, page: bool) -> tuple[Part, ...]:
    """Files, and the page if there is one."""
    parts = [Part(WRITING, LEAST + WRITING_SECONDS * pixels / 1e6, ALONE)]
    return (*parts, Part(PAGE, LEAST + PAGE_SECONDS * pixels / 1e6, ALONE)) if page else (*parts,)


def of_fuse(method: str, pixels: float, views: int = VIEWS, *, page: bool) -> tuple[Part, ...]:
    """Kernels, the solve, files."""
    return (KERNELS, Part("", fusing(method, pixels, views), TOGETHER), *writing(pixels, page=page))


def of_sequence(method: str, windows: int, frames: int, pixels: float, *, page: bool) -> tuple[Part, ...]:
    """All frames are read once to hash them, then every window is fused and written."""
    each = fusing(method, pixels) + sum(part.seconds for part in writing(pixels, page=page))
    return (Part("reading", 0.1 * frames * pixels / 1e6), KERNELS, Part("window", windows * each))


def of_scene(method: str, views: int, pixels: float, *, cloud: bool, mesh: bool, page: bool) -> tuple[Part, ...]:
    """Neighbours, every view, then cloud, mesh and page."""
    each, megapixels = fusing(method, pixels) + writing(pixels, page=False)[0].seconds, views * pixels / 1e6
    return (
        Part("looking", 0.1 + 0.3 * megapixels),
        KERNELS,
        Part("view", views * each),
        *((Part("cloud", 2.0 * megapixels),) if cloud else ()),
        *((Part("mesh", 10.0 * megapixels),) if mesh else ()),
        *((Part(PAGE, LEAST + PAGE_SECONDS * pixels / 1e6),) if page else ()),
    )


def of_demo(methods: list[str], pixels: float, *, page: bool) -> tuple[Part, ...]:
    """The scene is rendered, then every method runs."""
    return (
        Part("rendering", 1.7 + 2.5 * pixels / 1e6, ALONE),
        KERNELS,
        *(Part(f"{name}:", fusing(name, pixels), TOGETHER) for name in methods),
        *((Part(PAGE, LEAST + (2.5 + PAGE_OF_A_METHOD * len(methods)) * pixels / 1e6, ALONE),) if page else ()),
    )


def of_stereo(matcher: str, *, page: bool) -> tuple[Part, ...]:
    """A pair is read, checked and matched."""
    matching = Part("matching", MATCHING.get(matcher, 1.0))
    last = (Part(PAGE, 1.0),) if page else ()
    return (Part("reading", 0.3), Part("looking", 0.3), matching, Part(WRITING, 1.0), *last)


def of_mosaic(ahead: Sequence[tuple[tuple[str, ...], float]] = (), *, page: bool) -> tuple[Part, ...]:
    """The stages announced by the mosaic, or typical ones; its page."""
    parts = [Part(*each) for each in ahead or ((("laying",), 3.0), (("choosing",), 20.0), ("", 12.0))]
    return (*parts, *((Part(PAGE, 1.0),) if page else ()))
