"""What became of each mutant, one line of JSON each, and the report."""

from __future__ import annotations

import difflib
import fcntl
import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from tools.mutants.sites import Site
from tools.mutants.trial import Outcome

NOTICED = ("killed", "hung")


def claimed(file: Path) -> IO[str] | None:
    """A lock on a file that nobody else has; it ends with the process."""
    mark = file.open("w")
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        mark.close()
        return None
    return mark


@dataclass
class Table:
    """The lines of one seed; several processes may add to it."""

    file: Path
    claims: list[IO[str]] = field(default_factory=list)  # open as long as the process lives

    def rows(self) -> list[dict[str, object]]:
        """What is known so far, in the order of the draw."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return sorted((json.loads(line) for line in lines), key=lambda row: row["number"])

    def claim(self, number: int, site: Site) -> bool:
        """Whether this mutant is still to be tried, and by nobody else."""
        if any(row["number"] == number and row["site"] == asdict(site) for row in self.rows()):
            return False
        claim = claimed(self.file.with_suffix(f".{number}.claim"))
        if claim is None:
            return False
        self.claims.append(claim)
        return True

    def add(self, number: int, site: Site, outcome: Outcome) -> None:
        """One more line, in one write."""
        row = {"number": number, "site": asdict(site), "outcome": asdict(outcome)}
        with self.file.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def forget(self, verdict: str) -> None:
        """Drop the lines of that verdict, to try them again."""
        kept = [row for row in self.rows() if row["outcome"]["verdict"] != verdict]  # type: ignore[index]
        beside = self.file.with_suffix(f".{os.getpid()}")
        beside.write_text("".join(json.dumps(row) + "\n" for row in kept))
        beside.replace(self.file)

    def report(self, root: Path) -> str:
        """How many were noticed, and every one that was not, with its place and the change."""
        rows = self.rows()
        counts = Counter(str(row["outcome"]["verdict"]) for row in rows)  # type: ignore[index]
        missed = [row for row in rows if row["outcome"]["verdict"] not in NOTICED]  # type: ignore[index]
        words = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        head = f"{len(rows)} mutants: {words}; {100 * len(missed) / max(len(rows), 1):.1f} % not noticed"
        return "\n\n".join([head, *(_shown(row, root) for row in missed)])


def _shown(row: dict[str, object], root: Path) -> str:
    site = Site(**row["site"])  # type: ignore[arg-type]
    source = (root / site.file).read_bytes()
    before, after = (text.decode(errors="replace").splitlines() for text in (source, site.applied(source)))
    changes = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line[0] in "+-"][2:]
    verdict = row["outcome"]["verdict"]  # type: ignore[index]
    return "\n".join([f"{row['number']} {verdict} {site.file}:{site.line} ({site.kind})", *changes])
