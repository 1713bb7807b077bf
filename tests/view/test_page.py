"""What a page is made of: maps that come back, figures that name the view that is wrong, a size that is kept."""

import base64
import re
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, Result, Stack, View, fuse, fuse_stack
from cfusion.errors import InputError, ShapeError
from cfusion.io.colour_pictures import depth_colours, png_bytes, sigma_colours
from cfusion.solvers import ViewEvidence
from cfusion.view import encode as encoding
from cfusion.view import sections
from cfusion.view.content import Content, median_of_views
from cfusion.view.document import as_json, number
from cfusion.view.encode import PREDICTORS, encode, estimated_size, quantise
from cfusion.view.layers import Layer
from cfusion.view.page import hashes, page, write_page
from cfusion.view.readings import residuals_of_stack, residuals_of_view
from cfusion.view.reliability import reliability
from cfusion.view.view_figures import view_figures

RNG = np.random.default_rng(3)
NOISE = RNG.normal(3, 0.2, (40, 60)).astype(np.float32)
NOISE[5:9, 7:20] = np.nan


def decoded(name: str, text: str, shape: tuple[int, int]) -> np.ndarray:
    """As the page's script does it, one pixel after the other."""
    height, width = shape
    content = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).astype(np.int64)
    codes = content[: height * width] + (256 * content[height * width :] if len(content) > height * width else 0)
    steps = (codes >> 1) ^ -(codes & 1)
    counts = np.zeros((height, width), np.int64)
    for y in range(height):
        for x in range(width):
            left = counts[y, x - 1] if x else 0
            above = counts[y - 1, x] if y else 0
            corner = counts[y - 1, x - 1] if x and y else 0
            plane = min(max(left + above - corner, min(left, above)), max(left, above))
            predicted = {"none": 0, "left": left, "median": plane}[name]
            counts[y, x] = (predicted + steps[y * width + x]) % 65536
    return counts


@pytest.mark.parametrize(
    "values",
    [NOISE, np.full((9, 7), np.nan), np.full((3, 4), 2.5), np.linspace(0, 1e6, 54).reshape(6, 9), np.array([[1.0]])],
    ids=["noise", "unknown", "constant", "slope", "one pixel"],
)
def test_maps_come_back_to_half_a_step(values: np.ndarray) -> None:
    rounded = quantise(values)
    name, text = encode(rounded.counts)
    np.testing.assert_array_equal(decoded(name, text, values.shape), rounded.counts)
    np.testing.assert_allclose(rounded.values(), values, atol=0.5001 * rounded.scale)
    np.testing.assert_array_equal(np.isnan(rounded.values()), np.isnan(values))


@pytest.mark.parametrize("name", list(PREDICTORS))
def test_maps_come_back_by_every_predictor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "PREDICTORS", {name: PREDICTORS[name]})
    counts = np.random.default_rng(4).integers(0, 65536, (6, 5)).astype(np.uint16)
    chosen, text = encode(counts)
    assert chosen == name
    np.testing.assert_array_equal(decoded(name, text, counts.shape), counts)


def test_logarithms_keep_the_relative_error() -> None:
    values = np.exp(RNG.uniform(-9, 5, (30, 30)))
    values[0, 0] = 0.0
    rounded = quantise(values, 0.01, logarithmic=True).values()
    assert np.isnan(rounded[0, 0])
    ratio = rounded[values > 0] / values[values > 0]
    assert np.abs(np.log(ratio)).max() <= 0.00501


def test_sizes_are_foreseen() -> None:
    counts = quantise(RNG.normal(0, 1, (200, 200)), 0.05).counts
    assert estimated_size(counts) == pytest.approx(len(encode(counts)[1]), rel=0.15)
    assert set(PREDICTORS) == {"none", "left", "median"}


