"""The version of the code that makes a result: a hash of the parsed sources, so that comments do not change it.

It is the same under every version of Python, so that results made on one machine are found on another.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
RENDERING = ("arrays.py", "geometry", "synthetic", "experiments/models.py", "experiments/renders.py")
SOLVING = (
    *RENDERING,
    *(
        "auto",
        "confidence",
        "energy",
        "solvers",
        "source",
        "methods.py",
        "parameters.py",
        "result.py",
        "fuse.py",
        "metrics.py",
    ),
    *("kernels/__init__.py", "kernels/contract.py", "kernels/numpy"),
    *("experiments/conditions.py", "experiments/boxes.py", "experiments/work.py", "experiments/watched.py"),
)
MATCHING = (
    *("arrays.py", "geometry", "frontends", "kernels/cpu", "experiments/matches.py"),
    *("datasets/readers/kitti.py", "datasets/kitti_bundle.py", "io/codecs/kitti_poses.py"),
)


def solving(backend: str, *, kitti: bool = False) -> tuple[str, ...]:
    """What decides a result of that backend; the other backends do not."""
    return (*SOLVING, f"kernels/{backend}", *(MATCHING if kitti else ()))


@lru_cache(8)
def code_version(parts: tuple[str, ...] = SOLVING, package: Path = PACKAGE) -> str:
    """Hash of the files and folders of the package; docstrings, comments and layout do not count."""
    digest = sha256()
    for file in sorted({file for part in parts for file in _sources(package / part)}):
        digest.update(file.relative_to(package).as_posix().encode())
        digest.update(_meaning(file))
    return digest.hexdigest()[:16]


def _sources(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [file for ending in ("py", "cu", "cuh") for file in place.rglob(f"*.{ending}")]


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
