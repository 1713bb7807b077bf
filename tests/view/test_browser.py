"""The page in a real browser, from disk: it draws, reads, moves, and asks nothing of a network."""

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import Result, View, fuse
from cfusion.report.tables import score_row
from cfusion.view import write_page

from .conftest import HEIGHT, WIDTH, scene_truth

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def page_file(fused: tuple[list[View], Result], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from cfusion import evaluate

    views, result = fused
    mean = fuse(views, "mean", reference=2, backend="numpy")
    truth = scene_truth()
    scores = [score_row(each.method, evaluate(each.depth, truth, each.camera)) for each in (result, mean)]
    return write_page(
        tmp_path_factory.mktemp("page") / "report.html",
        result,
        others=[mean],
        views=views,
        reference=2,
        truth=truth,
        scores=scores,
        title="<script>alert('title')</script> & more",
        command="cfusion fuse '<b>' -o out",
    )


class Seen:
    """A page that is open, and everything that went wrong while it was."""

    def __init__(self, browser: Any, file: Path, **how: Any) -> None:
        self.context = browser.new_context(reduced_motion="reduce", **how)
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("a dialog opened"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=30_000)

    def read(self, column: int, row: int, kind: str = "depth") -> dict[str, str]:
        """Point at a pixel of a map; what the page says about it."""
        canvas = self.page.locator(f'#maps canvas[data-kind="{kind}"]')
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        scale = box["width"] / WIDTH
        self.page.mouse.move(box["x"] + (column + 0.5) * scale, box["y"] + (row + 0.5) * scale)
        self.page.wait_for_selector(f'#reading h3:text-is("column {column}, row {row}")')
        cells = self.page.locator("#reading dd")
        return {each.get_attribute("data-read"): each.inner_text() for each in cells.all()}

    def pixels(self, selector: str) -> np.ndarray:
        """What is drawn there, as (H, W, 4)."""
        address = self.page.locator(selector).evaluate("canvas => canvas.toDataURL('image/png')")
        picture = pytest.importorskip("PIL.Image").open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
        return np.asarray(picture.convert("RGBA"))

    def drawn(self) -> int:
        return int(self.page.get_attribute("html", "data-drawn") or 0)

    def wait_for_drawing(self, before: int) -> None:
        for _ in range(200):
            if self.drawn() > before:
                return
            self.page.wait_for_timeout(20)
        raise AssertionError("nothing was drawn again")


@pytest.fixture(scope="module")
def seen(browser: Any, page_file: Path) -> Iterator[Seen]:
    opened = Seen(browser, page_file, viewport=DESK)
    yield opened
    opened.context.close()


def number(text: str) -> float:
    found = re.match(r"[-+.\deE]+", text)
    assert found, text
    return float(found.group())


def test_it_opens_from_disk_without_a_word_and_without_a_network(seen: Seen, page_file: Path) -> None:
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(("data:", "blob:"))] == [page_file.as_uri()]


@pytest.mark.parametrize(("column", "row"), [(40, 30), (95, 71), (20, 60)])
def test_hover_reads_what_the_result_has(seen: Seen, fused: tuple[list[View], Result], column: int, row: int) -> None:
    views, result = fused
    said = seen.read(column, row)
    span = float(np.nanmax(result.depth) - np.nanmin(result.depth))
    assert number(said["depth"]) == pytest.approx(result.depth[row, column], abs=span / 65534 + 1e-5)
    assert number(said["sigma"]) == pytest.approx(result.sigma[row, column], rel=0.01)
    assert number(said["confidence"]) == pytest.approx(result.confidence[row, column], rel=0.01)
    assert number(said["provenance"]) == result.provenance[row, column]
    assert number(said["input"]) == pytest.approx(views[2].depth[row, column], abs=1e-3)
    assert number(said["truth"]) == pytest.approx(scene_truth()[row, column], abs=1e-3)
    assert number(said["error"]) == pytest.approx(result.depth[row, column] - scene_truth()[row, column], abs=1e-3)
    residuals = seen.page.locator("#reading [data-residual]").all_inner_texts()
    for view, text in zip(views, residuals, strict=True):
        assert number(text) == pytest.approx(view.depth[row, column] - result.depth[row, column], abs=0.01)


def test_hover_says_unknown_where_nothing_is_known(seen: Seen) -> None:
    said = seen.read(5, 5)
    assert (said["depth"], said["provenance"]) == ("unknown", "nothing known")


