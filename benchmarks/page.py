"""Size of the page, and time until it draws: python -m benchmarks.page [width]

The page of eleven noisy views (the demo's object, every layer, with truth), and the demo's page with six methods.
Opened from disk in Chromium (WebGL in software), the times counted by the browser from the start of the navigation:
first paint (words and tables), and ready (maps, slider and 3-D drawn). `write` is CPU time of this process.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import cfusion
from cfusion.report.tables import result_row
from cfusion.synthetic import PAPER_CAMERA, Laplace, blob, object_bundle
from cfusion.view import write_page

VIEWS, RUNS = 11, 3
LIMIT = 4_000_000  # bytes at 640 x 480
METHODS = ("median", "mean", "rof", "l1", "l1-heuristic", "input")  # what is drawn does not depend on how it was found
SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox")


def main(width: int = 640) -> None:
    """Make both pages, open each a few times, print a table."""
    camera = PAPER_CAMERA.scaled(width / PAPER_CAMERA.width)
    views, truth = object_bundle(blob(), Laplace(0.6), np.random.default_rng(0), VIEWS, camera=camera)
    results = [cfusion.fuse(views, method, reference=VIEWS // 2) for method in METHODS]
    rows = [result_row(each, cfusion.evaluate(each.depth, truth, camera)) for each in results]
    print(f"{'page':12} {'pixels':>10} {'MB':>6} {'write s':>8} {'first paint s':>14} {'ready s':>8}")
    with tempfile.TemporaryDirectory() as place:
        for name, others in (("one result", []), ("six methods", results[1:])):
            file = Path(place) / f"{name}.html"
            began = time.process_time()
            more = {"truth": truth, "others": others, "scores": rows if others else ()}
            write_page(file, results[0], views=views, reference=VIEWS // 2, **more)
            wrote = time.process_time() - began
            paint, ready = opened(file)
            size = file.stat().st_size
            pixels = f"{camera.width} x {camera.height}"
            print(f"{name:12} {pixels:>10} {size / 1e6:6.2f} {wrote:8.2f} {paint:14.2f} {ready:8.2f}")
            assert size <= LIMIT * max(1.0, width / 640) ** 2, f"{name} is {size} bytes"


def opened(file: Path) -> tuple[float, float]:
    """Seconds until something is painted and until all is drawn, the best of a few; NaN without a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return float("nan"), float("nan")
    found = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
    with sync_playwright() as running:
        if found is None and not Path(running.chromium.executable_path).exists():
            return float("nan"), float("nan")
        browser = running.chromium.launch(executable_path=found, args=list(SOFTWARE_GL))
        times = [_times(browser, file) for _ in range(RUNS)]
        browser.close()
    return min(paint for paint, _ in times), min(ready for _, ready in times)


def _times(browser: Any, file: Path) -> tuple[float, float]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(
        "new MutationObserver(() => { if (document.documentElement.dataset.ready && !window.readyAt)"
        " window.readyAt = performance.now(); }).observe(document, { subtree: true, attributes: true })"
    )
    page.goto(file.as_uri())
    page.wait_for_function("() => window.readyAt", timeout=60_000)
    paint = page.evaluate("() => performance.getEntriesByType('paint').map((each) => each.startTime)[0] ?? NaN")
    ready = page.evaluate("() => window.readyAt")
    page.close()
    return paint / 1000, ready / 1000


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:]))
