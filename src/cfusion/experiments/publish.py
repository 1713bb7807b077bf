"""Write the results of experiments: lines, tables, figures and one page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cfusion.errors import FileError
from cfusion.experiments.plan import Level
from cfusion.experiments.provenance import commit
from cfusion.experiments.spec import Spec
from cfusion.experiments.store import Record, Store
from cfusion.experiments.summary import summarise
from cfusion.experiments.whole_files import read_arrays
from cfusion.io.atomic import filling
from cfusion.io.files import read_bytes
from cfusion.io.to_json import to_json
from cfusion.report.paper_page import Chapter, paper_page

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Findings:
    """The results of one experiment, and notes about omissions."""

    spec: Spec
    level: Level
    lines: Sequence[Record]
    notes: Sequence[str]

    def chapter(self, store: Store) -> Chapter:
        """Tables and figures, from the lines and their stored maps."""

        def load_maps(key: str) -> Mapping[str, NDArray[Any]]:
            try:
                return read_arrays(store.maps_file(key))
            except (OSError, ValueError):
                raise FileError(
                    f"the maps of result {key} are not in {store.folder}; run the experiment again"
                ) from None

        spec = self.spec
        if self.level is Level.quick:  # checks are for the complete experiment
            spec = replace(spec, parts=tuple(replace(part, checks=()) for part in spec.parts))
        return Chapter(spec.name, spec.title, spec.about, self.notes, summarise(spec, self.lines, load_maps))

    def write(self, folder: Path) -> None:
        """Write the lines, to be read back by `read`."""
        head = {"experiment": self.spec.name, "level": self.level.name, "notes": list(self.notes)}
        text = "\n".join(json.dumps(to_json(line)) for line in [head, *self.lines])
        (folder / RESULTS).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def read(spec: Spec, folder: Path) -> Findings:
        """The findings that `write` wrote."""
        file = folder / RESULTS
        try:
            head, *lines = [json.loads(line) for line in read_bytes(file).decode("utf-8").splitlines()]
            return Findings(spec, Level[head["level"]], lines, head["notes"])
        except (ValueError, KeyError, TypeError):
            raise FileError(f"{file} was not written by `cfusion reproduce`; run the experiment again") from None


def publish(chapters: Sequence[tuple[Findings, Chapter]], output: Path, command: str) -> None:
    """Write a folder per experiment with results, tables and figures, and index.html; all or nothing."""
    with filling(output) as draft:
        for findings, chapter in chapters:
            folder = draft / chapter.name
            folder.mkdir()
            findings.write(folder)
            for exhibit in chapter.exhibits:
                for name, content in exhibit.files().items():
                    (folder / name).write_bytes(content)
        (draft / "index.html").write_text(_page(chapters, command), encoding="utf-8")


def _page(chapters: Sequence[tuple[Findings, Chapter]], command: str) -> str:
    introduction = [
        "Confidence driven TGV fusion (Ntouskos and Pirri): every table and figure, our numbers with the published "
        "ones below them; green is at or below the published number, bold our best of a column.",
        f"Made by: {command}",
    ]
    lines = [line for findings, _ in chapters for line in findings.lines]
    made = [line["provenance"] for line in lines if line.get("provenance")]
    codes = sorted({str(each["code"]) for each in made})
    machines = sorted({str(each["machine"]) for each in made})
    footer = (
        f"commit {commit() or 'unknown'}; code {', '.join(codes) or '-'}; {'; '.join(machines) or '-'}; "
        f"{len({line['key'] for line in lines})} results"
    )
    return paper_page("The paper, reproduced", introduction, [chapter for _, chapter in chapters], footer)