def test_the_surface_is_drawn_and_turns_by_key_and_mouse(seen: Seen) -> None:
    first = seen.pixels("#gl")
    ground = first[0, 0]
    assert (np.abs(first.astype(int) - ground).max(axis=-1) > 20).mean() > 0.1  # not empty
    before = seen.drawn()
    seen.page.focus("#gl")
    seen.page.keyboard.press("ArrowLeft")
    seen.wait_for_drawing(before)
    turned = seen.pixels("#gl")
    assert (turned != first).any()
    before = seen.drawn()
    seen.page.keyboard.press("r")
    seen.wait_for_drawing(before)
    np.testing.assert_array_equal(seen.pixels("#gl"), first)


@pytest.mark.parametrize("colour", ["depth", "sigma", "confidence", "provenance", "normals", "image", "error"])
def test_the_surface_takes_every_colour(seen: Seen, colour: str) -> None:
    plain = seen.pixels("#gl")
    before = seen.drawn()
    seen.page.click(f'#surface-controls [data-chip="{colour}"]')
    seen.wait_for_drawing(before)
    assert (seen.pixels("#gl") != plain).any()
    before = seen.drawn()
    seen.page.click('#surface-controls [data-chip="surface"]')
    seen.wait_for_drawing(before)


def test_the_slider_moves_by_key(seen: Seen) -> None:
    seen.page.locator("#compare").scroll_into_view_if_needed()
    seen.page.focus("#divider")
    seen.page.keyboard.press("Home")
    all_right = seen.pixels("#compare")
    seen.page.keyboard.press("End")
    all_left = seen.pixels("#compare")
    assert (all_left[:, 4:-4] != all_right[:, 4:-4]).any(axis=-1).mean() > 0.1
    assert seen.page.input_value("#divider") == "1000"
    seen.page.select_option("#compare-left", label="truth")
    seen.page.wait_for_timeout(300)
    assert (seen.pixels("#compare") != all_left).any()


def test_zoom_is_linked_and_keys_move_the_reading(seen: Seen) -> None:
    seen.read(40, 30)
    before = [seen.pixels(f'#maps canvas[data-kind="{kind}"]') for kind in ("depth", "sigma")]
    seen.page.focus('#maps canvas[data-kind="depth"]')
    seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_selector('#reading h3:text-is("column 41, row 30")')
    for _ in range(4):
        seen.page.keyboard.press("+")
    after = [seen.pixels(f'#maps canvas[data-kind="{kind}"]') for kind in ("depth", "sigma")]
    assert all((one != other).any(axis=-1).mean() > 0.2 for one, other in zip(before, after, strict=True))
    seen.page.keyboard.press("0")


def test_methods_switch(seen: Seen, fused: tuple[list[View], Result]) -> None:
    tabs = seen.page.locator("#methods [role=tab]")
    assert tabs.all_inner_texts() == ["median", "mean"]
    seen.page.click("#methods [role=tab]:nth-child(2)")
    views, result = fused
    mean = np.mean([view.depth for view in views], axis=0)
    seen.page.wait_for_selector('#maps canvas[data-kind="depth"]')
    assert number(seen.read(50, 40)["depth"]) == pytest.approx(mean[40, 50], abs=2e-3)
    assert seen.page.locator("#solve .exhibit:visible").count() == 1
    seen.page.focus("#methods [aria-selected=true]")
    seen.page.keyboard.press("ArrowLeft")
    seen.page.wait_for_selector('#methods [role=tab]:nth-child(1)[aria-selected="true"]')
    assert number(seen.read(51, 40)["depth"]) == pytest.approx(result.depth[40, 51], abs=1e-4)


def test_names_stay_text_and_the_odd_view_is_named(seen: Seen) -> None:
    assert seen.page.locator("h1").inner_text() == "<script>alert('title')</script> & more"
    assert "<script>alert(1)</script>" in seen.page.locator("#odd").inner_text()
    assert "times as noisy as the others" in seen.page.locator("#view-table").inner_text()
    assert seen.complaints == []


def test_metrics_are_explained_where_they_are_named(seen: Seen) -> None:
    seen.page.focus('#score-table abbr:text-is("RMSE")')
    assert "mean squared depth error" in seen.page.locator("#words").inner_text()
    seen.page.keyboard.press("Escape")
    assert seen.page.locator("#words").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(browser: Any, page_file: Path, scheme: str) -> None:
    phone = Seen(browser, page_file, viewport=PHONE, has_touch=True, color_scheme=scheme)
    width = phone.page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= PHONE["width"]
    paper = phone.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(level) for level in re.findall(r"\d+", paper)[:3]) / 3
    assert brightness > 200 if scheme == "light" else brightness < 60
    canvas = phone.page.locator('#maps canvas[data-kind="depth"]')
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    phone.page.touchscreen.tap(box["x"] + 0.5 * box["width"], box["y"] + 0.25 * box["height"])
    phone.page.wait_for_selector(f'#reading h3:text-is("column {WIDTH // 2}, row {HEIGHT // 4}")')
    assert phone.complaints == []
    phone.context.close()
