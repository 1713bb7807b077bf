"""Every mistake has its own sentence: what was given, and what to do."""

import numpy as np
import pytest

from cfusion import METHODS, CFusionError, Orthographic, Pinhole, Pose, Stack, View, fuse, fuse_stack
from cfusion.errors import BackendUnavailable, CameraError, InputError, PoseError, ShapeError, UnknownMethod

CAMERA = Pinhole(10.0, 10.0, 5.0, 4.0, 10, 8)
SHAPE = CAMERA.shape


def depths(views=3):
    rng = np.random.default_rng(0)
    x = np.mgrid[: SHAPE[0], : SHAPE[1]][1]
    return (5 + 0.1 * x + rng.normal(0, 0.1, (views, *SHAPE))).astype(np.float32)


def view(depth=None, **changes):
    rng = np.random.default_rng(1)
    given = {"camera": CAMERA, "pose": Pose.identity(), "image": rng.random(SHAPE).astype(np.float32)} | changes
    return View(depths(1)[0] if depth is None else depth, **given)


def unknown():
    return view(np.full(SHAPE, np.nan))


def distrusted():
    return view(confidence=np.zeros(SHAPE))


def changed(value, where=(2, 3)):
    """A depth map with one pixel that no depth map has."""
    depth = depths(1)[0]
    depth[where] = value
    return depth


def rotation(value, where=(0, 0)):
    matrix = np.eye(3)
    matrix[where] = value
    return matrix


MISTAKES = {
    "no views": (lambda: fuse([]), InputError, "there are no views; give at least one"),
    "no maps": (lambda: Stack(np.empty((0, 4, 5))), InputError, "holds no depth maps"),
    "no pixels": (lambda: Stack(np.empty((2, 0, 5))), ShapeError, "give maps with pixels"),
    "all NaN": (lambda: fuse([unknown()] * 3), InputError, "every depth in every view is NaN"),
    "no confidence": (lambda: fuse([distrusted()] * 3), InputError, "every confidence in every view is 0"),
    "a stack all NaN": (lambda: Stack(np.full((2, *SHAPE), np.nan)), InputError, "every depth in the stack is NaN"),
    "nothing lands": (
        lambda: fuse([unknown(), view(pose=Pose(np.diag([-1.0, 1.0, -1.0]), np.zeros(3)))], "l1", reference=0),
        InputError,
        "give maps with known depths",
    ),
    "arrays for views": (
        lambda: fuse([depths(1)[0]]),
        InputError,
        "views must be cfusion.View, not ndarray; for arrays",
    ),
    "depth and camera disagree": (lambda: view(np.ones((4, 4))), ShapeError, r"depth is \(4, 4\), its camera sees"),
    "image and depth disagree": (lambda: view(image=np.ones((4, 4))), ShapeError, r"image is \(4, 4\)"),
    "confidence and depth disagree": (lambda: view(confidence=np.ones((4, 4))), ShapeError, "confidence is"),
    "a confidence too small for float32": (
        lambda: view(confidence=np.full(SHAPE, 1e-30)),
        InputError,
        "confidence reaches 1e-30; scale it to lie between 1e-12 and 1e12",
    ),
    "weights too large for float32": (
        lambda: Stack(depths(), np.full((3, *SHAPE), 1e20)),
        InputError,
        r"weights reaches 1e\+20; scale it to lie between",
    ),
    "weights of the regulariser too far apart for float32": (
        lambda: fuse([view(), view(), view()], "l1", alpha=(1e-30, 1.0)),
        InputError,
        r"the energy exceeds float32: alpha is \(1e-30, 1\.0\); give weights nearer",
    ),
    "weights and depths disagree": (lambda: Stack(depths(), np.ones((2, *SHAPE))), ShapeError, "weights is"),
    "camera and stack disagree": (
        lambda: Stack(depths(), camera=CAMERA.scaled(0.5)),
        ShapeError,
        "their camera sees",
    ),
    "one map for a stack": (lambda: Stack(depths()[0]), ShapeError, r"for a single map depth\[None\]"),
    "a pose with scale": (lambda: Pose(2 * np.eye(3), np.zeros(3)), PoseError, "not rigid.*remove scale and shear"),
    "a pose with shear": (lambda: Pose(rotation(0.5, (0, 1)), np.zeros(3)), PoseError, "not rigid"),
    "a pose that mirrors": (lambda: Pose(rotation(-1.0), np.zeros(3)), PoseError, "mirrors .*flip one axis"),
    "a pose that is not finite": (lambda: Pose(rotation(np.nan), np.zeros(3)), PoseError, "not finite"),
    "an infinite translation": (lambda: Pose(np.eye(3), np.array([0, np.inf, 0])), PoseError, "not finite"),
    "a pose of another shape": (
        lambda: Pose.from_matrix(np.eye(3)),
        PoseError,
        r"a pose matrix is \(3, 3\); give 4x4 or 3x4",
    ),
    "focal length zero": (
        lambda: Pinhole(0.0, 10, 5, 4, 10, 8),
        CameraError,
        "fx is 0.0; give a positive number of pixels",
    ),
    "focal length negative": (
        lambda: Pinhole(10, -1.0, 5, 4, 10, 8),
        CameraError,
        "fy is -1.0; give a positive number of pixels",
    ),
    "focal length not finite": (lambda: Pinhole(np.nan, 10, 5, 4, 10, 8), CameraError, "fx is nan"),
    "principal point not finite": (lambda: Pinhole(10, 10, np.inf, 4, 10, 8), CameraError, "principal point"),
    "image without columns": (lambda: Pinhole(10, 10, 5, 4, 0, 8), CameraError, "width is 0"),
    "pixel size negative": (lambda: Orthographic(-1.0, 5, 4, 10, 8), CameraError, "pixel_size is -1.0"),
    "depth zero": (lambda: view(changed(0)), InputError, "zero or negative at 1 of 80 pixels; use NaN for unknown"),
    "depth negative": (lambda: view(changed(-2)), InputError, "zero or negative at 1 of 80 pixels"),
    "depth infinite": (lambda: view(changed(np.inf)), InputError, "infinite at 1 of 80 pixels; use NaN"),
    "depth infinite in a stack": (lambda: Stack(changed(-np.inf)[None]), InputError, "infinite at 1 of 80"),
    "weights negative": (lambda: Stack(depths(), -np.ones((3, *SHAPE))), InputError, "negative or not finite at 240"),
    "weights all zero": (
        lambda: fuse_stack(Stack(depths(), np.zeros((3, *SHAPE)))),
        InputError,
        "no observation has a positive weight",
    ),
    "an image of bytes": (lambda: view(image=np.zeros(SHAPE, np.uint8)), InputError, "divide by its largest value"),
    "reference after the last": (lambda: fuse([view()], reference=1), InputError, "reference 1 is not one of the 1"),
    "reference negative": (lambda: fuse([view()], reference=-1), InputError, "choose 0 to 0"),
    "reference between two": (lambda: fuse([view()] * 3, reference=1.5), InputError, "reference 1.5 is not one"),
    "reference without depth": (
        lambda: fuse([unknown(), view()], "input", reference=0),
        InputError,
        "holds no depth; choose another",
    ),
    "no camera for angles": (
        lambda: fuse_stack(Stack(depths()), "l1-heuristic"),
        InputError,
        "give the stack a camera",
    ),
    "no image for edges": (
        lambda: fuse_stack(Stack(depths(), camera=CAMERA), "adapt-hprior-g"),
        InputError,
        r"give View\(image=...\)",
    ),
}


