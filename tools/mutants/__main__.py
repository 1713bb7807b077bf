"""Draw mutations at random, run the tests that cover each, and list those that no test noticed.

    python -m tools.mutants --number 200 --seed 1

The first run finds out which tests run which lines (the whole suite, once). Everything is kept in the folder `--out`:
an interrupted run goes on where it was, and several processes may work on one folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.mutants.covering import Covering
from tools.mutants.draw import drawn
from tools.mutants.forked import load_often_used
from tools.mutants.table import Table, claimed
from tools.mutants.trial import Workplace, environment

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", "paper", "tools", "fuzz")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "CONTRIBUTING.md", "Makefile")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=200, help="of mutants (200)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other mutants (1)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants", help="where everything is kept")
    parser.add_argument("--only", nargs="+", default=[""], help="files whose path has one of these in it, in turn")
    parser.add_argument("--again", action="store_true", help="run the survivors once more, after tests were added")
    parser.add_argument("--known", action="store_true", help="choose tests by the maps that are there, make none")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    maps = sorted(out.glob("map-*.json")) if given.known else covered(out)
    named = [Path(place).stem for place in given.only if place]
    table = Table(out / f"{'-'.join(['seed', str(given.seed), *named])}.jsonl")
    if given.again:
        table.forget("survived")
    place = Workplace(copied(out / f"tree-{os.getpid()}"))
    covering = Covering.read(ROOT, maps, place.collected())
    load_often_used()
    try:
        for number, site in enumerate(drawn(ROOT, given.number, given.seed, given.only)):
            if table.claim(number, site):
                outcome = place.trial(site, covering)
                table.add(number, site, outcome)
                print(
                    f"{number:4d} {outcome.verdict:9s} {outcome.seconds:5.1f} s  {site.file}:{site.line} {site.kind}",
                    flush=True,
                )
    finally:
        shutil.rmtree(place.tree, ignore_errors=True)
    print(table.report(ROOT))


def covered(out: Path, only: str = "") -> list[Path]:
    """The maps of lines to tests, one per file of tests; made now where they are missing or older than the tests."""
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        name = test.relative_to(ROOT / "tests")
        file = out / f"map-{'-'.join(name.with_suffix('').parts)}.json"
        skipped = name.parts[0] == "cuda" or only not in str(name)
        fresh = file.exists() and file.stat().st_mtime > test.stat().st_mtime
        claim = None if fresh or skipped else claimed(file.with_suffix(".claim"))
        if claim is not None:
            print(f"which lines does {name} run?", flush=True)
            code = "from pathlib import Path; from tools.mutants.covering import watch; "
            code += f"watch(Path.cwd(), ['tests/{name}'], Path({str(file)!r}))"
            subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(ROOT), stdout=subprocess.DEVNULL)
            claim.close()
    return sorted(out.glob("map-*.json"))


def copied(tree: Path) -> Path:
    """The repository's files in a tree of its own, with what Python and Numba have compiled."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, dirs_exist_ok=True)
    for file in FILES:
        shutil.copy2(ROOT / file, tree / file)
    return tree


if __name__ == "__main__":
    main()
