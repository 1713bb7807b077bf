"""What `auto` promises of surfaces, edges and noise, each as a law on views small enough to see through."""

from typing import Any

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, Stack, View, fuse, fuse_stack, kernels
from cfusion.auto import auto
from cfusion.auto.occlusion import observe
from cfusion.auto.pooling import PASSES, pooled_mean
from cfusion.auto.settings import Settings
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.source.source import Posed

CAMERA = Pinhole(50.0, 50.0, 31.5, 23.5, 64, 48)
REFERENCE = kernels.load("numpy")
Y, X = np.mgrid[:48, :64]


def associated(views: list[View], surface: np.ndarray, reference: int = 0, backend: Any = REFERENCE) -> Stack:
    """What every view measured at a surface, weighed: the step that `auto` repeats."""
    return observe(Posed.of(views, reference, backend), surface, Settings(), backend).stack


def seen_alike(depths: np.ndarray) -> list[View]:
    """Views from one place."""
    return [View(depth, CAMERA, Pose.identity()) for depth in depths]


@pytest.mark.parametrize("views", [2, 4])
def test_a_gap_at_a_step_stays_open_and_one_within_a_surface_is_filled(views: int, on_host: Any) -> None:
    noise = np.random.default_rng(0).laplace(0, 0.01, (views, *X.shape))
    depths = np.where(X < 32, 4.0, 7.0) + noise
    depths[:, 10:30, 30:34] = np.nan  # between the near and the far surface
    depths[:, 10:30, 10:14] = np.nan  # within the near one
    for result in (fuse_stack(Stack(depths), backend=on_host.NAME), fuse(seen_alike(depths), backend=on_host.NAME)):
        assert np.isnan(result.depth[12:28, 30:34]).all()
        assert (result.provenance[12:28, 30:34] == -1).all()
        np.testing.assert_allclose(result.depth[12:28, 10:14], 4.0, atol=0.05)
        assert (result.provenance[12:28, 10:14] == 0).all()


def test_a_gap_in_a_slope_is_filled_by_the_slope() -> None:
    plane = 4 + 0.05 * X + 0.02 * Y
    depths = plane + np.random.default_rng(1).laplace(0, 0.001, (3, *X.shape))
    depths[:, 20:26, 30:36] = np.nan
    np.testing.assert_allclose(fuse_stack(Stack(depths)).depth, plane, atol=0.01)