def test_residuals_are_along_the_rays_of_the_reference() -> None:
    """A view from elsewhere that measured the true plane has none; one that measures 2 % too far has 2 %."""
    camera = Pinhole(50.0, 50.0, 20.0, 15.0, 40, 30)
    surface = np.full(camera.shape, 2.0, np.float32)
    moved = Pose(np.eye(3), np.array([0.1, 0.05, -0.5]))
    seen = np.full(camera.shape, 2.5)
    exact = residuals_of_view(View(seen, camera, moved), surface, camera, Pose.identity())
    assert np.isfinite(exact).mean() > 0.5
    np.testing.assert_allclose(exact[np.isfinite(exact)], 0.0, atol=1e-5)
    off = residuals_of_view(View(1.02 * seen, camera, moved), surface, camera, Pose.identity())
    np.testing.assert_allclose(off[np.isfinite(off)], 0.05, atol=1e-5)


def test_residuals_of_parallel_rays_and_of_stacks() -> None:
    camera = Orthographic(0.5, 5.0, 4.0, 10, 8)
    surface = np.full(camera.shape, 3.0, np.float32)
    view = View(np.full(camera.shape, 3.5), camera, Pose.identity(), confidence=np.eye(8, 10))
    found = residuals_of_view(view, surface, camera, Pose.identity())
    assert np.isfinite(found).sum() == 8  # no trust, no observation
    np.testing.assert_allclose(found[np.isfinite(found)], 0.5)
    stack = Stack(np.stack([surface + 1, surface - 1]), weights=np.stack([np.ones((8, 10)), np.zeros((8, 10))]))
    assert (residuals_of_stack(stack, surface, 0) == 1).all()
    assert np.isnan(residuals_of_stack(stack, surface, 1)).all()


class TestWhichViewIsWrong:
    """One view differs in one way, and the table says in which."""

    def figures(self, odd: np.ndarray) -> list[str]:
        rng = np.random.default_rng(5)
        v, u = np.mgrid[0:60, 0:80]
        self.surface = (3 + 0.3 * np.sin(u / 9) * np.cos(v / 7)).astype(np.float32)
        maps = [rng.normal(0, 0.02, self.surface.shape).astype(np.float32) for _ in range(6)]
        maps[4] = (maps[4] + odd).astype(np.float32)
        rows = view_figures([f"view {k}" for k in range(6)], lambda k: maps[k], self.surface)
        assert [row.verdict for row in rows if row.name != "view 4"] == [""] * 5
        self.row = rows[4]
        return rows[4].verdict.split("; ")

    def test_no_view(self) -> None:
        assert self.figures(np.zeros((60, 80))) == [""]
        assert self.row.noise == pytest.approx(0.02, rel=0.1)
        assert self.row.effect == pytest.approx(0.02 / 5 * np.sqrt(5 / 6), rel=0.1)

    def test_a_noisy_one(self) -> None:
        (words,) = self.figures(np.random.default_rng(6).normal(0, 0.06, (60, 80)))
        assert words == f"{self.row.noise / 0.02:.1f} times as noisy as the others" or "times as noisy" in words

    def test_a_biased_one(self) -> None:
        assert self.figures(np.full((60, 80), 0.05)) == ["measures 0.0496 too far"] or self.row.bias > 0.045
        assert "too far" in self.row.verdict

    def test_a_shifted_one(self) -> None:
        self.figures(np.zeros((60, 80)))
        words = self.figures(np.roll(self.surface, -2, axis=1) - self.surface)
        assert any("looks shifted by" in each for each in words)
        assert 1.2 < self.row.shift < 2.8

    def test_one_of_another_place(self) -> None:
        words = self.figures(np.random.default_rng(6).uniform(-2, 2, (60, 80)))
        assert any("agrees with the surface" in each for each in words)

    def test_one_that_sees_nothing(self) -> None:
        assert self.figures(np.full((60, 80), np.nan)) == ["sees next to nothing of this surface"]


def test_the_median_of_views_is_numpys() -> None:
    maps = [np.where(RNG.random((8, 9)) < 0.3, np.nan, RNG.normal(0, 1, (8, 9))).astype(np.float32) for _ in range(5)]
    with np.errstate(invalid="ignore"):
        expected = np.array(
            [[np.nanmedian(v) if np.isfinite(v).any() else np.nan for v in row] for row in np.moveaxis(maps, 0, -1)]
        )
    np.testing.assert_allclose(median_of_views(np.zeros((8, 9), np.float32), maps), expected, rtol=1e-6)


