"""The parts of each command in order, with the seconds that they take beside one another on a usual machine."""

from __future__ import annotations

from collections.abc import Sequence

from cfusion.cli.forecast import Part

# Seconds for a megapixel on one thread of a usual machine: of a method, and of each view that it takes beside that.
A_MEGAPIXEL = {"auto": 11.0, "input": 0.5, "mean": 0.5, "median": 0.2, "rof": 1.5, "l1": 5.0}
A_MEGAPIXEL |= {"tgv-fusion": 9.0, "l1-heuristic": 11.0, "rof-adapt": 2.0, "l1-adapt": 4.5}
OF_OTHERS = 6.0
A_VIEW = {"auto": 1.4, "input": 0.0}
A_VIEW_OF_OTHERS = 0.13
VIEWS = 11  # usually
KERNELS = Part("loading", 1.0)
WRITING, PAGE = "writing", "making the page"
WRITING_SECONDS, PAGE_SECONDS = 2.5, 5.0  # for a megapixel
PAGE_OF_A_METHOD = 0.9  # seconds for a megapixel, of each that the page shows
LEAST = 0.05  # seconds
MATCHING = {"mc-cnn": 20.0}  # seconds for a pair


def fusing(method: str, pixels: float, views: int = VIEWS) -> float:
    """Seconds to fuse views of so many pixels."""
    each = A_MEGAPIXEL.get(method, OF_OTHERS) + views * A_VIEW.get(method, A_VIEW_OF_OTHERS)
    return LEAST + each * pixels / 1e6


def writing(pixels: float, *, page: bool) -> tuple[Part, ...]:
    """Files, and the page if there is to be one."""
    parts = [Part(WRITING, LEAST + WRITING_SECONDS * pixels / 1e6)]
    return (*parts, Part(PAGE, LEAST + PAGE_SECONDS * pixels / 1e6)) if page else (*parts,)


def of_fuse(method: str, pixels: float, views: int = VIEWS, *, page: bool) -> tuple[Part, ...]:
    """Kernels, the solve, files."""
    return (KERNELS, Part("", fusing(method, pixels, views)), *writing(pixels, page=page))


def of_sequence(method: str, windows: int, frames: int, pixels: float, *, page: bool) -> tuple[Part, ...]:
    """Frames are read once to know them, then every window is fused and written."""
    each = fusing(method, pixels) + sum(part.seconds for part in writing(pixels, page=page))
    return (Part("reading", 0.1 * frames * pixels / 1e6), KERNELS, Part("window", windows * each))


def of_scene(method: str, views: int, pixels: float, *, cloud: bool, mesh: bool, page: bool) -> tuple[Part, ...]:
    """Neighbours, every view, then what is made of all of them."""
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
    """The scene is rendered, then every method has its turn."""
    return (
        Part("rendering", 1.7 + 2.5 * pixels / 1e6),
        KERNELS,
        *(Part(f"{name}:", fusing(name, pixels)) for name in methods),
        *((Part(PAGE, LEAST + (2.5 + PAGE_OF_A_METHOD * len(methods)) * pixels / 1e6),) if page else ()),
    )


def of_stereo(matcher: str, *, page: bool) -> tuple[Part, ...]:
    """A pair is read, looked at, matched."""
    matching = Part("matching", MATCHING.get(matcher, 1.0))
    last = (Part(PAGE, 1.0),) if page else ()
    return (Part("reading", 0.3), Part("looking", 0.3), matching, Part(WRITING, 1.0), *last)


def of_mosaic(ahead: Sequence[tuple[tuple[str, ...], float]] = (), *, page: bool) -> tuple[Part, ...]:
    """What the mosaic says is ahead of it, by stages; choices from a sample, about as long for any; its page."""
    told = [Part(*each) for each in ahead or ((("laying",), 3.0), (("choosing",), 20.0), ("", 12.0))]
    return (*told, *((Part(PAGE, 1.0),) if page else ()))
