"""Confidences and edge weights: cosines of known planes, eigenvectors of known images, products."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import METHODS, fuse_stack
from cfusion.confidence import Appearance, Geometric, Given, Product, Uniform, edge_weight, nagel_enkelmann
from cfusion.confidence.edges import blur, gradient, grey
from cfusion.energy import L1, TGV, Energy
from cfusion.errors import InputError, ShapeError
from cfusion.geometry import Orthographic, Pinhole, Stack

CAMERA = Pinhole(fx=60.0, fy=60.0, cx=20.0, cy=15.0, width=41, height=31)
FLAT = Orthographic(pixel_size=0.1, cx=20.0, cy=15.0, width=41, height=31)
V, U = np.mgrid[: CAMERA.height, : CAMERA.width].astype(np.float64)


def stack_of(*depths, camera=CAMERA, **extras):
    return Stack(np.stack(depths).astype(np.float32), camera=camera, **extras)


def tilted(degrees):
    """A plane through (0, 0, 2), tilted about the y axis."""
    return 2 / (1 - np.tan(np.radians(degrees)) * (U - CAMERA.cx) / CAMERA.fx)


def written_out(stack):
    """The weights, with the ones that a stack without weights implies."""
    return (~np.isnan(stack.depths)).astype(np.float32) if stack.weights is None else stack.weights


def with_holes(rng, depth, unknown=0.3):
    return np.where(rng.random(depth.shape) < unknown, np.nan, depth)


def test_geometric_of_a_wall_is_the_cosine_of_the_ray():
    weights = Geometric()(stack_of(np.full(CAMERA.shape, 2.0))).weights[0]
    np.testing.assert_allclose(weights, CAMERA.rays()[..., 2], atol=1e-5)
    flat = Geometric()(stack_of(np.full(FLAT.shape, 2.0), camera=FLAT)).weights[0]
    np.testing.assert_allclose(flat, 1.0, atol=1e-6)


@pytest.mark.parametrize("degrees", [0, 20, 45, 70])
def test_geometric_of_a_tilted_plane_is_the_cosine_of_the_tilt(degrees):
    weights = Geometric()(stack_of(tilted(degrees))).weights[0]
    assert weights[15, 20] == pytest.approx(np.cos(np.radians(degrees)), abs=2e-4)
    ramp = 5 + np.tan(np.radians(degrees)) * (V - 15) * FLAT.pixel_size
    flat = Geometric()(stack_of(ramp, camera=FLAT)).weights[0]
    np.testing.assert_allclose(flat, np.cos(np.radians(degrees)), atol=2e-4)


def test_geometric_looks_at_each_map_and_not_at_the_unit():
    rng = np.random.default_rng(0)
    maps = [with_holes(rng, tilted(angle) * rng.uniform(0.99, 1.01, CAMERA.shape)) for angle in (0, 30)]
    metres = Geometric()(stack_of(*maps)).weights
    millimetres = Geometric()(stack_of(*(1000 * each for each in maps))).weights
    np.testing.assert_allclose(metres, millimetres, rtol=2e-3)
    assert not np.allclose(metres[0], metres[1])
    alone = Geometric()(stack_of(maps[1])).weights
    assert np.array_equal(alone[0], metres[1])


def test_geometric_without_a_normal_takes_the_median_of_its_map():
    depth = tilted(60)
    depth[10:21, 10:21] = np.nan
    depth[15, 15] = 2.0  # alone
    weights = Geometric()(stack_of(depth)).weights[0]
    known = ~np.isnan(depth)
    known[15, 15] = False
    assert weights[15, 15] == pytest.approx(np.median(weights[known]), rel=1e-6)
    line = Geometric()(Stack(np.full((1, 1, 5), 2.0), camera=Pinhole(5, 5, 2, 0, 5, 1)))
    assert (line.weights == 1).all()


def test_geometric_floor():
    rng = np.random.default_rng(1)
    noisy = stack_of(2 + 100 * rng.random(CAMERA.shape))
    assert Geometric().weights(noisy).min() >= np.float32(1e-4)
    assert (Geometric(floor=0.5).weights(noisy) >= 0.5).all()
    with pytest.raises(InputError, match="floor is 2"):
        Geometric(floor=2)
    with pytest.raises(InputError, match="camera"):
        Geometric()(Stack(np.ones((1, 3, 3))))


def test_appearance_is_a_power_of_the_blurred_gradient():
    slope = 0.02
    ramp = slope * U
    stack = stack_of(tilted(0), tilted(10), image=ramp)
    np.testing.assert_allclose(Appearance(3.0, 1.5, 0.0)(stack).weights, 3 * slope**1.5, rtol=1e-4)
    np.testing.assert_allclose(Appearance(3.0, 1.5, 2.0)(stack).weights, 3 * slope**1.5, rtol=1e-4)
    step = stack_of(tilted(0), image=(U > 20).astype(float))
    narrow, wide = (Appearance(1.0, 1.0, sigma)(step).weights[0, 15] for sigma in (0.5, 3.0))
    assert narrow[20] > wide[20]
    assert wide[12] > narrow[12]
    assert wide.sum() == pytest.approx(1.0, rel=1e-3)  # the blurred derivative of a step still adds up to it


def test_appearance_reaches_two_pixels_around_an_edge():
    """Unless it is told otherwise: the derivative of a step is blurred into a bell of that width."""
    step = stack_of(tilted(0), image=(U > 20).astype(float))
    across = np.arange(step.shape[1]) - 20.5
    sharp, usual = (
        np.average(across**2, weights=each(step).weights[0, 15]) for each in (Appearance(sigma=0), Appearance())
    )
    assert usual - sharp == pytest.approx(2.0**2, rel=0.05)


def test_appearance_on_a_blank_image_is_its_floor():
    blank = stack_of(tilted(0), image=np.full(CAMERA.shape, 0.5))
    assert (Appearance().weights(blank) == 0).all()
    assert (Appearance(floor=0.25).weights(blank) == 0.25).all()
    with pytest.raises(InputError, match="image"):
        Appearance()(stack_of(tilted(0)))
    with pytest.raises(InputError, match="sigma is -1"):
        Appearance(sigma=-1.0)


def test_weights_are_zero_where_depth_is_unknown_and_the_rest_of_the_stack_stays():
    rng = np.random.default_rng(2)
    depths = [with_holes(rng, tilted(angle)) for angle in (0, 10, 20)]
    given = rng.uniform(0.5, 2, (3, *CAMERA.shape))
    filled = rng.random((3, *CAMERA.shape)) < 0.1
    stack = stack_of(*depths, weights=given, image=rng.random(CAMERA.shape), filled=filled)
    for confidence in (Uniform(), Given(), Geometric(), Appearance(), Given() * Geometric()):
        weighed = confidence(stack)
        weights = written_out(weighed)
        assert weights.dtype == np.float32
        assert (weights[np.isnan(stack.depths)] == 0).all()
        assert (weights[~np.isnan(stack.depths)] > 0).all()
        assert weighed.depths is stack.depths or np.array_equal(weighed.depths, stack.depths, equal_nan=True)
        assert np.array_equal(weighed.filled, filled)


def test_uniform_and_given():
    rng = np.random.default_rng(3)
    given = rng.uniform(0.5, 2, (1, *CAMERA.shape)).astype(np.float32)
    stack = stack_of(tilted(0), weights=given)
    assert (written_out(Uniform()(stack)) == 1).all()
    assert np.array_equal(Given()(stack).weights, given)
    assert (written_out(Given()(stack_of(tilted(0)))) == 1).all()


def test_products_multiply_and_are_flat():
    rng = np.random.default_rng(4)
    given = rng.uniform(0.5, 2, (1, *CAMERA.shape))
    stack = stack_of(tilted(30), weights=given, image=rng.random(CAMERA.shape))
    product = Given() * Geometric() * Appearance()
    assert product == Product((Given(), Geometric(), Appearance()))
    expected = Given().weights(stack) * Geometric().weights(stack) * Appearance().weights(stack)
    np.testing.assert_allclose(product(stack).weights, expected, rtol=1e-6)
    assert np.array_equal((Uniform() * Given())(stack).weights, Given()(stack).weights)


def test_gradient_of_a_ramp_is_its_slope_up_to_the_border():
    along_x, along_y = gradient(0.01 * U - 0.02 * V)
    np.testing.assert_allclose(along_x, 0.01, atol=1e-12)
    np.testing.assert_allclose(along_y, -0.02, atol=1e-12)


def test_gradient_turns_with_the_image():
    for degrees in (0, 15, 30, 45):
        nx, ny = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        along_x, along_y = gradient(np.sin(0.8 * (nx * U + ny * V)))
        steep = np.hypot(along_x, along_y)[3:-3, 3:-3] > 0.3
        angle = np.arctan2(ny * along_x - nx * along_y, nx * along_x + ny * along_y)[3:-3, 3:-3][steep]
        assert np.abs(np.sin(angle)).max() < 0.01


def test_blur_keeps_a_constant_and_the_mass_and_has_the_width_asked_for():
    np.testing.assert_allclose(blur(np.full((5, 4), 0.3), 7.0), 0.3, rtol=1e-12)
    dot = np.zeros((41, 41))
    dot[20, 20] = 1
    spread = blur(dot, 3.0)
    offset = np.arange(41) - 20
    assert spread.sum() == pytest.approx(1.0)
    assert (spread.sum(axis=0) * offset**2).sum() == pytest.approx(9.0, rel=0.01)


def test_edge_weight_is_one_where_flat_and_the_exponential_on_a_ramp():
    assert (edge_weight(np.full((6, 7), 0.4, np.float32)) == 1).all()
    np.testing.assert_allclose(edge_weight(0.02 * U), np.exp(-2 * 0.02**1.5), rtol=1e-6)
    np.testing.assert_allclose(edge_weight(0.02 * U, factor=5.0, exponent=1.0), np.exp(-5 * 0.02), rtol=1e-6)
    assert edge_weight(np.full((1, 1), 0.4)).shape == (1, 1)
    with pytest.raises(InputError, match="factor is -1"):
        edge_weight(U, factor=-1.0)


def matrices(components):
    xx, xy, yy = np.moveaxis(components.astype(np.float64), -1, 0)
    return np.stack([np.stack([xx, xy], -1), np.stack([xy, yy], -1)], -2)


def test_tensor_is_the_root_of_nagel_and_enkelmanns():
    rng = np.random.default_rng(5)
    image = rng.random((9, 11))
    root = matrices(nagel_enkelmann(image, factor=4.0, exponent=0.9))
    along_x, along_y = gradient(image)
    length = np.hypot(along_x, along_y)
    n = np.stack([along_x, along_y], -1) / length[..., None]
    m = np.stack([-n[..., 1], n[..., 0]], -1)
    decay = np.exp(-4.0 * length**0.9)
    expected = decay[..., None, None] * n[..., :, None] * n[..., None, :] + m[..., :, None] * m[..., None, :]
    np.testing.assert_allclose(root @ root, expected, atol=1e-6)


def test_tensor_eigenvalues_and_eigenvectors():
    rng = np.random.default_rng(6)
    eigenvalues = np.linalg.eigvalsh(matrices(nagel_enkelmann(rng.random((20, 20)), factor=1e4)))
    assert eigenvalues.min() > 0
    assert eigenvalues.max() <= 1 + 1e-6
    ramp = matrices(nagel_enkelmann(0.03 * U + 0.04 * V))
    across, along = np.array([0.6, 0.8]), np.array([-0.8, 0.6])
    np.testing.assert_allclose(ramp @ along, np.broadcast_to(along, ramp.shape[:-1]), atol=1e-6)
    weakened = np.exp(-(0.05**1.5)) * across
    np.testing.assert_allclose(ramp @ across, np.broadcast_to(weakened, ramp.shape[:-1]), atol=1e-6)
    identity = nagel_enkelmann(np.full((4, 5), 0.7))
    assert np.array_equal(identity, np.broadcast_to(np.float32([1, 0, 1]), (4, 5, 3)))


@pytest.mark.parametrize("rule", [edge_weight, nagel_enkelmann])
def test_edge_rules_fit_the_regulariser(rule):
    """On a flat image they change nothing; on an edge of the image a step in depth costs less."""
    steps = np.where(np.arange(12) < 6, 1.0, 2.0) * np.ones((3, 8, 1), np.float32)
    stack = Stack(steps + np.random.default_rng(8).laplace(0, 0.1, steps.shape))
    edge = np.where(np.arange(12) < 6, 0.0, 1.0) * np.ones((8, 1), np.float32)

    def regulariser(image, rule):
        method = METHODS["l1"].replace(energy=Energy(L1(), TGV(2, edge=rule)))
        return fuse_stack(replace(stack, image=image), method, backend="numpy").energies["regulariser"]

    plain = regulariser(np.full_like(edge, 0.5), None)
    assert regulariser(np.full_like(edge, 0.5), rule) == pytest.approx(plain)
    assert regulariser(edge, rule) < 0.9 * plain


def test_colour_is_turned_to_grey():
    rng = np.random.default_rng(7)
    plain = rng.random((6, 5)).astype(np.float32)
    np.testing.assert_allclose(grey(np.repeat(plain[..., None], 3, axis=-1)), plain, rtol=1e-6)
    assert grey(np.eye(3)[None].astype(np.float32))[0] == pytest.approx([0.299, 0.587, 0.114])
    with pytest.raises(ShapeError, match=r"give \(H, W\)"):
        grey(np.zeros((4, 4, 4), np.float32))
    with pytest.raises(InputError, match="NaN"):
        grey(np.array([[0.0, np.nan]], np.float32))
