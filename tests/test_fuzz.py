"""A minute of `make fuzz`, and what once got through."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

if sys.platform != "linux":
    pytest.skip("children with limits are Linux's", allow_module_level=True)

from fuzz.data import CORPUS, Data, Place, load_data
from fuzz.memory import FREE, Meter
from fuzz.run import fuzz

SECONDS = float(os.environ.get("CFUSION_FUZZ_SECONDS", "60"))


def test_nothing_gets_through() -> None:
    batches = list(fuzz(SECONDS, seed=1_000_000))
    assert batches[-1][0] >= 200
    assert [failure for _, found in batches for failure in found] == []


def test_every_stored_case_is_read_or_refused(tmp_path: Path) -> None:
    """The corpus as it is, without further damage."""
    from fuzz.damage import Damage, run

    from cfusion.errors import CFusionError

    data = load_data(tmp_path / "seeds")
    place = Place(tmp_path / "case", data)
    assert sum(len(each.kin) for each in data.values()) >= 100
    for name, each in data.items():
        for changes in each.kin:
            try:
                run(Damage(name, changes, (), 0.5), place)
            except CFusionError as error:
                assert "\n" not in str(error)


def test_the_corpus_is_small() -> None:
    sizes = [file.stat().st_size for file in CORPUS.iterdir()]
    assert max(sizes) < 10_000
    assert sum(sizes) < 100_000


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (lambda: os._exit(3), "the process died with 3"),
        (lambda: os.kill(os.getpid(), 9), "the process died with -9"),
        (lambda: {}[0], "KeyError"),
        (lambda: bytearray(FREE + (400 << 20)), "MiB too many were taken"),
    ],
)
def test_the_fuzzer_notices(monkeypatch: pytest.MonkeyPatch, does: object, says: str) -> None:
    """A fuzzer that finds nothing has to be able to find something."""
    from fuzz import run

    monkeypatch.setattr(run, "CALLS", 1.1)
    monkeypatch.setattr(run, "odd_call", lambda rng, place: does())  # type: ignore[operator]
    batches = list(fuzz(30, seed=0, most=3))
    assert [failure.seed for _, found in batches for failure in found] == [0, 1, 2]
    assert all(says in failure.what for _, found in batches for failure in found)


def test_memory_is_measured_against_what_was_decoded() -> None:
    """In a child, since the meter listens to the decoders from then on."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            meter = Meter()
            meter.start()
            held = bytearray(200 << 20)
            code = int(not (meter.excess(0) > 100 << 20 and meter.excess(100 << 20) == 0 and len(held)))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_case_takes_its_changes_back(tmp_path: Path) -> None:
    place = Place(tmp_path / "case", {"x": Data("x", {"a/b.txt": b"sound"})})
    with place.changed("x", {"a/b.txt": b"damaged"}) as folder:
        assert (folder / "a/b.txt").read_bytes() == b"damaged"
        (folder / "a/b.txt").unlink()
        (folder / "a/b.txt").mkdir()
    assert (folder / "a/b.txt").read_bytes() == b"sound"
