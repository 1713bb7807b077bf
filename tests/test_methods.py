"""The table of methods: frozen, complete, refined by name without a trace."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from cfusion import METHODS, Pinhole, Stack, fuse_stack, kernels
from cfusion.auto import Auto, Settings
from cfusion.confidence import Geometric, Given, edge_weight, nagel_enkelmann
from cfusion.energy import L1, L2, TGV, Energy, Huber
from cfusion.kernels.contract import Fidelity
from cfusion.methods import SinglePass
from cfusion.parameters import refine
from cfusion.solvers import ACS, AMA, PDHG, Biconvex
from cfusion.source import Splat

SHAPE = (12, 15)
FIXED = ["input", "mean", "median", "rof", "l1", "tgv-fusion", "l1-heuristic"]
ADAPTIVE = ["rof-adapt", "l1-adapt", "adapt-hprior", "adapt-hprior-g"]


def stack(views=3):
    rng = np.random.default_rng(0)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    depths = 5 + 0.05 * x + (y > 6) + rng.laplace(0, 0.2, (views, *SHAPE))
    image = np.where(y > 6, 0.9, 0.2).astype(np.float32)
    return Stack(depths.astype(np.float32), camera=Pinhole(20.0, 20.0, 7, 6, 15, 12), image=image)


def test_table_holds_the_papers_rows_and_ours():
    assert [*FIXED, *(name + suffix for name in ADAPTIVE for suffix in ("", ":ama", ":pdhg")), "auto"] == list(METHODS)
    for name, method in METHODS.items():
        assert method.name == name
        assert method.summary
        assert "\n" not in method.summary


def test_rows_are_what_the_paper_says():
    """Order 1 with squares is ROF; weights 1 and 2, lambda 1, Huber's corner 0.05; shape 1.5 and rate 0.1."""
    assert METHODS["rof"].energy.fidelity == L2()
    assert METHODS["rof"].energy.regulariser.alpha == (1.0,)
    assert METHODS["l1"].energy.regulariser.alpha == (1.0, 2.0)
    assert METHODS["l1"].energy.lam == 1.0
    assert METHODS["tgv-fusion"].energy.fidelity == Huber(0.05)
    assert isinstance(METHODS["l1-heuristic"].confidence, Geometric)
    prior = METHODS["l1-adapt"].energy.prior
    assert (prior.shape, prior.rate, prior.b) == (1.5, 0.1, None)
    assert METHODS["adapt-hprior-g"].energy.regulariser.edge is edge_weight
    kinds = (("", ACS), (":ama", AMA), (":pdhg", Biconvex))
    assert all(isinstance(METHODS[name + suffix].solver, kind) for name in ADAPTIVE for suffix, kind in kinds)
    assert all(METHODS[name].splat.radius == 5 for name in METHODS if name not in ("input", "auto"))
    assert isinstance(METHODS["auto"], Auto)


def test_alpha_of_auto_may_be_given_and_taken_back():
    given = refine(METHODS["auto"], {"alpha": (1.0, 2.0)})
    assert given.settings.alpha == (1.0, 2.0)
    assert refine(given, {"alpha": None}) == METHODS["auto"]


def test_table_and_rows_cannot_be_changed():
    with pytest.raises(TypeError):
        METHODS["l1"] = METHODS["l1"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["l1"].energy = Energy()  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["l1"].energy.lam = 2.0  # type: ignore[misc]


def test_refining_leaves_the_table_alone():
    before = repr(METHODS["l1"])
    refined = refine(METHODS["l1"], {"order": 3, "lam": 0.5, "tolerance": 1e-2, "iterations": 7, "radius": 2})
    assert repr(METHODS["l1"]) == before
    assert refined.energy.regulariser.alpha == (1.0, 2.0, 4.0)
    assert refined.energy.lam == 0.5
    assert (refined.solver.tolerance, refined.solver.iterations) == (1e-2, 7)
    assert refined.splat == Splat(radius=2)
    assert refined.energy.fidelity == L1()


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("l1", {"order": 1}),
        ("l1", {"alpha": (0.5, 1.5)}),
        ("l1", {"alpha": (0.7,)}),
        ("l1", {"alpha": 0.7, "order": 1}),
        ("l1", {"lam": 2.0, "tolerance": 1e-2, "iterations": 50}),
        ("tgv-fusion", {"delta": 0.2}),
        ("l1-adapt", {"shape": 2.0, "rate": 0.3, "outer": 2}),
        ("l1-adapt", {"b": 1.0}),
        ("l1-adapt:ama", {"mu": 10.0, "nu": 2.0, "growth": 2.0, "outer": 2}),
        ("l1-adapt:pdhg", {"iterations": 50, "tolerance": 1e-2}),
        ("auto", {"alpha": (1.0, 2.0), "rounds": 1, "gate": 4.0, "fill_radius": 0}),
    ],
)
def test_parameters_by_name_arrive_and_are_reported(method, given):
    result = fuse_stack(stack(), method, backend="numpy", **given)
    for name, value in given.items():
        expected = (value,) if name == "alpha" and not isinstance(value, tuple) else value
        assert result.parameters[name] == expected
    assert result.iterations <= given.get("iterations", result.iterations)


