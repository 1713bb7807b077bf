"""Run cases in children with little memory and time; a child that dies names the case that killed it."""

import os
import resource
import shutil
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.datasets import read
from cfusion.datasets.read_result import read_depth
from cfusion.errors import CFusionError
from cfusion.io.codecs.kitti_poses import read_localization
from fuzz.calls import odd_call
from fuzz.mutations import mutated, replaced
from fuzz.seeds import make_seeds

BATCH = 200  # cases a child
MEMORY = 320 << 20  # bytes beyond what a child has: twice what the free pixels decode to, and 64 MiB
SECONDS = 10  # a case
CALLS = 0.15  # share of the cases that are calls


@dataclass(frozen=True)
class Failure:
    """A case that ended in anything but a result or one of our errors."""

    seed: int
    what: str


def fuzz(seconds: float, seed: int = 0, most: int = 1 << 60) -> tuple[int, list[Failure]]:
    """As many cases as fit into the time; how many there were, and those that failed."""
    count, failures, began = 0, [], time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        seeds = make_seeds(Path(place) / "seeds")
        while time.monotonic() - began < seconds and count < most:
            first = seed + count
            failures += _batch(range(first, first + BATCH), seeds, Path(place) / "case")
            count += BATCH
    return count, failures


def _batch(cases: range, seeds: dict[str, Path], place: Path) -> list[Failure]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _limit()
        with os.fdopen(writing, "w", buffering=1) as log:
            for case in cases:
                log.write(f"{case} ")
                log.write(f"{_one(case, seeds, place)}\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as stream:
        lines = stream.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    failures = list(_told(lines))
    if status != 0:
        last = int(lines[-1].split()[0]) if lines else cases[0]
        failures.append(Failure(last, f"the process died with {status}"))
    return failures


def _limit() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (BATCH // 2 + SECONDS, BATCH // 2 + SECONDS))


def _told(lines: list[str]) -> Iterator[Failure]:
    for line in lines:
        number, _, what = line.partition(" ")
        if what and what != "fine" and number.isdigit():
            yield Failure(int(number), what)


def _one(case: int, seeds: dict[str, Path], place: Path) -> str:
    """`fine`, or what went wrong; a case is all in its number."""
    rng = np.random.default_rng(case)
    began = time.process_time()
    try:
        if rng.random() < CALLS:
            odd_call(rng)
        else:
            _damaged(rng, seeds, place)
    except CFusionError as error:
        if "\n" in str(error) or len(str(error)) > 1000:
            return f"a message of several lines, or too long: {str(error)[:80]!r}"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:100]!r} at {last.filename}:{last.lineno}"
    spent = time.process_time() - began
    return "fine" if spent < SECONDS else f"it took {spent:.0f} s"


def _damaged(rng: np.random.Generator, seeds: dict[str, Path], place: Path) -> None:
    name = list(seeds)[int(rng.integers(0, len(seeds)))]
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(seeds[name], place)
    files = sorted(path for path in place.rglob("*") if path.is_file())
    for _ in range(int(rng.integers(1, 3))):
        file = files[int(rng.integers(0, len(files)))]
        if rng.random() < 0.04 and file.is_file():
            replaced(file, rng)
        elif file.is_file() and not file.is_symlink():
            file.write_bytes(mutated(file.read_bytes(), rng))
    if name == "matlab":
        for file in files:
            read_localization(file, 0)
    elif name == "result":
        read_depth(place)
    else:
        recognised = rng.random() < 0.2
        tuple(read(place, format=None if recognised else {"maps": "bundle"}.get(name, name)))
