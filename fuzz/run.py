"""Run cases in children that live for thousands of them; a child that dies or hangs names the case that it was at."""

import os
import select
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.errors import CFusionError
from fuzz.calls import odd_call
from fuzz.commands import odd_command
from fuzz.damage import drawn, run
from fuzz.data import Data, Place, load_data
from fuzz.files import odd_file
from fuzz.memory import Meter

BATCH = 2000  # cases a child
SECONDS = 10  # of computing a case may take
SILENCE = 120  # seconds after which a child that says nothing hangs
CALLS, COMMANDS, FILES = 0.15, 0.002, 0.45  # shares of the cases that are calls, commands, single files
LONGEST = 1000  # letters of a message


class TooLong(BaseException):
    """A case that computes on and on; nothing may catch it."""


@dataclass(frozen=True)
class Failure:
    """A case that ended in anything but a result or one of our errors."""

    seed: int
    what: str


def fuzz(seconds: float, seed: int = 0, most: int = 1 << 60) -> Iterator[tuple[int, list[Failure]]]:
    """As many cases as fit into the time: how many there were so far, and which of the last ones failed."""
    count = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        data = load_data(Path(place) / "seeds")
        began = time.monotonic()
        while time.monotonic() - began < seconds and count < most:
            first, last = seed + count, seed + min(count + BATCH, most)
            until = began + seconds
            done, failures = _batch(range(first, last), data, Path(place) / "case", until)
            count += done
            yield count, failures


def _batch(cases: range, data: dict[str, Data], place: Path, until: float) -> tuple[int, list[Failure]]:
    """How many of the cases were run before the time was up or the child died, and those that failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _serve(cases, data, place, writing, until)
        os._exit(0)
    os.close(writing)
    lines, hangs = _heard(reading)
    os.close(reading)
    if hangs:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    failures = [Failure(int(number), what) for number, _, what in (line.partition(" ") for line in lines) if what]
    done = len(lines)
    if status != 0:
        what = f"it hung for {SILENCE} s" if hangs else f"the process died with {status}"
        failures.append(Failure(cases[0] + done, what))
        done += 1
    return done, failures


def _heard(reading: int) -> tuple[list[str], bool]:
    """What a child said, a line a case; and whether it fell silent."""
    text = b""
    while True:
        ready, _, _ = select.select([reading], [], [], SILENCE)
        if not ready:
            break
        piece = os.read(reading, 1 << 16)
        if not piece:
            break
        text += piece
    return text.decode(errors="replace").split("\n")[:-1], not ready


def _serve(cases: range, data: dict[str, Data], place: Path, writing: int, until: float) -> None:
    """Run cases in this process, and say of each what came of it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nowhere, handle)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _stop)
    meter, laid = Meter(), Place(place, data)
    os.chdir(place.parent)
    for case in cases:
        said = one(case, laid, meter).replace("\n", " ")
        os.write(writing, f"{case} {said}\n".encode(errors="replace"))
        if time.monotonic() > until:
            break


def one(case: int, place: Place, meter: Meter) -> str:
    """Nothing, or what went wrong; a case is all in its number."""
    rng = np.random.default_rng(case)
    meter.start()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    decoded: int | None = 0
    try:
        kind = rng.random()
        if kind < CALLS:
            decoded = None
            odd_call(rng, place.root)
        elif kind < CALLS + COMMANDS:
            decoded = None
            odd_command(rng, place)
        elif kind < CALLS + COMMANDS + FILES:
            decoded = odd_file(rng, place)
        else:
            decoded = run(drawn(rng, place.data), place)
    except CFusionError as error:
        if "\n" in str(error) or len(str(error)) > LONGEST:
            return f"a message of several lines, or too long: {str(error)[:80]!r}"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:100]!r} at {last.filename}:{last.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    excess = meter.excess(decoded)
    return f"{excess >> 20} MiB too many were taken" if excess else ""


def _stop(number: int, frame: object) -> None:
    raise TooLong(f"it computed for {SECONDS} s")
