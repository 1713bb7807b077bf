"""The search for weights, on answers that are known: where it starts, how it walks, and what counts as better."""

from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Pinhole, Stack, kernels
from cfusion.auto.cross_validation import RATIOS, _Parts, _Trial, choose, usual_choices
from cfusion.auto.fit import energy_of
from cfusion.auto.settings import Choices, Settings
from cfusion.auto.variable import Weighing
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.solvers.task import prepare

NUMPY = kernels.load("numpy")


def trial(best: tuple[float, float] | None = None) -> _Trial:
    """A search in which the nearer to the best alpha, by factors, predicts better; without one, nothing is better."""
    made = _Trial.__new__(_Trial)
    made.ratio, made.fits, made.asked = RATIOS[0], {}, []

    def away(alpha: tuple[float, float]) -> float:
        return abs(np.log(alpha[0] / best[0])) + abs(np.log(alpha[1] / alpha[0] / (best[1] / best[0])))

    def better(alpha: tuple[float, float], than: tuple[float, float]) -> bool:
        made.asked.append(alpha)
        return best is not None and away(alpha) < away(than) - 1e-9

    made.better = better
    return made


@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("factor", [0.03, 0.25, 0.7, 1.0, 1.5, 4.1, 30.0])
def test_the_search_ends_within_a_fourth_root_of_two_of_the_best(factor: float, ratio: float) -> None:
    """Two by two, then by its root: no alpha of the ladder is nearer; the ratio is found among three."""
    start = 2.7
    best = (factor * start, ratio * factor * start)
    found = trial(best).search(start)
    assert abs(np.log(found[0] / best[0])) <= np.log(2) / 4 + 1e-9
    assert found[1] / found[0] == pytest.approx(ratio)


def test_where_nothing_tells_the_usual_weights_stay() -> None:
    searched = trial()
    assert searched.search(2.7) == (2.7, 5.4)
    factors = {alpha[0] / 2.7 for alpha in searched.asked}
    assert sorted(factors) == pytest.approx([0.5, 1.0, 2.0])  # up, down, and two ratios: neighbours that are alike
    assert len(set(searched.asked)) == 4  # leave nothing to look for between them


def test_a_walk_is_six_steps_long_at_most() -> None:
    assert trial((1e9, 2e9))._walk(1.0, 2.0) == 2.0**6
    assert trial((1e-9, 2e-9))._walk(1.0, 2.0) == 2.0**-6
    assert trial((1e9, 2e9))._walk(1.0, 2.0, 1) == 2.0


@pytest.mark.parametrize(
    ("gain", "least", "told"), [(0.21, 0.0, True), (0.19, 0.0, False), (0.21, 0.02, True), (0.21, 0.03, False)]
)
def test_better_is_by_more_than_two_standard_errors_and_the_least_part(gain: float, least: float, told: bool) -> None:
    """Of an error of ten, with a standard error of a tenth."""
    made = trial()
    scored = SimpleNamespace(score_difference=lambda one, other, held: (gain, 0.1, 10.0))
    made.task, made.held = SimpleNamespace(backend=scored), None
    x = np.zeros((2, 2), np.float32)
    assert made._predicts_better(x, x, least) is told
    assert made._predicts_better(x, x, 0.0, chance=3.0) is False