def test_the_best_of_each_column_is_marked_and_no_other() -> None:
    scores = ({"name": "auto", "rmse": 1.0, "density": 0.5}, {"name": "l1", "rmse": 2.0, "density": 0.75})
    told = sections.scores_section(Content("m", (SimpleNamespace(depth=NOISE),), scores=scores))
    rows = [row for row in told.split("<tr>") if "</td>" in row]
    best, rest = ([re.findall(rf"<td{mark}>([^<]*)</td>", row) for row in rows] for mark in (' class="best"', ""))
    assert best == [["1.0000"], ["0.8"]]
    assert rest == [["0.5"], ["2.0000"]]


def test_a_page_with_the_truth_draws_how_honest_sigma_is() -> None:
    rng = np.random.default_rng(0)
    truth = np.full((60, 80), 2.0, np.float32)
    sigma = np.exp(rng.uniform(-4, 0, truth.shape)).astype(np.float32)
    found = SimpleNamespace(depth=truth + rng.normal(0, sigma).astype(np.float32), method="auto", sigma=sigma)
    without, with_it = (sections.solve_section(Content("m", (found,), truth=each)) for each in (None, truth))
    assert (without.count("<svg"), without.count('class="reliability"')) == (0, 0)
    assert (with_it.count("<svg"), with_it.count('class="reliability"')) == (1, 1)


def test_reliability_tells_honest_from_boastful() -> None:
    sigma = np.exp(RNG.normal(-3, 0.5, (100, 100)))
    truth = np.full(sigma.shape, 2.0)
    depth = truth + sigma * RNG.normal(0, 1, sigma.shape)
    honest = reliability(depth, sigma, truth)
    assert honest is not None
    assert "honest" in honest.sentence
    assert honest.within_one == pytest.approx(0.683, abs=0.02)
    boastful = reliability(depth, sigma / 3, truth)
    assert boastful is not None
    assert "too small" in boastful.sentence
    assert reliability(depth, np.full_like(sigma, np.nan), truth) is None


def test_pictures_are_png_and_unknown_is_transparent() -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    for colours in (depth_colours(NOISE), sigma_colours(NOISE)):
        shown = np.asarray(image.open(io.BytesIO(png_bytes(colours))))
        np.testing.assert_array_equal(shown, colours)
        np.testing.assert_array_equal(shown[..., 3] == 0, np.isnan(NOISE))
    for shape in ((5, 7), (5, 7, 3), (5, 3)):  # grey, colour, and grey that is three pixels wide
        levels = RNG.integers(0, 256, shape, dtype=np.uint8)
        np.testing.assert_array_equal(np.asarray(image.open(io.BytesIO(png_bytes(levels)))), levels)


def test_json_cannot_leave_its_script() -> None:
    assert "<" not in as_json({"name": "</script><script>alert(1)</script><!--"})


def test_a_page_needs_no_more_than_depth_and_a_name(result: Result) -> None:
    bare = SimpleNamespace(depth=NOISE, method="mine & <yours>")
    html = page(Content("bare", [bare]))
    assert "mine &amp; &lt;yours&gt;" in html
    assert not re.search(r"(src|href)=|url\(|@import|https?://", html)
    assert "Which view is wrong" not in html
    with pytest.raises(ShapeError, match="must have one shape"):
        Content("two", [result, bare])


def test_a_result_brings_its_own_record_of_views(result: Result) -> None:
    maps = {"support": np.ones((4, 5), bool), "contradiction": np.zeros((4, 5), bool)}
    own = ViewEvidence(
        **maps,
        residual=np.full((4, 5), 0.25, np.float32),
        noise=1.5,
        bias=0.0,
        scale_factor=1.0,
        registration=0.0,
        share_kept=0.5,
        effect=0.25,
        sentence="view 0: it is upside down",
    )
    html = page(Content("own", [replace(result, views=(own,))]))
    assert '<td class="verdict">it is upside down</td>' in html
    assert '"residual-0"' in html


