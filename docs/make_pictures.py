"""Make the pictures of the gallery, all from built-in scenes: python docs/make_pictures.py [NAME ...]

Each example is run as a script, small, and what it leaves behind is drawn. The last two are looked at with a browser
(Playwright and Chromium). Files are small: PNG with few colours, or JPEG where there is noise.
"""

import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import cfusion
from cfusion.io.colour_pictures import depth_colours, sigma_colours

ROOT = Path(__file__).parent.parent
TARGET = Path(__file__).parent / "pictures"
WIDTH, GAP, HEADING = 236, 8, 26  # pixels
SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox")
Panel = tuple[str, NDArray[np.uint8]]


def surface(depth: NDArray[Any], camera: Any) -> NDArray[np.uint8]:
    """(H, W, 4) the surface in grey under a light from the upper left."""
    normal = cfusion.normals(np.asarray(depth), camera)
    light = np.array([-0.5, -0.6, -0.62])
    shade = np.clip(normal @ (light / np.linalg.norm(light)), 0, 1)
    grey = np.where(np.isfinite(shade), 40 + 205 * np.nan_to_num(shade), 255).astype(np.uint8)
    return np.dstack([grey, grey, grey, np.full_like(grey, 255)])


def sheet(columns: Sequence[Sequence[Panel]], name: str, width: int = WIDTH) -> None:
    """Columns of panels under their headings, as one picture."""
    panels = [[(heading, _scaled(picture, width)) for heading, picture in column] for column in columns]
    heights = [max(column[row][1].height for column in panels) for row in range(len(panels[0]))]
    size = (len(panels) * (width + GAP) + GAP, sum(height + HEADING for height in heights) + GAP)
    paper = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(paper), ImageFont.load_default(13)
    for at, column in enumerate(panels):
        left, top = GAP + at * (width + GAP), 0
        for row, (heading, picture) in enumerate(column):
            draw.text((left + width / 2, top + HEADING / 2 + 2), heading, fill="#333333", font=font, anchor="mm")
            paper.paste(picture, (left, top + HEADING))
            top += heights[row] + HEADING
    _save(paper, name)