@pytest.mark.parametrize(
    ("alpha", "much"), [((2.0, 4.0), True), ((1.0, 4.0), True), ((1.4, 2.8), False), ((0.5, 1.0), False)]
)
def test_a_much_smoother_answer_has_to_be_better_by_three_in_a_thousand(
    alpha: tuple[float, float], much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen = _Trial.__new__(_Trial), []
    made.fits = {alpha: SimpleNamespace(primal=["this"]), (1.0, 2.0): SimpleNamespace(primal=["that"])}
    made.least = 0.0
    monkeypatch.setattr(_Trial, "_predicts_better", lambda self, one, other, least: seen.append((one, other, least)))
    made.better(alpha, (1.0, 2.0))
    assert seen == [("this", "that", 0.003 if much else 0.0)]


@pytest.mark.parametrize("views", [1, 4, 9])
def test_the_search_starts_at_the_root_of_how_many_observe_a_pixel(views: int) -> None:
    """alpha_1 = 1.2 sqrt(K), alpha_2 twice that; in proportion to the weights, those that hardly count left out."""
    depths = np.full((views, 20, 30), 3.0, np.float32)
    alpha = usual(Stack(depths))
    assert alpha == pytest.approx((1.2 * np.sqrt(views), 2.4 * np.sqrt(views)))
    heavy = usual(Stack(depths, np.full(depths.shape, 4.0, np.float32)))
    assert heavy == pytest.approx([4 * each for each in alpha])  # in proportion to the weights
    few = np.full(depths.shape, 1e-6, np.float32)
    few[0] = 4.0
    assert usual(Stack(depths, few))[0] == pytest.approx(4 * 1.2, rel=1e-3)


def usual(stack: Stack) -> tuple[float, ...]:
    return usual_choices(prepare(energy_of(Choices((1.0, 2.0)), 1.0), stack, NUMPY)).alpha


def test_single_pixels_held_out_never_lower_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that neighbours share look like surface: less smoothing would always seem better."""
    made = _Trial.__new__(_Trial)
    made.ratio, made.fits, made.least = RATIOS[0], {}, 0.0
    monkeypatch.setattr(_Trial, "_fitted", lambda self, alpha: SimpleNamespace(primal=[alpha]))
    monkeypatch.setattr(_Trial, "_predicts_better", lambda self, one, other, least: sum(one) < sum(other))
    assert made.search(2.7, 2.7) == (2.7, 5.4)
    assert made.search(2.7)[0] < 0.1


@pytest.mark.parametrize("views", [1, 2])
def test_pixels_held_out_of_one_view_are_predicted(views: int) -> None:
    """They are part of the fit's domain, although no observation is left there."""
    rng = np.random.default_rng(0)
    stack = Stack((3 + rng.normal(0, 0.05, (views, 60, 80))).astype(np.float32))
    task = prepare(energy_of(Choices((1.0, 2.0)), 1.0), stack, NUMPY)
    chosen = choose(task, Settings())
    assert chosen.alpha[0] >= usual(stack)[0]
    assert all(worse != 0 for _, worse in chosen.margins)


class TestEdgesWithTheUsualAlpha:
    """A small alpha chosen for thin parts is no reason to smooth little between them."""

    def test_the_usual_alpha_is_tried_with_edge_weights(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the next factors on the chosen one gain nothing."""
        made = _Trial.__new__(_Trial)
        made.ratio, made.fits, made.edges = RATIOS[0], {}, None
        made.task = SimpleNamespace(with_edges=lambda edges: made.task)
        errors = {0.1: 1.0, 0.2: 1.0, 2.0: 0.5, 4.0: 0.6}
        monkeypatch.setattr(_Trial, "_fitted", lambda self, alpha: SimpleNamespace(primal=[1.2]))
        monkeypatch.setattr(_Trial, "_fit", lambda self, alpha: SimpleNamespace(primal=[errors[alpha[0]]]))
        monkeypatch.setattr(_Trial, "_predicts_better", lambda self, one, other, chance: one < other)
        edges = np.ones((4, 4), np.float32)
        assert made.with_edges((0.1, 0.2), 2.0, edges) == ((2.0, 4.0), True)
        assert made.with_edges((0.1, 0.2), 0.05, edges) == ((0.1, 0.2), True)  # a larger one was chosen: not tried

    @pytest.mark.parametrize("ratio", [1.0, 4.0])
    @pytest.mark.parametrize(("at_usual", "kept"), [(0.4, True), (0.3, False), (0.2, False)])
    def test_another_ratio_has_to_predict_better_with_edge_weights_too(
        self, monkeypatch: pytest.MonkeyPatch, ratio: float, at_usual: float, kept: bool
    ) -> None:
        """Without them it may have been chosen for the edges."""
        plain, spared, usual = (1.0, ratio), (2.0, 2 * ratio), (2.0, 2 * RATIOS[0])
        errors = {plain: 0.6, spared: 0.3, usual: at_usual, (4.0, 4 * ratio): 0.7}
        made = _Trial.__new__(_Trial)
        made.ratio, made.fits, made.edges = ratio, {}, None
        made.task = SimpleNamespace(with_edges=lambda edges: made.task)
        monkeypatch.setattr(_Trial, "_fitted", lambda self, alpha: SimpleNamespace(primal=[1.2]))
        monkeypatch.setattr(_Trial, "_fit", lambda self, alpha: SimpleNamespace(primal=[errors[alpha]]))
        monkeypatch.setattr(_Trial, "_predicts_better", lambda self, one, other, chance: one < other)
        found = made.with_edges(plain, 0.5, np.ones((4, 4), np.float32))
        assert found == (spared if kept else usual, True)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("views", [1, 2])
def test_a_border_without_measurements_is_no_obstacle(views: int, backend: str) -> None:
    """Closing grows the domain to the border: for local weights as for others, with which they are compared."""
    maps = 3 + np.random.default_rng(0).normal(0, 0.05, (views, 60, 80))
    maps[:, :2], maps[:, -2:], maps[:, :, :2], maps[:, :, -2:] = np.nan, np.nan, np.nan, np.nan
    task = prepare(energy_of(Choices((1.0, 2.0)), 1.0), Stack(maps.astype(np.float32)), kernels.load(backend))
    made = _Parts(task, None).trial(False)
    before = made.task.domain
    assert before.shape == (60, 80)
    made.with_local((2.0, 4.0))
    np.testing.assert_array_equal(made.task.domain, before)
    assert made.task.window == (slice(0, 60), slice(0, 80))


def test_tiles_of_a_sample_are_further_apart_than_a_fit_reaches() -> None:
    """Otherwise the fit would smooth one tile into the next."""
    stack = Stack(np.ones((1, 480, 640), np.float32))
    parts = _Parts(prepare(energy_of(Choices((1.0, 2.0)), 1.0), stack, NUMPY), None)
    between = parts.sample.plane(np.zeros((480, 640), np.float32)) == 1
    assert between.any()
    assert not (parts.trial(False).task.domain & between).any()


def test_a_variable_guessed_for_a_part_is_not_kept_where_it_does_not_matter() -> None:
    """The reference measured a strip of a wide range, others all of it: without weights depth is as good."""
    rng = np.random.default_rng(0)
    stack = Stack((3 + rng.normal(0, 0.02, (3, 40, 60))).astype(np.float32), camera=Pinhole(50, 50, 30, 20, 60, 40))
    task = prepare(energy_of(Choices((1.0, 2.0)), 1.0), stack, NUMPY)
    weighing = Weighing(np.full((40, 60), 3.0, np.float32), DepthNoise(3.0, 0))
    assert not choose(task, Settings(), None, weighing, inverse=True).inverse


@pytest.mark.parametrize(("asked", "spared"), [(None, True), (False, False)])
def test_edges_are_spared_where_that_predicts_better_unless_it_is_refused(asked: bool | None, spared: bool) -> None:
    """On a chessboard, whose corners smoothing rounds off."""
    rows, columns = np.indices((40, 60))
    board = 3 + (rows // 5 + columns // 5) % 2
    stack = Stack((board + np.random.default_rng(0).normal(0, 0.6, (6, 40, 60))).astype(np.float32))
    across = np.where((rows % 5 == 4) | (columns % 5 == 4), 0.01, 1.0).astype(np.float32)
    task = prepare(energy_of(Choices((1.0, 2.0)), 1.0), stack, NUMPY)
    assert choose(task, Settings(edges=asked), across).edges is spared
