"""What compiling a kernel does to the rest of the process: nothing that stays."""

import gc
from collections.abc import Callable, Iterator

import pytest

numba = pytest.importorskip("numba")

from cfusion.kernels import cpu  # noqa: E402, F401
from cfusion.kernels.cpu.compiling import hearing  # noqa: E402
from cfusion.kernels.cpu.prox import inlines  # noqa: E402


@pytest.fixture(params=[True, False], ids=["collecting", "not collecting"])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the user has Python look for garbage."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_no_garbage_is_looked_for_while_a_kernel_is_compiled(collecting: bool) -> None:
    during: list[bool] = []
    kernel = numba.njit(lambda x: x + 1)
    with hearing(lambda name, done: during.append(gc.isenabled())):
        assert kernel(1.0) == 2.0
    assert during[0] is False
    assert gc.isenabled() is collecting


def test_a_kernel_that_cannot_be_compiled_leaves_the_collector_as_it_was(collecting: bool) -> None:
    outer = numba.njit(lambda x: numba.njit(lambda y: y.there_is_no_such_name)(x))
    with pytest.raises(numba.TypingError):
        outer(1.0)
    assert gc.isenabled() is collecting


def test_a_kernel_is_compiled_again_if_what_it_inlines_has_changed() -> None:
    """Numba's cache finds a kernel by its name, file and own bytecode."""

    def named(inlined: Callable[[int], int]) -> str:
        def kernel() -> None: ...

        return str(inlines(inlined, kernel).__qualname__)

    assert named(lambda t: t + 1) == named(lambda t: t + 1)
    assert len({named(lambda t: t + 1), named(lambda t: t - 1), named(lambda t: t + 2)}) == 3
