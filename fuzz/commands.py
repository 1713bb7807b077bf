"""Odd command lines, in this process: every one ends in an exit code, and says nothing but its own words."""

from pathlib import Path

import numpy as np

from cfusion.cli.main import main
from fuzz.data import Place

GOOD = (0, 1, 2)  # fine, scores below a bar, a mistake
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("fuse", "DATA", "-o", "OUT", "--method", "median", "--backend", "numpy", "--write", "npy"),
    ("fuse", "DATA", "-o", "OUT", "--method", "median", "--backend", "numpy", "--set", "radius=2", "--quiet"),
    ("check", "DATA"),
    ("evaluate", "DATA", "DATA", "--scale", "0.001", "--truth-scale", "1"),
    ("scene", "DATA", "-o", "OUT", "--method", "median", "--backend", "numpy"),
    ("view", "DATA", "--rerun", "OUT.rrd"),
    ("formats", "--options"),
    ("methods", "--json"),
    ("info",),
    ("stereo", "DATA/a.png", "DATA/b.png", "-o", "OUT"),
    ("mosaic", "DATA/a.tif", "DATA/b.tif", "-o", "OUT/m.tif", "--backend", "numpy", "--quiet"),
    ("demo", "--size", "8x6", "-o", "OUT", "--methods", "median", "--backend", "numpy", "--quiet"),
)
WORDS = (
    *(
        "",
        "0",
        "-1",
        "nan",
        "inf",
        "1e400",
        "x",
        "-",
        "--",
        "--force",
        "--help",
        "/nowhere",
        "/dev/null",
        "DATA",
        "OUT",
    ),
    *("\0", "x\x1b[2J", "a" * 300, "lam=1e400", "alpha=[]", "alpha=nan", "iterations=1e2", "radius=-1", "=", "a=b"),
    *(
        "100000x100000",
        "0x0",
        "8x6",
        "²",
        "--set",
        "--reference",
        "99",
        "--format",
        "tum",
        "--option",
        "--every",
        "--debug",
    ),
)
KEEP_OFF = ("--debug",)  # asks for tracebacks


def odd_command(rng: np.random.Generator, place: Place) -> None:
    """One command with a few words changed, left out or added."""
    usual = COMMANDS[int(rng.integers(0, len(COMMANDS)))]
    words = [word for word in usual if rng.random() > 0.05]
    for _ in range(int(rng.integers(0, 3))):
        word = WORDS[int(rng.integers(0, len(WORDS)))]
        at = int(rng.integers(1, len(words) + 1)) if words else 0
        words[at : at + int(rng.integers(0, 2))] = [word]
    names = list(place.data)
    data = place.folder(names[int(rng.integers(0, len(names)))])
    line = [_filled(word, data, place.root / "written") for word in words if word not in KEEP_OFF]
    if "\0" in "".join(line):  # no shell can say it
        return
    try:
        code = main(line)
    except SystemExit as end:  # argparse has its say
        code = end.code if isinstance(end.code, int) else 0
    if code not in GOOD:
        raise AssertionError(f"exit {code} of {line}"[:300])


def _filled(word: str, data: Path, output: Path) -> str:
    return word.replace("DATA", str(data)).replace("OUT", str(output))
