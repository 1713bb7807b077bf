"""The parts of each command in order, with the seconds that they take beside one another on a usual machine."""

from __future__ import annotations

from cfusion.cli.compiling import COMPILING
from cfusion.cli.compiling import PARTS as KERNELS
from cfusion.cli.forecast import Part

A_MEGAPIXEL = {"auto": 130.0, "input": 2.0, "mean": 3.0, "median": 4.0}  # seconds; one thread
OF_OTHERS = 20.0
WRITING, PAGE = "writing", "making the page"
WRITING_SECONDS, PAGE_SECONDS = 5.0, 10.0  # for a megapixel
LEAST = 0.05  # seconds
MATCHING = {"mc-cnn": 40.0}  # seconds for a pair


def fusing(method: str, pixels: float) -> float:
    """Seconds to fuse views of so many pixels."""
    return LEAST + A_MEGAPIXEL.get(method, OF_OTHERS) * pixels / 1e6


def writing(pixels: float, *, page: bool) -> tuple[Part, ...]:
    """Files, and the page if there is to be one."""
    parts = [Part(WRITING, LEAST + WRITING_SECONDS * pixels / 1e6)]
    return (*parts, Part(PAGE, LEAST + PAGE_SECONDS * pixels / 1e6)) if page else (*parts,)


def of_fuse(method: str, pixels: float, *, page: bool) -> tuple[Part, ...]:
    """Kernels, the solve, files."""
    return (*KERNELS, Part("", fusing(method, pixels)), *writing(pixels, page=page))


def of_sequence(method: str, windows: int, frames: int, pixels: float, *, page: bool) -> tuple[Part, ...]:
    """Frames are read once to know them, then every window is fused and written."""
    each = fusing(method, pixels) + sum(part.seconds for part in writing(pixels, page=page))
    return (Part("reading", 0.2 * frames * pixels / 1e6), *KERNELS, Part("window", windows * each))


def of_scene(method: str, views: int, pixels: float, *, cloud: bool, mesh: bool, page: bool) -> tuple[Part, ...]:
    """Neighbours, every view, then what is made of all of them."""
    each, megapixels = fusing(method, pixels) + writing(pixels, page=False)[0].seconds, views * pixels / 1e6
    return (
        Part("looking", 0.1 + 0.7 * megapixels),
        *KERNELS,
        Part("view", views * each),
        *((Part("cloud", 6.0 * megapixels),) if cloud else ()),
        *((Part("mesh", 20.0 * megapixels),) if mesh else ()),
        *((Part(PAGE, LEAST + PAGE_SECONDS * pixels / 1e6),) if page else ()),
    )


def of_demo(methods: list[str], pixels: float, *, page: bool) -> tuple[Part, ...]:
    """The scene is rendered, then every method has its turn."""
    return (
        Part("rendering", 0.5 + 8.0 * pixels / 1e6),
        *KERNELS,
        *(Part(f"{name}:", fusing(name, pixels)) for name in methods),
        *((Part(PAGE, LEAST + (1 + 0.4 * len(methods)) * PAGE_SECONDS * pixels / 1e6),) if page else ()),
    )


def of_stereo(matcher: str, *, page: bool) -> tuple[Part, ...]:
    """A pair is read, looked at, matched."""
    matching = Part("matching", MATCHING.get(matcher, 2.0))
    last = (Part(PAGE, 2.0),) if page else ()
    return (Part("reading", 0.3), Part("looking", 0.5), matching, Part(WRITING, 2.0), *last)


def of_mosaic(*, page: bool) -> tuple[Part, ...]:
    """Choices from a sample, about as long for any mosaic; the mosaic, which tells how far it is; its page."""
    return (Part("choosing", 8.0), COMPILING, Part("", 12.0), *((Part(PAGE, 2.0),) if page else ()))