@pytest.mark.parametrize("name", list(MISTAKES))
def test_mistake_has_its_own_sentence(name):
    make, kind, says = MISTAKES[name]
    with pytest.raises(kind, match=says) as caught:
        make()
    assert isinstance(caught.value, CFusionError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_map_of_many_is_found_wherever_it_is(place):
    for bad, says in ((np.inf, "infinite at 1 of 240"), (2e15, r"depth reaches 2e\+15; choose a unit")):
        stack = depths()
        stack[place, 2, 3] = bad
        with pytest.raises(InputError, match=says):
            Stack(stack)
    for bad, says in ((-1.0, "negative or not finite at 1 of 240"), (2e12, r"weights reaches 2e\+12")):
        weights = np.ones((3, *SHAPE))
        weights[place, 2, 3] = bad
        with pytest.raises(InputError, match=says):
            Stack(depths(), weights)
    unknown = depths()
    unknown[place, 2, 3] = np.nan
    assert (Stack(unknown, np.ones((3, *SHAPE))).weights == 0).sum() == 1  # no weight where no depth is


@pytest.mark.parametrize(("factor", "fits"), [(0.99e15, True), (1.01e15, False), (1.01e-15, True), (0.99e-15, False)])
def test_units_are_taken_up_to_their_limits(factor, fits):
    """Of the largest depth: a single small one is none."""
    lengths = np.array([1.0, 0.5, np.nan, 1e-3])[:, None, None] * factor
    if fits:
        assert Stack(lengths).views == 4
    else:
        with pytest.raises(InputError, match="depth reaches"):
            Stack(lengths)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("L1", "did you mean l1"),
        ("meidan", "did you mean median"),
        ("l1-adpat", "l1-adapt"),
        ("tgvfusion", "tgv-fusion"),
        ("Auto", "did you mean auto"),
        ("zzzz", "choose one of: input, mean, median"),
        (None, "there is no method None"),
        (["l1"], "there is no method"),
    ],
)
def test_unknown_method_names_the_nearest(wrong, near):
    with pytest.raises(UnknownMethod, match=near):
        fuse_stack(Stack(depths()), wrong)


