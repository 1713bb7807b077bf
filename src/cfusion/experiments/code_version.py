"""A hash of the parsed sources that determine a result, so that comments do not change it.

It is the same for every version of Python, so that results of one machine are found on another.
"""

import ast
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# Files that cannot change a result, and why; all others count.
EXCLUDED = {
    "cli": "shows and writes what was computed",
    "report": "shows what was computed",
    "view": "shows what was computed",
    "scene": "experiments end at one depth map",
    "forecast.py": "predicts durations",
    "rasters": "experiments read no height models",
    "datasets/readers": "experiments read meshes and KITTI's bundles only",
    "datasets/check": "checks views without changing them",
    "datasets/read.py": "finds a reader by its format; experiments name theirs",
    "datasets/read_result.py": "reads what was written",
    "datasets/write_result.py": "writes what was computed",
    "datasets/write_views.py": "writes what was read",
    "io/atomic.py": "moves files without changing them",
    "io/versions.py": "is recorded beside a result, not in it",
    "experiments/checks.py": "judges what was computed",
    "experiments/code_version.py": "holds this list; a test fixes its hash of a source",
    "experiments/plan.py": "lists jobs; a job's key covers its inputs",
    "experiments/provenance.py": "is recorded beside a result, not in it",
    "experiments/publish.py": "shows what was computed",
    "experiments/read_spec.py": "makes jobs; a job's key covers its inputs",
    "experiments/runner.py": "runs jobs, in any order",
    "experiments/so_far.py": "shows what was computed",
    "experiments/spec.py": "makes jobs; a job's key covers its inputs",
    "experiments/store.py": "keeps what was computed",
    "experiments/summary.py": "shows what was computed",
    "experiments/whole_files.py": "keeps what was computed",
}
# The fusion of views that were rendered or matched.
FUSING = (
    *("auto", "confidence", "energy", "solvers", "source", "methods.py", "parameters.py", "result.py", "fuse.py"),
    *("metrics.py", "experiments/boxes.py", "experiments/watched.py", "experiments/work.py"),
)
# The parts that make views from stereo pairs only.
STEREO = ("frontends", "datasets", "io/codecs", "experiments/matches.py")
STEREO_READERS = ("datasets/readers/kitti.py", "datasets/readers/__init__.py")


@dataclass(frozen=True)
class Parts:
    """Files of the package that count: all but `without`, plus `but`."""

    without: tuple[str, ...]
    but: tuple[str, ...] = ()

    def hold(self, file: str) -> bool:
        """Whether a file, relative to the package, counts."""
        return _among(file, self.but) or not _among(file, self.without)


def solving(backend: str, *, kitti: bool = False) -> Parts:
    """The parts that determine a result of a backend: no other backend, except NumPy's, on which all build."""
    others = {"kernels/cpu", "kernels/cuda"} - {f"kernels/{backend}"}
    if kitti:
        return Parts((*EXCLUDED, *others), (*STEREO_READERS, "kernels/cpu"))
    return Parts((*EXCLUDED, *others, *STEREO))


RENDERING = Parts((*EXCLUDED, *FUSING, *STEREO, "kernels"))
MATCHING = Parts((*EXCLUDED, *FUSING, "kernels/cuda", "experiments/renders.py", "synthetic"), STEREO_READERS)


@lru_cache(8)
def code_version(parts: Parts, package: Path = PACKAGE) -> str:
    """Hash of the files that count, without docstrings, comments and layout."""
    digest = sha256()
    for name in sorted(name for name in sources(package) if parts.hold(name)):
        digest.update(name.encode())
        digest.update(_meaning(package / name))
    return digest.hexdigest()[:16]


def sources(package: Path = PACKAGE) -> list[str]:
    """Every executed file of the package, relative to it."""
    found = [file for ending in ("py", "cu", "cuh") for file in package.rglob(f"*.{ending}")]
    return [file.relative_to(package).as_posix() for file in found]


def _among(file: str, parts: tuple[str, ...]) -> bool:
    folders = [file[:place] for place, letter in enumerate(file) if letter == "/"]
    return any(part in parts for part in (file, *folders))


def _meaning(file: Path) -> bytes:
    """The parsed contents of a file."""
    if file.suffix != ".py":
        return file.read_bytes()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        if isinstance(node, ast.JoinedStr):  # Python 3.12 adds an empty text to some
            node.values = [each for each in node.values if not (isinstance(each, ast.Constant) and each.value == "")]
    return _as_text(tree).encode()


def _as_text(part: object) -> str:
    """A syntax tree as text, without empty fields, of which later versions of Python have more."""
    if isinstance(part, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(part) if value is not None and value != []]
        return f"{type(part).__name__}({', '.join(f'{name}={_as_text(value)}' for name, value in fields)})"
    if isinstance(part, list):
        return f"[{', '.join(_as_text(each) for each in part)}]"
    return ascii(part)