@pytest.mark.slow
def test_a_page_of_640_by_480_is_within_four_megabytes() -> None:
    """Noise does not compress: a full image of it, eleven views, with truth."""
    rng = np.random.default_rng(0)
    v, u = np.mgrid[0:480, 0:640]
    truth = (3 + 0.3 * np.sin(u / 40) * np.cos(v / 50)).astype(np.float32)
    depths = (truth + rng.laplace(0, 0.1, (11, 480, 640))).astype(np.float32)
    shown = SimpleNamespace(
        depth=truth + rng.normal(0, 0.01, truth.shape).astype(np.float32),
        sigma=np.exp(rng.normal(-4, 0.3, truth.shape)).astype(np.float32),
        confidence=np.exp(rng.normal(0, 0.3, truth.shape)).astype(np.float32),
        provenance=rng.integers(8, 12, truth.shape).astype(np.int16),
        image=rng.random((480, 640, 3)).astype(np.float32),
        method="auto",
    )
    html = page(Content("large", [shown], views=Stack(depths), reference=5, truth=truth))
    assert len(html.encode()) <= 4_000_000


def test_a_result_without_a_count_of_iterations_has_its_sentence():
    """A scene keeps the gap of every view, and not how it was reached."""
    from types import SimpleNamespace

    from cfusion.view.sections import sentences

    (sentence,) = sentences(SimpleNamespace(gap=1e-3))
    assert sentence == "The energy is certified to be at most 0.1 % above its minimum."


def test_a_view_that_is_partly_hidden_is_not_accused() -> None:
    """Beside what hides the surface, readings are off to one side; that is no bias, no noise and no shift."""
    rng = np.random.default_rng(0)
    row, column = np.mgrid[:120, :160]
    surface = (3 + 0.01 * column + 0.004 * row).astype(np.float32)
    maps = [rng.normal(0, 0.01, surface.shape).astype(np.float32) for _ in range(5)]
    maps[0][:, :36] = -1.5
    maps[0][:, 36:40] -= np.linspace(0.05, 0.02, 4, dtype=np.float32)
    figures = view_figures([f"v{k}" for k in range(5)], lambda k: maps[k], surface)
    assert [each.verdict for each in figures] == [""] * 5
    assert abs(figures[0].bias) < 0.001
    assert figures[0].noise == pytest.approx(0.01, rel=0.05)
    assert figures[0].kept == pytest.approx(1 - 36 / 160, abs=0.02)


def test_what_auto_compared_is_a_sentence(result: Result) -> None:
    chosen = {"alpha": (1.0, 2.0), "margins": ((0.5, 0.02), (0.71, 0.001), (1.41, 0.003), (2.0, -0.0005))}
    told = sections.sentences(replace(result, method="auto", parameters=chosen))
    (sentence,) = [each for each in told if "held out were predicted" in each]
    assert "at 1.4 times these weights (smoother) 0.3 % worse" in sentence
    assert "at 0.71 times these weights (rougher) 0.1 % worse" in sentence


def test_notes_set_code_between_backquotes_and_nothing_else() -> None:
    assert sections.with_code("run `cfusion view <b>` now") == "run <code>cfusion view &lt;b&gt;</code> now"