def ramp(spread: float, power: float, views: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Maps of a surface from depth 2 to 20, noise spread z^power."""
    surface = 2 + 18 * X / 63.0
    return surface, surface + spread * surface**power * np.random.default_rng(2).laplace(0, 1, (views, *X.shape))


def test_noise_as_of_stereo_gates_by_the_square_of_depth() -> None:
    """Half a unit is far more than the noise of what is near, and far less than that of what is far."""
    surface, depths = ramp(0.002, 2)
    near, far = (24, 3), (24, 60)
    for place in (near, far):
        depths[1:, *place] = surface[place]
        depths[2, *place] += 0.5
    stack = associated(seen_alike(depths), surface.astype(np.float32))
    counted = (~np.isnan(stack.depths)).sum(axis=0)
    assert (counted[near], counted[far]) == (5, 6)
    assert counted.mean() > 5.95  # of six: a gate that did not grow would lose a fifth of what is far
    assert fuse(seen_alike(depths), reference=0).provenance[near] == 5


@pytest.mark.parametrize("power", [1, 2])
def test_what_is_in_front_of_a_distant_surface_is_not_its_noise(on_host: Any, power: int) -> None:
    """A residual counts in the unit of the noise at sqrt(d z) in front, at z behind: of disparities if noise is z^2."""
    surface = np.full((1, 5), 400.0, np.float32)
    away = 10 * 40.0**power  # ten units at 400
    measured = np.array([[5.0, 200.0, 399.0, 400 + 0.9 * away, 400 + 1.1 * away]], np.float32)
    depths = np.stack([measured, surface])
    weights, seen = np.ones_like(depths), np.ones(depths.shape, np.bool_)
    on_host.reject_occluded(depths, weights, surface, DepthNoise(10.0, power), [10.0, np.inf], seen, 1, True)
    units = np.sqrt(np.minimum(measured, 400) * 400) / 10
    wanted = np.abs(measured - 400) / np.where(measured < 400, units, 40) ** power <= 10
    np.testing.assert_array_equal(weights[0] > 0, wanted)
    assert wanted.tolist() == [[False, True, True, True, False]]


def test_even_noise_gates_alike_near_and_far() -> None:
    surface, depths = ramp(0.05, 0)
    for place in ((24, 3), (24, 60)):
        depths[1:, *place] = surface[place]
        depths[2, *place] += 3.0
        depths[3, *place] += 0.2
    counted = (~np.isnan(associated(seen_alike(depths), surface.astype(np.float32)).depths)).sum(axis=0)
    assert counted[24, 3] == counted[24, 60] == 5


@pytest.mark.parametrize(("power", "inverse"), [(0, False), (2, True)])
def test_noise_as_of_stereo_is_solved_in_inverse_depth(power: int, inverse: bool) -> None:
    _, depths = ramp(0.002 if power else 0.05, power)
    assert fuse_stack(Stack(depths, camera=CAMERA)).parameters["inverse"] is inverse


def test_an_observation_at_a_step_weighs_less_by_the_slope_it_may_be_off() -> None:
    """noise / hypot(noise, 0.3 s), s less what the noise itself makes; the reference, which is not off, weighs one."""
    scale, height = 0.01, 0.5
    surface = np.where(X < 32, 4.0, 4.0 + height).astype(np.float32)
    depths = surface + scale * np.random.default_rng(3).laplace(0, 1, (5, *X.shape))
    stack = associated(seen_alike(depths), surface, reference=2)
    assert stack.weights is not None
    at_step, flat = stack.weights[:, :, 31:33], stack.weights[:, :, [5, 50]]
    expected = scale / np.hypot(scale, 0.3 * height - scale)
    for k in range(5):
        known = at_step[k][~np.isnan(stack.depths[k][:, 31:33])]
        assert np.median(known) == pytest.approx(1.0 if k == 2 else expected, rel=0.1)
        assert np.median(flat[k]) == pytest.approx(1.0, rel=0.05)


def test_where_errors_of_neighbours_are_alike_the_reference_weighs_no_more_at_a_step() -> None:
    """A sensor that blurs its errors has its own edges in wrong places, the reference's too."""
    noise = np.random.default_rng(3).normal(0, 1, (5, *X.shape))
    blurred = sum(np.roll(noise, (i, j), (1, 2)) for i in range(-3, 4) for j in range(-3, 4)) / 7
    surface = np.where(X < 32, 4.0, 4.5).astype(np.float32)
    stack = associated(seen_alike(surface + 0.01 * blurred), surface, reference=2)
    weights = np.ones_like(stack.depths) if stack.weights is None else stack.weights
    known = ~np.isnan(stack.depths[:, :, 31:33])
    assert np.ptp([np.median(each[there]) for each, there in zip(weights[:, :, 31:33], known, strict=True)]) < 0.05


def test_reading_between_pixels_is_exact_on_a_plane(on_host: Any) -> None:
    """Parallel rays, views fractions of a pixel beside: the nearest pixel would be off by a part of the slope."""
    camera = Orthographic(0.1, 31.5, 23.5, 64, 48)
    places = [np.array([0.05, 0.03, 0.0]) * k for k in range(4)]
    planes = [5 + 0.4 * (0.1 * X + place[0]) + 0.2 * (0.1 * Y + place[1]) for place in places]
    views = [View(plane, camera, Pose(np.eye(3), place)) for plane, place in zip(planes, places, strict=True)]
    stack = associated(views, planes[0].astype(np.float32), backend=on_host)
    inner = (slice(4, -4), slice(6, -6))
    for depth in (*stack.depths, fuse(views, reference=0, backend=on_host.NAME).depth):
        np.testing.assert_allclose(depth[inner], planes[0][inner], atol=1e-5)


def test_what_is_pooled_turns_with_the_image() -> None:
    """Sums and means around a pixel know no direction, and a constant stays what it is away from borders."""
    values = np.random.default_rng(5).random(X.shape)
    weights = (values > 0.3).astype(np.float64)
    for turned in (np.transpose, np.flipud, np.fliplr):
        (sums,), (others,) = (REFERENCE.pooled(each[None], 3, PASSES) for each in (turned(values), values))
        np.testing.assert_allclose(sums, turned(others), rtol=1e-9)
        means = pooled_mean(turned(values), turned(weights), 3, REFERENCE)
        np.testing.assert_allclose(means, turned(pooled_mean(values, weights, 3, REFERENCE)), rtol=1e-9)
    np.testing.assert_allclose(pooled_mean(np.full(X.shape, 2.5), weights, 3, REFERENCE), 2.5, rtol=1e-6)


@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("errors", ["of pixels", "of neighbours", "in blobs"])
def test_edges_of_few_views_are_spared_if_their_errors_are_those_of_single_pixels(
    views: int, errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one or two views, errors that neighbours share have edges too, and nobody outvotes them."""
    asked = []
    monkeypatch.setattr(auto, "edge_weights", lambda surface, noise: asked.append(surface))
    noise = np.random.default_rng(1).normal(0, 0.03, (views, *X.shape))
    if errors == "of neighbours":
        noise = sum(np.roll(noise, (i, j), (1, 2)) for i in range(3) for j in range(3)) / 3
    elif errors == "in blobs":
        for number, view in enumerate(noise):
            view[(np.indices(X.shape) % 12 // 3 == number).all(axis=0)] += 0.4
    fuse(seen_alike(np.where(X < 32, 4.0, 4.5) + noise)[:views], backend="numpy")
    assert bool(asked) == (errors == "of pixels" or views == 3)


@pytest.mark.parametrize("rounds", [2, 4])
def test_the_first_reading_is_believed_and_later_ones_move_the_surface_by_a_share(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The splat's surface is not worth keeping; undamped, steep slopes swing from then on."""
    shares = []
    monkeypatch.setattr(auto, "blend", lambda surface, found, share: (shares.append(share), found)[1])
    depths = 4 + np.random.default_rng(1).normal(0, 0.01, (3, 15, 20))
    settings = Settings(rounds=rounds, damping=0.25, alpha=(1.0, 2.0), refine_poses=False)
    small = Pinhole(20.0, 20.0, 9.5, 7.0, 20, 15)
    fuse([View(depth, small, Pose.identity()) for depth in depths], auto.Auto(settings=settings), backend="numpy")
    assert shares == [1.0] + [0.25] * (rounds - 1)


@pytest.mark.parametrize(("others", "denied"), [(2, False), (4, True)])
def test_what_the_reference_alone_measured_is_left_out_where_three_others_confirm_the_surface(
    others: int, denied: bool
) -> None:
    depths = 4 + np.random.default_rng(4).laplace(0, 0.01, (others + 1, *X.shape))
    depths[0, 24, 30] += 1.0
    stack = associated(seen_alike(depths), np.full(X.shape, 4, np.float32))
    assert np.isnan(stack.depths[0, 24, 30]) == denied
    assert np.isnan(stack.depths[0]).mean() < 0.01
    assert not np.isnan(stack.depths[1:, 24, 30]).any()
