"""A small scene whose truth is known, its result, and a browser to look at its page."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Result, View, fuse

WIDTH, HEIGHT, VIEWS = 96, 72, 5
SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox")


def scene_truth() -> np.ndarray:
    """A bump before a slanted wall, and a corner that nobody saw."""
    v, u = np.mgrid[0:HEIGHT, 0:WIDTH]
    depth = 3.0 + 0.004 * u + 0.4 * np.exp(-((u - 40.0) ** 2 + (v - 30.0) ** 2) / 300.0)
    depth[:12, :12] = np.nan
    return depth


def scene_views(seed: int = 0) -> list[View]:
    """Views from one place, noisy; the last is called `<script>` and is four times as noisy."""
    rng = np.random.default_rng(seed)
    camera = Pinhole(90.0, 90.0, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)
    image = np.clip(scene_truth() - 3, 0, 1)
    views = []
    for k in range(VIEWS):
        last = k == VIEWS - 1
        noisy = scene_truth() + rng.laplace(0, 0.08 if last else 0.02, (HEIGHT, WIDTH))
        name = "<script>alert(1)</script>" if last else f"view {k}"
        views.append(View(noisy, camera, Pose.identity(), image=np.nan_to_num(image), name=name))
    return views


@pytest.fixture(scope="session")
def fused() -> tuple[list[View], Result]:
    views = scene_views()
    return views, replace(fuse(views, "median", reference=2, backend="numpy"), seconds=1.0)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium through Playwright, with WebGL in software; skipped with the reason where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    with playwright.sync_playwright() as running:
        if found is None and not Path(running.chromium.executable_path).exists():
            pytest.skip("there is no Chromium on the PATH, and none of Playwright's (playwright install chromium)")
        launched = running.chromium.launch(executable_path=found, args=list(SOFTWARE_GL))
        yield launched
        launched.close()