@pytest.mark.parametrize(
    ("method", "given", "says"),
    [
        (
            "l1",
            {"toleranc": 1e-3},
            "method 'l1' has no parameter 'toleranc'; did you mean 'tolerance'. it has: order, alpha, lam",
        ),
        ("l1", {"alhpa": 1.0}, "did you mean 'alpha'"),
        ("l1", {"nonsense": 1}, "method 'l1' has no parameter 'nonsense'; it has: order, alpha"),
        ("l1", {"beta": 3}, "no parameter 'beta'; it has: order, alpha, lam"),  # not 'delta', which is Huber's
        ("tgv-fusion", {"beta": 3}, "did you mean 'delta'. it has: order, alpha, lam, delta"),
        ("l1", {"delta": 0.1}, "method 'l1' has no parameter 'delta'"),
        ("l1", {"mu": 1.0}, "method 'l1' has no parameter 'mu'"),
        ("median", {"alpha": 1.0}, "method 'median' has no parameter 'alpha'"),
        ("median", {"tolerance": 0.1}, "method 'median' has no parameter 'tolerance'"),
        ("auto", {"order": 1}, "'auto' has no parameter 'order'; it has: alpha"),
        ("l1", {"order": 4}, "order 4 is not implemented; choose 1, 2 or 3"),
        ("l1", {"alpha": (1.0, -2.0)}, "give positive, finite weights"),
        ("l1", {"alpha": (1.0, np.inf)}, "give positive, finite weights"),
        ("l1", {"alpha": "strong"}, "alpha = 'strong' does not fit"),
        ("auto", {"alpha": "strong"}, "alpha = 'strong' does not fit"),
        ("auto", {"alpha": (0.0, 1.0)}, "give positive, finite weights"),
        ("l1", {"lam": 0.0}, "lam is 0.0; give a positive, finite confidence"),
        ("l1", {"lam": np.nan}, "lam is nan"),
        ("l1", {"lam": "one"}, "lam = 'one' does not fit"),
        ("l1", {"tolerance": -1e-3}, "tolerance is -0.001"),
        ("l1", {"tolerance": np.nan}, "tolerance is nan"),
        ("l1", {"tolerance": "fine"}, "tolerance = 'fine' does not fit"),
        ("l1", {"iterations": 0}, "iterations is 0; give a whole number of at least 1"),
        ("l1", {"iterations": 2.5}, "iterations is 2.5"),
        ("l1-adapt", {"outer": 0}, "outer is 0; give a whole number of at least 1"),
        ("l1-adapt", {"rate": 0.0}, "rate is 0.0; give 1/"),
        ("l1-adapt", {"b": -1.0}, "b is -1.0; give a positive number"),
        ("l1-adapt", {"shape": 0.1}, "shape is 0.1"),
        ("l1-adapt:ama", {"nu": 0.0}, "nu = 0.0"),
        ("l1-adapt:ama", {"growth": 0.5}, "growth = 0.5"),
        ("l1-adapt:pdhg", {"iterations": -1}, "iterations is -1"),
        ("tgv-fusion", {"delta": 0.0}, "delta is 0.0; give a positive length"),
        ("l1", {"radius": -1}, "the fill radius is -1"),
        ("l1", {"fill_radius": -1}, "fill_radius is -1; give a whole number of pixels"),
        ("l1", {"fill_radius": 2.5}, "fill_radius is 2.5"),
        ("auto", {"rounds": 0}, "rounds is 0"),
        ("auto", {"gate": 0.0}, "gate is 0.0"),
    ],
)
def test_wrong_parameters_are_named(method, given, says):
    with pytest.raises(InputError, match=says) as caught:
        fuse_stack(Stack(depths()), method, **given)
    assert "\n" not in str(caught.value)


def test_unknown_backend_names_those_there_are():
    with pytest.raises(BackendUnavailable, match=r"there is no backend 'gpu'; choose one of: auto, .*numpy"):
        fuse_stack(Stack(depths()), "l1", backend="gpu")


@pytest.mark.parametrize("method", list(METHODS))
def test_one_view_is_no_mistake(method):
    """Every method works with K = 1, on the reference backend, where nothing needs compiling."""
    given = view()
    short = {name: n for name, n in (("iterations", 100), ("outer", 3)) if name in METHODS[method].parameters()}
    result = fuse([given], method, backend="numpy", **short)
    assert result.depth.shape == SHAPE
    assert np.isfinite(result.depth).all()
    assert (result.provenance == 1).all()
    assert np.abs(result.depth - given.depth).max() < 1


@pytest.mark.parametrize("method", ["mean", "median", "rof", "l1", "l1-adapt", "l1-adapt:ama", "l1-adapt:pdhg", "auto"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 1, 1), (2, 1, 7), (2, 7, 1)], ids=str)
def test_no_image_is_too_small(method, shape):
    stack = Stack(5 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    depth = fuse_stack(stack, method, backend="numpy").depth
    assert np.isfinite(depth).all()
    assert stack.depths.min() - 1 <= depth.min() <= depth.max() <= stack.depths.max() + 1


@pytest.mark.parametrize("method", ["median", "l1", "l1-adapt", "auto"])
@pytest.mark.parametrize("value", [0.0, -3.0, 250.0])
def test_no_scene_is_too_flat(method, value):
    """A constant, without noise, of any sign: returned as it is."""
    stack = Stack(np.full((3, 8, 10), value, np.float32))
    np.testing.assert_allclose(fuse_stack(stack, method, backend="numpy").depth, value, atol=1e-6)