def test_a_layer_is_rounded_by_steps_unless_it_says_otherwise() -> None:
    """Errors are negative as well, and have no logarithm."""
    values = np.array([[-0.52, 0.0, 0.31]], np.float32)
    np.testing.assert_allclose(Layer("error", values, step=0.01).finest().values(), values, atol=0.0051)


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "0.123"), (123.4, "123"), (1.2345e-5, "1.23e-05"), (None, "-"), (np.inf, "-")]
)
def test_numbers_for_people_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_the_page_of_a_mosaic_names_the_raster_that_is_wrong() -> None:
    from cfusion.cli.report_of_many import raster_figures
    from cfusion.rasters.coregister import Placement
    from cfusion.rasters.report import RasterReport

    def raster(name: str, offset: float, shift: tuple[float, float] = (0.0, 0.0), kept: float = 0.97) -> RasterReport:
        return RasterReport(name, Placement(offset, shift=shift), Placement(), 0.5, 900, kept)

    rasters = [raster("a", -0.3), raster("b", -0.3), raster("<c>", 1.7), raster("d", -0.3, (3.0, 4.0), 0.2)]
    figures = raster_figures(rasters)
    assert [each.bias for each in figures] == pytest.approx([0.0, 0.0, 2.0, 0.0])
    assert [each.verdict for each in figures[:3]] == ["", "", "measures 2 too high"]
    lies_elsewhere = "only 20 % of it agrees with the surface: another place, or time"
    assert figures[3].verdict == f"{lies_elsewhere}; looks shifted by 5.0 pixels: pass --coregister"
    section = sections.rasters_section(figures, "metre")
    assert "2 of 4 rasters stand out" in section
    assert "&lt;c&gt;" in section
    assert "offset [m]" in section
    assert sections.rasters_section((), "metre") == ""


def test_a_mosaic_is_explained_as_one(result: Result) -> None:
    chosen = {"alpha": (1.0, 2.0), "weights": (1.0, 1.0)}
    heights = SimpleNamespace(depth=result.depth, method="auto", parameters=chosen)
    words = sections.solve_section(Content("m", (heights,), heights=True))
    assert "height models" in words
    assert "By leaving rasters out, auto chose the weights alpha = (1, 2); all rasters count alike." in words
    heights.parameters = {**chosen, "weights": (1.0, 0.5)}
    assert "rasters count by their noise" in sections.solve_section(Content("m", (heights,), heights=True))
    assert "Every view is read" in sections.solve_section(Content("m", (heights,)))


def test_a_page_refuses_what_are_no_views_of_it(result: Result, tmp_path: Path) -> None:
    stack = Stack(np.ones((3, 4, 5)))
    for views, reference, says in (
        (stack, 3, "reference 3 is not one of the 3 views; choose 0 to 2"),
        ([np.ones((4, 5))], None, "write_page needs cfusion.View, not ndarray"),
        ("data", None, "write_page needs views, not a path; read it first"),
    ):
        with pytest.raises(InputError, match=says):
            write_page(tmp_path / "page.html", result, views=views, reference=reference)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_page_of_registered_maps_compares_each_with_the_surface(tmp_path: Path) -> None:
    depths = np.full((3, 8, 10), 2.0, np.float32)
    depths[1], depths[2] = 2.25, 1.75
    maps = Stack(depths, weights=np.array([1.0, 1.0, 0.0])[:, None, None] * np.ones((3, 8, 10)))
    found = fuse_stack(maps, "median", backend="numpy")
    residuals = Content("maps", (found,), views=maps, reference=0).residuals()
    assert residuals is not None
    assert np.nanmax(np.abs(residuals(1) - (2.25 - found.depth))) < 1e-6
    assert np.isnan(residuals(2)).all()  # its weight is zero: no observation
    content = Content("maps", (found,), views=maps, reference=0)
    assert content.view_records(None) == ()
    assert len(content.view_records(residuals)) == 3
    write_page(tmp_path / "page.html", found, views=maps)
    stated = hashes(Content("maps", (found,), views=maps))["input depths"]
    assert stated in (tmp_path / "page.html").read_text()
    assert stated == hashes(Content("maps", (found,), views=Stack(depths.copy())))["input depths"]
    assert stated != hashes(Content("maps", (found,), views=Stack(depths + np.float32(0.001))))["input depths"]


@pytest.mark.parametrize("shape", [(1, 30), (30, 1), (1, 1)])
def test_a_page_of_one_row_or_column(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    camera = Pinhole(30, 30, shape[1] / 2, shape[0] / 2, shape[1], shape[0])
    views = [View(rng.normal(2, 0.01, shape), camera, Pose.identity()) for _ in range(3)]
    result = fuse(views, "median", backend="numpy")
    assert "</html>" in page(Content(title="narrow", results=(result,), views=views, reference=1))
