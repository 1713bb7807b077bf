"""The version of the code that makes a result: a hash of the parsed sources, so that comments do not change it.

It is the same under every version of Python, so that results made on one machine are found on another.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# What cannot change a result, and why; a file or folder that is not named here counts.
EXCLUDED = {
    "cli": "shows and writes what was computed",
    "report": "shows what was computed",
    "view": "shows what was computed",
    "scene": "experiments end at one depth map",
    "forecast.py": "tells how long it will take",
    "rasters": "experiments read no height models",
    "datasets/readers": "experiments read meshes and KITTI's bundles only",
    "datasets/check": "looks at views, changes none",
    "datasets/read.py": "finds a reader by its format; experiments name theirs",
    "datasets/read_result.py": "reads what was written",
    "datasets/write_result.py": "writes what was computed",
    "datasets/write_views.py": "writes what was read",
    "io/atomic.py": "moves files, and changes none",
    "io/versions.py": "is told beside a result, and is no part of it",
    "experiments/checks.py": "judges what was computed",
    "experiments/code_version.py": "is about this list; its own hash of a source is a test",
    "experiments/eta.py": "tells how long it will take",
    "experiments/plan.py": "lists jobs; what decides a job is in its key",
    "experiments/provenance.py": "is told beside a result, and is no part of it",
    "experiments/publish.py": "shows what was computed",
    "experiments/read_spec.py": "makes jobs; what decides a job is in its key",
    "experiments/runner.py": "runs jobs, in any order",
    "experiments/so_far.py": "shows what was computed",
    "experiments/spec.py": "makes jobs; what decides a job is in its key",
    "experiments/store.py": "keeps what was computed",
    "experiments/summary.py": "shows what was computed",
    "experiments/whole_files.py": "keeps what was computed",
}
# What happens to views after they were rendered or matched.
FUSING = (
    *("auto", "confidence", "energy", "solvers", "source", "methods.py", "parameters.py", "result.py", "fuse.py"),
    *("metrics.py", "experiments/boxes.py", "experiments/watched.py", "experiments/work.py"),
)
# How views come from stereo pairs, and from nowhere else.
STEREO = ("frontends", "datasets", "io/codecs", "experiments/matches.py")
STEREO_READERS = ("datasets/readers/kitti.py", "datasets/readers/__init__.py")


@dataclass(frozen=True)
class Parts:
    """The parts of the package that count for something: all but some, and some of those after all."""

    without: tuple[str, ...]
    but: tuple[str, ...] = ()

    def hold(self, file: str) -> bool:
        """Whether a file, named from the package's folder, counts."""
        return _among(file, self.but) or not _among(file, self.without)


def solving(backend: str, *, kitti: bool = False) -> Parts:
    """What decides a result of that backend; the other backends do not, but NumPy's, which the others build on."""
    others = {"kernels/cpu", "kernels/cuda"} - {f"kernels/{backend}"}
    if kitti:
        return Parts((*EXCLUDED, *others), (*STEREO_READERS, "kernels/cpu"))
    return Parts((*EXCLUDED, *others, *STEREO))


RENDERING = Parts((*EXCLUDED, *FUSING, *STEREO, "kernels"))
MATCHING = Parts((*EXCLUDED, *FUSING, "kernels/cuda", "experiments/renders.py", "synthetic"), STEREO_READERS)


@lru_cache(8)
def code_version(parts: Parts, package: Path = PACKAGE) -> str:
    """Hash of the package's files that count; docstrings, comments and layout do not."""
    digest = sha256()
    for name in sorted(name for name in sources(package) if parts.hold(name)):
        digest.update(name.encode())
        digest.update(_meaning(package / name))
    return digest.hexdigest()[:16]


def sources(package: Path = PACKAGE) -> list[str]:
    """Every file of the package that is run, named from its folder."""
    found = [file for ending in ("py", "cu", "cuh") for file in package.rglob(f"*.{ending}")]
    return [file.relative_to(package).as_posix() for file in found]


def _among(file: str, parts: tuple[str, ...]) -> bool:
    folders = [file[:place] for place, letter in enumerate(file) if letter == "/"]
    return any(part in parts for part in (file, *folders))


def _meaning(file: Path) -> bytes:
    """What the interpreter makes of a file."""
    if file.suffix != ".py":
        return file.read_bytes()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        if isinstance(node, ast.JoinedStr):  # Python 3.12 adds an empty text to some
            node.values = [each for each in node.values if not (isinstance(each, ast.Constant) and each.value == "")]
    return _told(tree).encode()


def _told(part: object) -> str:
    """A tree in words. Fields that are empty are left out: later versions of Python have more of those."""
    if isinstance(part, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(part) if value is not None and value != []]
        return f"{type(part).__name__}({', '.join(f'{name}={_told(value)}' for name, value in fields)})"
    if isinstance(part, list):
        return f"[{', '.join(_told(each) for each in part)}]"
    return ascii(part)
