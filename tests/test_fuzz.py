"""Some seconds of `make fuzz`, and the cases that once got through."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

if sys.platform != "linux":
    pytest.skip("children with limits are Linux's", allow_module_level=True)

from fuzz.run import fuzz

SECONDS = float(os.environ.get("CFUSION_FUZZ_SECONDS", "15"))
BATCHES = (0, 2000, 101_600, 104_000)  # of 200: numbers of many digits, long names, odd arrays, damaged EXR


def test_nothing_gets_through() -> None:
    count, failures = fuzz(SECONDS, seed=1_000_000)
    assert count >= 200
    assert failures == []


@pytest.mark.parametrize("seed", BATCHES)
def test_what_once_got_through(seed: int) -> None:
    _, failures = fuzz(60, seed=seed, most=200)
    assert failures == []
