"""Which mutants: drawn at random over the package, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path

from tools.mutants.sites import Site, sites_of

# What cannot run on a machine without a GPU is not mutated.
LEFT_OUT = ("src/cfusion/kernels/cuda/",)


def drawn(root: Path, number: int, seed: int, only: Sequence[str] = ("",)) -> list[Site]:
    """So many different edits, each as likely as any other; of several places in turn, as many of each."""
    files = sorted(path.relative_to(root).as_posix() for path in (root / "src").rglob("*.py"))
    draws = [_of(root, [file for file in files if place in file], seed) for place in only]
    in_turn = (site for turn in zip_longest(*draws) for site in turn if site is not None)
    return list(islice(in_turn, number))


def _of(root: Path, files: Sequence[str], seed: int) -> Iterator[Site]:
    every = [site for file in files if not file.startswith(LEFT_OUT) for site in sites_of(file, root)]
    random.Random(seed).shuffle(every)
    return (site for site in every if site.parses((root / site.file).read_bytes()))
