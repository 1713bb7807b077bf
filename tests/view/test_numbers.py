"""Exact values of what a page and the viewer count with, on maps of a few pixels."""

import base64
import math
import zlib
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, Stack, View
from cfusion.report.page import html_table
from cfusion.view import clouds, diagrams, document, encode, layers, levels, maps, page, sections, viewer
from cfusion.view.content import Content, Event, shown_views
from cfusion.view.encode import Quantised, quantise
from cfusion.view.frames import Maps
from cfusion.view.layers import Layer, coded
from cfusion.view.readings import names_of, residuals_of_view
from cfusion.view.reliability import Reliability, reliability
from cfusion.view.view_figures import ViewFigures, _block_sums, _effect, _shift, _spread, judged

NAN = float("nan")
ELSEWHERE = "only 40 % of it agrees with the surface: another place, or a wrong pose"


class TestQuantise:
    def test_counts_begin_at_one_and_zero_is_unknown(self) -> None:
        found = quantise(np.array([[2.0, 2.25, NAN, 3.0]]), 0.25)
        assert found.counts.tolist() == [[1, 2, 0, 5]]
        assert (found.scale, found.offset) == (0.25, 1.75)
        np.testing.assert_array_equal(found.values(), [[2.0, 2.25, NAN, 3.0]])

    def test_sixteen_bits_are_used_up_where_no_step_is_given(self) -> None:
        found = quantise(np.array([0.0, 65534.0]))
        assert found.counts.tolist() == [1, 65535]
        assert found.scale == 1.0
        assert quantise(np.array([0.0, 65534.0]), 0.5).scale == 1.0  # finer does not fit
        assert quantise(np.array([3.0, 3.0])).scale == 1.0

    def test_coarser_is_a_multiple_of_the_step(self) -> None:
        fine = Quantised(np.array([0, 1, 2, 3, 4, 5, 9], np.uint16), 0.5, 10.0)
        coarse = fine.coarser(4)
        assert coarse.counts.tolist() == [0, 1, 1, 2, 2, 2, 3]
        assert coarse.scale == 2.0
        np.testing.assert_array_equal(coarse.values(), [NAN, 10.5, 10.5, 12.5, 12.5, 12.5, 14.5])
        assert fine.coarser(1) is fine