def test_what_is_reported_reproduces_the_result():
    """`auto` says what it chose; told so, it chooses nothing and finds the same."""
    chosen = fuse_stack(stack(), "auto", backend="numpy")
    assert set(chosen.parameters) >= {"alpha", "inverse", "local"}
    given = {name: chosen.parameters[name] for name in ("alpha", "inverse", "local")}
    again = fuse_stack(stack(), Auto(settings=Settings(**given)), backend="numpy")
    assert np.array_equal(again.depth, chosen.depth)


def test_larger_alpha_is_smoother_and_larger_lam_is_closer_to_the_data():
    """A parameter is named by its place in the energy."""

    def terms(**given):
        energies = fuse_stack(stack(), "l1", backend="numpy", **given).energies
        return energies["order_1"], energies["fidelity"]

    plain, smooth = terms(alpha=(1.0, 2.0)), terms(alpha=(4.0, 8.0))
    assert smooth[0] / 4 < plain[0]
    assert smooth[1] > plain[1]
    assert terms(lam=4.0)[1] / 4 < plain[1]
    # and only their ratio matters to the depth
    one = fuse_stack(stack(), "l1", backend="numpy", alpha=(2.0, 4.0), lam=2.0)
    other = fuse_stack(stack(), "l1", backend="numpy")
    np.testing.assert_allclose(one.depth, other.depth, atol=1e-4)


@pytest.mark.parametrize("rule", [edge_weight, nagel_enkelmann], ids=lambda rule: rule.__name__)
def test_edges_of_the_image_keep_edges_of_the_depth(rule):
    """With either rule the jump that the image shows is kept where the plain method wears it down."""
    given = stack(views=1)
    plain = METHODS["l1"].replace(energy=Energy(L1(), TGV(1, (3.0,))))
    guided = METHODS["l1"].replace(energy=Energy(L1(), TGV(1, (3.0,), partial(rule, factor=20.0))))
    jumps = [
        float(np.mean(depth[7] - depth[6]))
        for depth in (fuse_stack(given, each, backend="numpy").depth for each in (plain, guided))
    ]
    assert jumps[1] > jumps[0] + 0.3
    assert jumps[1] > 0.7


def test_a_method_of_ones_own():
    """Parts compose: weights that came with the stack, order 3, squared errors."""
    own = SinglePass("own", "an example", Splat(), Given(), Energy(L2(), TGV(3), lam=0.5), PDHG(tolerance=1e-2))
    weights = np.ones((3, *SHAPE), np.float32)
    weights[0] = 0
    given = stack()
    weighed = fuse_stack(Stack(given.depths, weights), own, backend="numpy")
    without = fuse_stack(Stack(given.depths[1:]), own, backend="numpy")
    np.testing.assert_allclose(weighed.depth, without.depth, atol=1e-2)
    assert (weighed.provenance == 2).all()
    assert weighed.backend == kernels.load("numpy").NAME


@pytest.mark.parametrize(
    ("method", "foreseen", "adaptive"),
    [
        ("auto", [2, Fidelity.L1], True),
        ("l1", [2, Fidelity.L1], False),
        ("rof", [1, Fidelity.L2], False),
        ("median", None, False),
        ("mean", None, False),
    ],
)
def test_what_will_be_solved_is_told_to_the_backend_first(
    method: str, foreseen: list[object] | None, adaptive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shape, order and fidelity: a GPU compiles for these while maps are read."""
    backend = kernels.load("numpy")
    heard: list[tuple[object, ...]] = []
    monkeypatch.setattr(backend, "precompile", lambda *given, **kind: heard.append((*given, kind)))
    fuse_stack(Stack(np.random.default_rng(0).normal(5, 0.1, (3, 6, 8))), method, backend="numpy")
    kind = {"posed": False, "adaptive": adaptive}
    assert heard == ([] if foreseen is None else [((6, 8), *foreseen, kind)])
