"""Which mutants: drawn at random over the package, the same for the same seed."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

from tools.mutants.sites import Site, sites_of

# What cannot run on a machine without a GPU is not mutated.
LEFT_OUT = ("src/cfusion/kernels/cuda/",)


def drawn(root: Path, number: int, seed: int, only: str = "") -> list[Site]:
    """So many different edits, each as likely as any other."""
    files = sorted(path.relative_to(root).as_posix() for path in (root / "src").rglob("*.py"))
    wanted = [file for file in files if only in file and not file.startswith(LEFT_OUT)]
    every = [site for file in wanted for site in sites_of(file, root)]
    random.Random(seed).shuffle(every)
    usable = (site for site in every if site.parses((root / site.file).read_bytes()))
    return list(islice(usable, number))