class TestEncode:
    def test_what_is_next_is_foreseen(self) -> None:
        counts = np.array([[1, 4, 6], [3, 5, 9]], np.int32)
        assert encode._left(counts).tolist() == [[0, 1, 4], [0, 3, 5]]
        assert encode._median(counts).tolist() == [[0, 1, 4], [1, 4, 6]]
        assert encode.PREDICTORS["none"](counts).tolist() == [[0, 0, 0], [0, 0, 0]]

    def test_small_differences_of_either_sign_are_small_numbers(self) -> None:
        counts = np.array([[5, 4, 6, 6]], np.uint16)
        assert encode._difference(counts, "left").tolist() == [[10, 1, 4, 0]]
        assert encode._difference(np.array([[65535]], np.uint16), "none").tolist() == [[1]]  # modulo 2^16: minus one

    @pytest.mark.parametrize(("most", "bytes_each"), [(1, 1), (254, 1), (255, 1), (256, 2), (65535, 2)])
    def test_as_many_bytes_for_a_pixel_as_its_differences_need(
        self, most: int, bytes_each: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(encode, "_difference", lambda counts, name: counts)
        counts = np.array([[0, 1, most], [1, 0, 1]], np.uint16)
        content = zlib.decompress(base64.b64decode(encode.encode(counts)[1]))
        assert len(content) == bytes_each * counts.size
        planes = np.frombuffer(content, np.uint8).reshape(bytes_each, *counts.shape).astype(int)
        assert (sum(plane << 8 * k for k, plane in enumerate(planes)) == counts).all()

    def test_the_best_code_of_a_plane(self) -> None:
        assert encode._plane_bytes(np.array([0, 0, 1, 1, 2, 2, 3, 3])) == 2.0  # two bits each
        assert encode._plane_bytes(np.zeros(800, int)) == 0.0

    def test_the_predictor_that_serves_best_is_taken(self) -> None:
        slope = np.tile(np.arange(0, 600, 10, dtype=np.uint16), (40, 1))
        assert encode.encode(slope)[0] in ("left", "median")
        noise = np.random.default_rng(0).integers(0, 200, (40, 60)).astype(np.uint16)
        assert encode.encode(noise)[0] == "none"

    def test_large_maps_are_judged_by_bands(self) -> None:
        counts = np.zeros((160, 100), np.uint16)
        counts[8:16] = np.random.default_rng(0).integers(0, 256, (8, 100))  # the second band of twenty: looked at
        whole = encode._entropy_bytes(encode._difference(counts[8:16], "none"))
        assert encode.estimated_size(counts) > 2.5 * whole
        assert encode.estimated_size(counts[:40]) == pytest.approx(len(encode.encode(counts[:40])[1]), rel=0.2)


class TestLayers:
    def test_maps_are_rounded_no_more_than_the_page_needs(self) -> None:
        """The finest rounding that fits: one of half the step would not; with room, none."""
        layer = Layer("a", 1 + np.random.default_rng(0).random((60, 80)), step=1e-4, coarsest=0.1)
        finest = layer.finest()
        ((exact,), (size,)) = layers._rounded_to([layer], 1e9)
        assert np.array_equal(exact.counts, finest.counts)
        for budget in (0.99 * size, 0.6 * size):
            ((rounded,), (fits,)) = layers._rounded_to([layer], budget)
            factor = round(rounded.scale / finest.scale)
            assert factor > 1
            assert fits <= budget < encode.estimated_size(finest.coarser(factor // 2).counts)

    def test_reducible_ones_are_thinned(self) -> None:
        values = np.arange(64.0).reshape(8, 8)
        assert Layer("a", values).at_every(4).stride == 1
        thin = Layer("a", values, reducible=True).at_every(2)
        assert (thin.stride, thin.values.shape, thin.values[1, 1]) == (2, (4, 4), 18.0)
        assert thin.at_every(4).values.tolist() == [[0.0, 4.0], [32.0, 36.0]]
        assert thin.at_every(2) is thin

    def test_residuals_give_way_before_the_maps_do(self) -> None:
        """They may be shown at every second pixel, rounded to a quarter of the noise; no other map is thinned."""
        stack = Stack(np.ones((2, 8, 10)))
        content = Content("a page", [SimpleNamespace(depth=np.ones((8, 10)), method="auto")], views=stack)
        found = maps.page_layers(content, lambda k: np.zeros((8, 10), np.float32), 0.4)
        thinned = {each.key: each.coarsest for each in found if each.reducible}
        assert thinned == {"residual-0": pytest.approx(0.1), "residual-1": pytest.approx(0.1)}
        assert len(found) > 2

    def test_twins_share_their_text(self) -> None:
        values = np.random.default_rng(0).random((20, 30))
        found = coded([Layer("a", values), Layer("b", values + 1), Layer("c", values)], 600)
        assert [each.twin for each in found] == [0, 1, 0]
        assert found[0].description == found[2].description
        assert found[1].description["offset"] != found[0].description["offset"]
        assert found[0].description["height"] == 20
        assert found[0].description["width"] == 30

    def test_what_can_be_spared_goes_last_first_and_no_more_than_needed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(0)
        maps = [Layer(str(k), rng.random((60, 80)), spare=k > 0) for k in range(4)]
        size = sum(len(each.text) for each in coded(maps, 4800))
        monkeypatch.setattr(layers, "SMALLEST_BUDGET", 0)
        monkeypatch.setattr(layers, "BYTES_A_PIXEL", 0.8 * size / 4800)
        assert [each.key for each in coded(maps, 4800)] == ["0", "1", "2"]
        assert [each.key for each in coded(maps, 4800, taken=round(0.4 * size))] == ["0"]

    def test_maps_of_a_page_take_what_docs_allow_and_most_of_it(self) -> None:
        """At most 4 MB for 640 x 480 pixels, in proportion for others, however noisy they are."""
        rng = np.random.default_rng(0)
        noisy = [Layer(str(k), rng.random((240, 320)), reducible=True) for k in range(12)]
        assert 0.5e6 < sum(len(each.text) for each in coded(noisy, 240 * 320)) < 1e6

    def test_rounding_comes_before_thinning_and_both_end_within_the_budget(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        values = np.random.default_rng(0).random((64, 64))
        monkeypatch.setattr(layers, "SMALLEST_BUDGET", 0)
        fine = coded([Layer("a", values)], 4096, taken=-(10**9))[0]
        monkeypatch.setattr(layers, "BYTES_A_PIXEL", 0.6 * len(fine.text) / 4096)
        rounded = coded([Layer("a", values, coarsest=1.0, reducible=True)], 4096)[0]
        assert rounded.description["stride"] == 1
        assert rounded.description["scale"] > 2 * fine.description["scale"]  # type: ignore[operator]
        two = [Layer(key, each, coarsest=1.0, reducible=True) for key, each in (("a", values), ("b", values.T))]
        assert [each.description["stride"] for each in coded(two, 2 * 4096)] == [1, 1]
        thinned = coded([Layer("a", values, reducible=True)], 4096)[0]
        assert thinned.description["stride"] == 2
        assert thinned.description["scale"] == pytest.approx(fine.description["scale"], rel=0.01)

    def test_what_a_result_shows_is_as_fine_as_people_read_it(self) -> None:
        """Depth and counts by equal steps; sigma and confidence, over decades, by equal ratios; later ones coarser."""
        known = np.exp(np.random.default_rng(0).uniform(-9, 2, (8, 9)))
        counts = np.where(known > 1, 3, -1)
        result = SimpleNamespace(depth=known, sigma=known, confidence=known, provenance=counts)
        first, second = (maps._of_result(result, at, 1) for at in (0, 1))
        assert [layer.key for layer in first] == ["depth-0", "sigma-0", "confidence-0", "provenance-0"]
        assert [layer.key for layer in second] == ["depth-1", "sigma-1", "confidence-1", "provenance-1"]
        for layer in first[1:3]:
            ratio = layer.finest().values() / known
            assert np.abs(np.log(ratio)).max() < 0.0026
        np.testing.assert_array_equal(first[3].finest().values(), np.where(counts < 0, NAN, counts))
        assert np.abs(first[0].finest().values() - known).max() < np.ptp(known) / 65534
        assert [layer.spare for layer in (*first, *second)] == [False] * 5 + [True, True, False]
        assert all(one.coarsest < other.coarsest for one, other in zip(first[:3], second[:3], strict=True))
        thinned = maps._of_result(result, 0, 2)
        np.testing.assert_array_equal(thinned[0].values, known[::2, ::2])
        assert {layer.values.shape for layer in thinned} == {(4, 5)}


class TestWords:
    def test_numbers_for_people(self) -> None:
        given = (0.0, 0.00123, 0.000999, 12.345, 99.96, 123.4, 99999.0, 1e5, -0.5, NAN, None, 1e-3)
        said = ["0", "0.00123", "9.99e-04", "12.3", "100", "123", "99999", "1.00e+05", "-0.5", "-", "-", "0.001"]
        assert [document.number(each) for each in given] == said
        assert document.number(1234567.0, 5) == "1.2346e+06"

    def test_a_label_without_words_is_only_a_label(self) -> None:
        assert document.explained("a<b", None) == "a&lt;b"
        assert document.explained("a", 'say "x"') == '<abbr tabindex="0" data-words="say &quot;x&quot;">a</abbr>'

    def test_tables_have_a_name_where_one_is_given(self) -> None:
        assert "<table><thead>" in html_table(["a"], [["<td>1</td>"]])
        assert '<table id="t"><thead><tr><th scope="col">a</th></tr>' in html_table(["a"], [], name="t")

    def test_units(self) -> None:
        assert [sections.short(each) for each in ("metre", "unit of baseline", "furlong")] == ["m", "", "furlong"]
        assert [sections.in_brackets(each) for each in ("foot", "unit of baseline")] == [" [ft]", ""]
        assert sections.with_code("run `a <b>` now") == "run <code>a &lt;b&gt;</code> now"

    def test_the_parts_of_the_energy(self) -> None:
        energies = {"fidelity": 6.0, "order_1": 3.0, "order_2": 1.0, "regulariser": 4.0, "prior": 0.0, "total": 10.0}
        (said,) = sections._energy_in_words(energies)
        assert (
            said
            == "Of it, 60.0 % the observations, 30.0 % order 1 of the regulariser, 10.0 % order 2 of the regulariser."
        )
        assert sections._energy_in_words({"total": 0.0}) == sections._energy_in_words({}) == []

    def test_the_neighbours_of_a_choice(self) -> None:
        margins = ((0.25, 0.08), (0.5, 0.04), (2.0, -0.01), (4.0, 0.2))
        (said,) = sections._compared({"margins": margins})
        assert said == (
            "Observations that were held out were predicted at 2 times these weights (smoother) 1 % better, which may "
            "be chance, at 0.5 times these weights (rougher) 4 % worse."
        )
        assert sections._compared({}) == []

    def test_what_stands_out_is_told_up_to_six(self) -> None:
        rows = [ViewFigures(f"v{k}", 1.0, 0.0, 1.0, 0.0, 0.0, "odd" if k < 8 else "") for k in range(9)]
        said = sections._odd(rows)
        assert said.startswith("<p>8 of 9 views stand out:</p>")
        assert said.count("<li>") == 7
        assert "2 more, in the table" in said
        assert sections._odd(rows[8:]) == "<p>None of the 1 views stands out.</p>"
        assert "One of 2 stands out" in sections._odd(rows[7:])
        assert "more, in the table" not in sections._odd(rows[2:])

    def test_one_view_alone_needs_no_table(self) -> None:
        row = ViewFigures("a", 1.0, 0.0, 1.0, 0.0, 0.0)
        assert sections.views_section([row], 0, "metre") == sections.views_section([], None, "metre") == ""
        shown = sections.views_section([row, replace(row, name="b")], 1, "metre")
        assert "b <small>reference</small>" in shown
        assert shown.count("<small>reference</small>") == 1

    def test_the_figures_at_the_top(self) -> None:
        depth = np.array([[1.0, NAN], [1.0, 1.0]])
        shown = SimpleNamespace(
            depth=depth, method="l1", provenance=np.array([[2, -1], [0, 1]]), sigma=depth * 0.5, gap=2e-4, seconds=1.5
        )
        told = {label: value for label, value, _ in sections.headline(Content("t", (shown,)))}
        assert told == {
            **{"pixels": "2 x 2", "method": "l1", "observed": "50.0 %", "median sigma": "0.5 m"},
            **{"certified gap": "2.0e-04", "time": "1.50 s"},
        }
        bare = {
            label: value
            for label, value, _ in sections.headline(Content("t", (SimpleNamespace(depth=depth, method="m"),)))
        }
        assert bare == {"pixels": "2 x 2", "method": "m", "known": "75.0 %"}

    def test_neighbours_of_the_chosen_weights_are_compared_by_the_nearest_on_either_side(self) -> None:
        margins = ((0.25, 0.3), (0.5, 0.02), (1.0, 0.0), (2.0, 1.0), (4.0, 0.4))
        (said,) = sections._compared({"margins": margins})
        assert "at 2 times these weights (smoother) 1e+02 % worse" in said
        assert "at 0.5 times these weights (rougher) 2 % worse" in said
        (said,) = sections._compared({"margins": ((1.0, 0.0), (2.0, -0.001))})
        assert "0.1 % better, which may be chance" in said
        assert "rougher" not in said
        assert sections._compared({"margins": ((1.0, 0.5),)}) == sections._compared({}) == []


class TestDiagrams:
    AXES = diagrams._Axes((0.0, 10.0), (-4.0, 0.0))

    def test_places_in_the_picture(self) -> None:
        assert [self.AXES.x(each) for each in (0.0, 5.0, 10.0)] == [58.0, 232.0, 406.0]
        assert [self.AXES.y(each) for each in (-4.0, -2.0, 0.0)] == [200.0, 107.0, 14.0]
        assert diagrams._Axes((1.0, 1.0), (0.0, 0.0)).x(1.0) == 58.0

    def test_ticks_are_round_numbers(self) -> None:
        assert [text for _, text in diagrams._ticks(-0.1, 1.05)] == ["1", "2", "5", "10"]
        assert [at for at, _ in diagrams._ticks(-0.1, 1.05)] == pytest.approx([0, 0.301, 0.699, 1], abs=1e-3)
        assert len(diagrams._ticks(-4.0, 0.0)) <= 6 < 13

    def test_the_gap_is_drawn_where_there_are_two(self) -> None:
        events = [
            Event(0.0, "a", NAN, 1.0),
            Event(1.0, "a", 1e-1, 1.0),
            Event(3.0, "a", 1e-3, 1.0),
            Event(4.0, "a", 0.0, 1.0),
        ]
        drawn = diagrams.gap_falling(events)
        assert 'points="58.0,14.0 406.0,200.0"' in drawn
        assert drawn.count("<circle") == 2
        for x, y in ((58.0, 14.0), (406.0, 200.0)):  # a dot at each corner of the line
            assert f'<circle cx="{x}" cy="{y}"' in drawn
        for text in ("1e-1<", "1e-2<", "1e-3<", ">1<", ">3<"):
            assert text in drawn
        assert diagrams.gap_falling(events[:2]) == ""

    def test_the_page_shows_them_beside_the_sentences(self) -> None:
        result = SimpleNamespace(depth=np.ones((4, 5)), method="l1")
        events = (Event(1.0, "a", 1e-1, 1.0), Event(3.0, "a", 1e-3, 1.0))
        shown = sections._solved(Content("a page", [result], traces={"l1": events}), result)
        assert f'<div class="diagrams">{diagrams.gap_falling(events)}</div>' in shown
        assert "diagrams" not in sections._solved(Content("a page", [result]), result)

    def test_an_honest_sigma_lies_on_the_diagonal(self) -> None:
        drawn = diagrams.reliability_diagram(Reliability((1.0, 10.0), (1.0, 10.0), 0.7, 0.9), "m")
        low, high = diagrams._Axes((-0.08, 1.08), (-0.08, 1.08)), 0.0
        assert f'cx="{low.x(high):.1f}" cy="{low.y(high):.1f}"' in drawn
        assert 'x1="58.0" y1="200.0" x2="406.0" y2="14.0"' in drawn
        assert "actual error [m] against sigma [m]" in drawn
        assert "sigma 10, actual 10" in drawn


class TestReliability:
    def test_bins_of_equal_size(self) -> None:
        sigma = np.repeat([1.0, 2.0], 30).reshape(6, 10)
        truth = np.zeros((6, 10))
        found = reliability(3 * sigma, sigma, truth)
        assert found is not None
        assert (found.predicted, found.actual) == ((1.0, 2.0), (3.0, 6.0))
        assert (found.within_one, found.within_two) == (0.0, 0.0)
        twice = reliability(2 * sigma, sigma, truth)
        assert twice is not None
        assert (twice.within_one, twice.within_two) == (0.0, 1.0)
        assert reliability(sigma[:, 1:], sigma[:, 1:], truth[:, 1:]) is None  # fewer than twice thirty
        sigma[0, 0] = 0.0
        assert reliability(sigma, sigma, truth) is None

    @pytest.mark.parametrize(
        ("ratio", "word"), [(0.8, "honest"), (1.25, "honest"), (1.3, "too small"), (0.79, "too large")]
    )
    def test_words(self, ratio: float, word: str) -> None:
        assert f"Sigma is {word}:" in Reliability((1.0,), (ratio,), 0.5, 0.9).sentence


class TestFigures:
    ROWS = tuple(ViewFigures(f"v{k}", 1.0, 0.0, 0.9, 0.0, 0.1) for k in range(3))

    @pytest.mark.parametrize(
        ("row", "words"),
        [
            (ViewFigures("x", 2.0, 0.0, 0.9, 0.0, 0.1), ""),
            (ViewFigures("x", 2.1, 0.0, 0.9, 0.0, 0.1), "2.1 times as noisy as the others"),
            (ViewFigures("x", 1.0, 0.5, 0.9, 0.0, 0.1), ""),
            (ViewFigures("x", 1.0, 0.6, 0.9, 0.0, 0.1), "measures 0.6 too far"),
            (ViewFigures("x", 1.0, -0.6, 0.9, 0.0, 0.1), "measures 0.6 too near"),
            (ViewFigures("x", 1.0, 0.0, 0.45, 0.0, 0.1), ""),
            (
                ViewFigures("x", 1.0, 0.0, 0.4, 0.0, 0.1),
                "only 40 % of it agrees with the surface: another place, or a wrong pose",
            ),
            (ViewFigures("x", 1.0, 0.0, 0.9, 0.75, 0.1), ""),
            (ViewFigures("x", 1.0, 0.0, 0.9, 0.8, 0.1), "looks shifted by 0.8 pixels: check its pose"),
            (ViewFigures("x", NAN, NAN, NAN, NAN, NAN), "sees next to nothing of this surface"),
        ],
    )
    def test_what_is_odd(self, row: ViewFigures, words: str) -> None:
        assert judged([*self.ROWS, row])[3].verdict == words
        assert judged([self.ROWS[0], row])[1].verdict == ("" if math.isfinite(row.noise) else words)  # two cannot tell

    def test_spread_and_bias(self) -> None:
        values = np.arange(51.0)
        assert _spread(values) == (13.0 / 0.6745, 25.0)
        assert np.isnan(_spread(values[:49])).all()

    def test_blocks_of_twelve(self) -> None:
        mask = np.ones((13, 24), bool)
        assert _block_sums(mask).tolist() == [[144, 144], [12, 12]]

    def test_the_effect_of_one_of_many(self) -> None:
        residuals, total, count = np.full((2, 2), 3.0), np.full((2, 2), 4.0), np.full((2, 2), 2)
        assert _effect(residuals, total, count, 3.0) == pytest.approx((3 - 2) / 1)
        assert np.isnan(_effect(residuals, total, count, 2.9))
        assert np.isnan(_effect(residuals, total, np.ones((2, 2), int), 9.0))

    def test_a_shift_is_told_by_the_slopes(self) -> None:
        v, u = np.mgrid[:60, :80].astype(float)
        surface = 5 * np.sin(u / 9) + 3 * np.cos(v / 7)
        down, right = np.gradient(surface)
        noise = np.random.default_rng(0).normal(0, 0.05, surface.shape)
        assert _shift(0.6 * right - 0.8 * down + noise, surface) == pytest.approx(1.0, abs=0.02)
        assert _shift(noise, surface) == 0.0
        assert np.isnan(_shift(noise, np.full_like(surface, NAN)))
        assert np.isnan(_shift(noise, np.ones_like(surface)))  # a plane tells nothing
        large = np.random.default_rng(8).normal(0, 1, surface.shape)
        for size, told in ((0.1, False), (0.3, True)):  # sure in both, it has to explain a fiftieth of the residuals
            part = size * (0.6 * right - 0.8 * down) / np.std(0.6 * right - 0.8 * down)
            assert (_shift(part + large, surface) > 0) == told


class TestViewer:
    def test_points_are_thinned_by_powers_of_two(self) -> None:
        assert [levels._power(each) for each in (0.1, 1.0, 1.1, 2.0, 2.1, 64.0)] == [1, 1, 2, 2, 4, 64]
        assert levels.strides([1.0], 1_500_000) == [1]
        assert levels.strides([1.0], 1_500_001) == [2]
        assert levels.strides([3.0, 1.0, 2.0, 4.0], 600_000) == [2, 1, 1, 2]  # 2 x 600 000 + 2 x 150 000
        assert levels.strides([1.0] * 5, 10**10) == [64] * 5

    def test_limits_are_of_all_frames_and_of_what_is_known(self) -> None:
        frame = SimpleNamespace(
            maps=lambda: Maps(np.linspace(1, 2, 201).reshape(3, 67), {"sigma": np.full((3, 67), -1.0)})
        )
        low, high = clouds.limits_of([frame], "depth")  # type: ignore[misc, list-item]
        assert (low, high) == pytest.approx((1.01, 1.99))
        assert clouds.limits_of([frame], "sigma") is None  # type: ignore[list-item]
        flat = SimpleNamespace(maps=lambda: Maps(np.full((2, 2), 3.0), {}))
        assert clouds.limits_of([flat], "depth") == (3.0, 3.0 * (1 + 1e-6))  # type: ignore[list-item]

    def test_an_image_colours_its_points(self) -> None:
        camera = Pinhole(2.0, 2.0, 1.0, 1.0, 2, 2)
        frame = SimpleNamespace(pose=Pose(np.eye(3), np.array([0.0, 0.0, 1.0])), camera=camera)
        maps = Maps(np.array([[2.0, NAN], [4.0, 2.0]]), {})
        grey = np.array([[0.0, 1.0], [0.5, 2.0]])
        points, colours = clouds.points_and_colours(frame, maps, "image", 1, image=grey)  # type: ignore[arg-type]
        assert colours.tolist() == [[0] * 3, [127] * 3, [255] * 3]
        assert points[:, 2].tolist() == [3.0, 5.0, 3.0]
        thin, _ = clouds.points_and_colours(frame, maps, "image", 2, image=grey)  # type: ignore[arg-type]
        assert len(thin) == 1
        before, _ = clouds.points_and_colours(frame, maps, "depth", 1, np.full((2, 2), 7.0))  # type: ignore[arg-type]
        assert before[:, 2].tolist() == [8.0] * 4

    def test_of_many_views_some_are_shown_evenly(self) -> None:
        assert shown_views(32) == list(range(32))
        some = shown_views(64)
        assert len(some) == 32
        assert (some[0], some[-1]) == (0, 63)
        assert set(np.diff(some)) <= {2, 3}


class TestReadings:
    def test_names(self) -> None:
        view = View(np.ones((2, 3)), Pinhole(1.0, 1.0, 1.0, 1.0, 3, 2), Pose.identity(), name="a")
        other = View(np.ones((2, 3)), Pinhole(1.0, 1.0, 1.0, 1.0, 3, 2), Pose.identity())
        assert names_of([view, other]) == ["a", "view 1"]
        assert names_of(Stack(np.ones((2, 2, 2)))) == ["map 0", "map 1"]

    def test_a_view_that_looks_across_the_ray_tells_nothing(self) -> None:
        camera = Orthographic(1.0, 1.5, 1.5, 3, 3)
        surface = np.full((3, 3), 2.0, np.float32)
        for angle, told in ((0.0, True), (80.0, True), (85.0, False)):
            turn = np.radians(angle)
            rotation = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
            view = View(np.full((40, 40), 1.0), Orthographic(1.0, 20.0, 20.0, 40, 40), Pose(rotation, np.zeros(3)))
            assert np.isfinite(residuals_of_view(view, surface, camera, Pose.identity())).any() == told

    def test_pixels_at_the_border_are_inside(self) -> None:
        camera = Orthographic(1.0, 1.5, 1.5, 3, 3)
        surface = np.ones((3, 3), np.float32)
        view = View(np.full((3, 3), 1.5), camera, Pose.identity())
        assert (residuals_of_view(view, surface, camera, Pose.identity()) == 0.5).all()
        aside = View(np.full((3, 3), 1.5), camera, Pose(np.eye(3), np.array([1.0, 0.0, 0.0])))
        assert (
            np.isnan(residuals_of_view(aside, surface, camera, Pose.identity())).tolist() == [[True, False, False]] * 3
        )


class TestModel:
    """What the script of a page is told of a map that is shown at every second pixel."""

    CONTENT = Content("t", (SimpleNamespace(depth=np.zeros((1201, 1501), np.float32), method="m"),), unit="foot")

    def test_sizes(self) -> None:
        told = page._model(self.CONTENT, (), 0.25, None)
        assert (told["width"], told["height"], told["stride"]) == (751, 601, 2)
        assert (told["unit"], told["noise"], told["heights"], told["camera"]) == ("ft", 0.25, False, {"kind": "none"})

    def test_cameras(self) -> None:
        flat = page._camera(Orthographic(0.5, 10.0, 20.0, 30, 40), 2)
        assert flat == {"kind": "orthographic", "pixel": 1.0, "cx": 5.0, "cy": 10.0}
        seen = page._camera(Pinhole(100.0, 80.0, 10.0, 20.0, 30, 40), 2)
        assert seen == {"kind": "pinhole", "fx": 50.0, "fy": 40.0, "cx": 5.0, "cy": 10.0}

    def test_the_usual_noise(self) -> None:
        rows = [ViewFigures("v", noise, 0.0, 1.0, 0.0, 0.0) for noise in (1.0, 3.0, 2.0, NAN, 0.0)]
        assert page._usual_noise(rows) == 2.0
        assert page._usual_noise([]) == 0.0


class TestFirstLook:
    """Of a viewer whose server is a stand-in: where it looks from, and what its cameras are like."""

    def viewer(self, monkeypatch: pytest.MonkeyPatch) -> viewer.Viewer:
        monkeypatch.setattr(viewer, "_viser", MagicMock())
        made = object.__new__(viewer.Viewer)
        made.server, made.size, made.eye = MagicMock(), 2.0, np.zeros(3)
        poses = [Pose(np.eye(3), np.array([x, 0.0, 0.0])) for x in (0.0, 1.0, 2.0)]
        made.frames = [SimpleNamespace(pose=pose, camera=Pinhole(40.0, 50.0, 15.0, 10.0, 30, 20)) for pose in poses]  # type: ignore[misc]
        return made

    def test_from_behind_above_and_beside_the_middle_camera(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = self.viewer(monkeypatch)
        eye = made._look()
        np.testing.assert_allclose(eye, [1 + 0.35 * 2, -0.3 * 2, -0.45 * 2])  # y is down
        first = made.server.initial_camera
        np.testing.assert_allclose(first.position, eye)
        np.testing.assert_allclose(first.look_at, [1.0, 0.0, 1.6])
        np.testing.assert_allclose(first.up, [0.0, -1.0, 0.0])

    def test_frustums_see_what_their_cameras_see(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = self.viewer(monkeypatch)
        made._camera(2)
        (name,), told = made.server.scene.add_camera_frustum.call_args
        assert name == "/cameras/2"
        assert told["fov"] == pytest.approx(2 * np.arctan(10 / 50))
        assert told["aspect"] == 1.5
        assert told["scale"] == pytest.approx(0.14)
        assert told["position"].tolist() == [2.0, 0.0, 0.0]
        made.frames[0].camera = Orthographic(1.0, 1.0, 1.0, 3, 3)  # type: ignore[misc]
        assert made._camera(0) is None

    def test_a_tenth_of_the_depth_is_a_move(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = self.viewer(monkeypatch)
        made.wanted, heard = MagicMock(), []
        client = SimpleNamespace(camera=SimpleNamespace(on_update=heard.append))
        made._follow(client)
        heard[0](SimpleNamespace(position=(0.19, 0.0, 0.0)))
        assert not made.wanted.set.called
        heard[0](SimpleNamespace(position=(0.21, 0.0, 0.0)))
        assert made.wanted.set.called
        assert made.eye[0] == 0.21

    def test_coarse_first_then_finer_near_the_eye(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nearest first; drawn frames stay while others become finer; one frame alone is whole, the others go."""
        made = self.viewer(monkeypatch)
        monkeypatch.setattr(viewer, "strides", lambda distances, pixels: [4 if each > 1.5 else 2 for each in distances])
        monkeypatch.setattr(viewer, "points_and_colours", MagicMock(return_value=("points", "colours")))
        monkeypatch.setattr(viewer, "limits_of", MagicMock())
        made.pixels, made.limits, made.drawn, made.measured = 600, {}, {}, MagicMock()
        made.wanted = MagicMock(is_set=lambda: False)
        made.which, made.time = SimpleNamespace(value=viewer.ALL), SimpleNamespace(value=0)
        made.colour, made.side = SimpleNamespace(value="depth"), SimpleNamespace(value="after")
        for frame in made.frames:
            frame.maps = MagicMock()  # type: ignore[misc]
        cloud = made.server.scene.add_point_cloud

        def drawn() -> list[tuple[str, int]]:
            made._draw()
            told = [
                (each.args[0], round(each.kwargs["point_size"] / (1.2 * 2.0 / 40))) for each in cloud.call_args_list
            ]
            cloud.reset_mock()
            return told

        made.eye = np.array([1.9, 0.0, 0.0])
        first, second, third = "/clouds/2", "/clouds/1", "/clouds/0"
        assert drawn() == [(first, 4), (second, 4), (third, 4), (first, 2), (second, 2)]
        assert drawn() == []
        made.eye = np.array([0.0, 0.0, 0.0])
        assert drawn() == [(third, 2), (first, 4)]
        made.which.value, made.time.value = viewer.ONE, 1
        assert drawn() == [(second, 1)]
        assert sorted(each.args[0] for each in made.server.scene.remove_by_name.call_args_list) == [third, first]