def _scaled(picture: NDArray[np.uint8], width: int) -> Image.Image:
    found = Image.fromarray(picture).convert("RGBA")
    paper = Image.new("RGBA", found.size, "white")
    paper.alpha_composite(found)
    size = (width, round(width * found.height / found.width))
    return paper.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def _save(picture: Image.Image, name: str) -> None:
    """As PNG with a palette, or as JPEG, whichever is smaller."""
    TARGET.mkdir(exist_ok=True)
    for old in TARGET.glob(f"{name}.*"):
        old.unlink()
    png, jpg = BytesIO(), BytesIO()
    picture.quantize(128, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    picture.save(jpg, "JPEG", quality=82, optimize=True)
    smaller, ending = min(((png, "png"), (jpg, "jpg")), key=lambda each: len(each[0].getvalue()))
    if name == "demo":  # the README names it
        smaller, ending = png, "png"
    (TARGET / f"{name}.{ending}").write_bytes(smaller.getvalue())
    print(f"{name}.{ending} {len(smaller.getvalue()) // 1024} KiB")


def example(number: str, width: int) -> dict[str, Any]:
    """What the names of an example mean after it has run."""
    (path,) = (ROOT / "examples").glob(f"{number}_*.py")
    before, sys.argv = sys.argv, [str(path), str(width)]
    try:
        return runpy.run_path(str(path))
    finally:
        sys.argv = before


def demo() -> None:
    found = example("01", 320)
    views, truth, best = found["views"], found["truth"], found["result"]
    middle = views[len(views) // 2]
    median = cfusion.fuse(views, "median")
    columns = []
    limits = float(np.nanmin(truth)), float(np.nanmax(truth))
    for name, depth in (("truth", truth), ("one view", middle.depth), ("median", median.depth), ("auto", best.depth)):
        error = "" if name == "truth" else f": RMSE {cfusion.evaluate(depth, truth).rmse:.3f}"
        columns.append([(name + error, depth_colours(depth, limits)), ("", surface(depth, middle.camera))])
    sheet(columns, "demo")
    panels = [("one view", surface(middle.depth, middle.camera)), ("fused", surface(best.depth, middle.camera))]
    panels += [("sigma", sigma_colours(best.sigma)), ("views per pixel", depth_colours(best.provenance))]
    sheet([[panel] for panel in panels], "01_fuse_views")


def height_maps() -> None:
    found = example("02", 240)
    result, surveys = found["result"], found["surveys"]
    limits = float(np.nanmin(result.depth)), float(np.nanmax(result.depth))
    panels = [
        ("one of five surveys", depth_colours(surveys[0], limits)),
        ("fused", depth_colours(result.depth, limits)),
    ]
    panels += [("the truth", depth_colours(found["height"], limits)), ("provenance", depth_colours(result.provenance))]
    sheet([[panel] for panel in panels], "02_height_maps")


def certificate() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = example("03", 160)
    figure, axes = plt.subplots(figsize=(6.4, 3.0), dpi=110)
    steps = np.arange(1, len(found["energies"]) + 1)
    axes.fill_between(steps, found["bounds"], found["energies"], alpha=0.2, label="here the minimum lies")
    axes.plot(steps, found["energies"], "o-", label="energy reached")
    axes.plot(steps, found["bounds"], "o-", label="certified lower bound")
    axes.set_xlabel("tolerance, from loose to tight")
    axes.set_ylabel("energy")
    axes.legend()
    figure.tight_layout()
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    _save(Image.open(drawn).convert("RGB"), "03_certificate")


def confidence() -> None:
    found = example("04", 320)
    result, truth, views = found["result"], found["truth"], found["views"]
    limits = float(np.nanmin(truth)), float(np.nanmax(truth))
    panels = [("one view", depth_colours(views[len(views) // 2].depth, limits))]
    panels += [("fused", depth_colours(result.depth, limits)), ("its actual error", sigma_colours(found["error"]))]
    panels += [("its sigma", sigma_colours(result.sigma))]
    sheet([[panel] for panel in panels], "04_confidence")


def bundle() -> None:
    found = example("05", 200)
    result, views = found["result"], found["views"]
    limits = float(np.nanmin(result.depth)), float(np.nanmax(result.depth))
    panels = [(f"view {k}", depth_colours(view.depth, limits)) for k, view in enumerate(views)]
    sheet([[panel] for panel in [*panels, ("fused", depth_colours(result.depth, limits))]], "05_bundle")


@contextmanager
def browser() -> Any:
    import shutil

    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        found = next(
            (path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None
        )
        launched = running.chromium.launch(executable_path=found, args=list(SOFTWARE_GL))
        yield launched
        launched.close()


def _room(folder: Path, views: int) -> None:
    from cfusion.datasets import write_bundle
    from cfusion.synthetic import PAPER_CAMERA, Laplace, object_bundle, room

    camera = PAPER_CAMERA.scaled(320 / PAPER_CAMERA.width)
    seen, truth = object_bundle(room(), Laplace(0.05), np.random.default_rng(0), views, camera=camera)
    write_bundle(seen, folder)
    np.save(folder.parent / "truth.npy", truth)


def page() -> None:
    """The page of a fused room, at desk width."""
    with tempfile.TemporaryDirectory() as place:
        _room(Path(place) / "room", 7)
        views = cfusion.read(Path(place) / "room")
        result = cfusion.fuse(views, reference=3)
        truth = np.load(Path(place) / "truth.npy")
        file = result.report(Path(place) / "report.html", views=views, reference=3, truth=truth, title="A room, fused")
        with browser() as running:
            opened = running.new_page(viewport={"width": 1280, "height": 1420})
            opened.goto(file.as_uri())
            opened.wait_for_selector("html[data-ready]", state="attached")
            opened.wait_for_timeout(800)
            shot = Image.open(BytesIO(opened.screenshot())).convert("RGB")
    _save(shot.resize((900, round(900 * shot.height / shot.width)), Image.Resampling.LANCZOS), "page")


def viewer() -> None:
    """`cfusion view` on a scene."""
    with tempfile.TemporaryDirectory() as place:
        _room(Path(place) / "room", 7)
        command = [sys.executable, "-m", "cfusion"]
        scene = ["scene", str(Path(place) / "room"), "-o", str(Path(place) / "out"), "--neighbours", "4", "--quiet"]
        subprocess.run([*command, *scene], check=True)
        arguments = ["view", str(Path(place) / "out"), "--port", "18700"]
        serving = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True, env=os.environ)
        try:
            assert serving.stdout is not None
            address = re.search(r"http://\S+", serving.stdout.readline())
            assert address
            with browser() as running:
                opened = running.new_page(viewport={"width": 1200, "height": 640})
                opened.goto(address.group())
                opened.wait_for_timeout(9000)
                opened.locator("input[role=combobox][value='depth']").first.click()
                opened.get_by_role("option", name="image", exact=True).click()
                opened.get_by_role("button", name="×").or_(opened.locator(".mantine-CloseButton-root")).first.click()
                opened.wait_for_timeout(6000)
                shot = Image.open(BytesIO(opened.screenshot())).convert("RGB")
        finally:
            serving.terminate()
    _save(shot.resize((900, 480), Image.Resampling.LANCZOS), "viewer")


PICTURES: dict[str, Callable[[], None]] = {
    "demo": demo,
    "02_height_maps": height_maps,
    "03_certificate": certificate,
    "04_confidence": confidence,
    "05_bundle": bundle,
    "page": page,
    "viewer": viewer,
}


def main() -> None:
    """Those asked for, or all."""
    for name in sys.argv[1:] or list(PICTURES):
        PICTURES[name]()


if __name__ == "__main__":
    main()
