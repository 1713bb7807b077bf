"""Who may import whom, and which library lives where: DESIGN as a test."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cfusion"
EVERYWHERE = {"errors", "arrays"}
ON_GEOMETRY = {"geometry", "kernels"}
ON_SOLVERS = {"geometry", "kernels", "energy", "source", "confidence", "solvers", "parameters"}
BELOW_METHODS = ON_SOLVERS | {"auto"}
BELOW_REPORT = BELOW_METHODS | {"methods", "result", "fuse", "metrics", "io", "datasets", "synthetic", "frontends"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "arrays": set(),
    "geometry": {"kernels"},  # the formulas of cameras, which kernels share
    "kernels": set(),
    "energy": {"kernels"},
    "source": ON_GEOMETRY,
    "parameters": set(),
    "auto": ON_SOLVERS,
    "confidence": ON_GEOMETRY,
    "metrics": ON_GEOMETRY,
    "io": {"geometry"},
    "datasets": ON_GEOMETRY | {"io"},
    "synthetic": ON_GEOMETRY,
    "frontends": ON_GEOMETRY | {"io", "datasets"},  # a stereo bundle is read before it is matched
    "solvers": {"energy", "kernels", "geometry"},
    "methods": BELOW_METHODS,
    "result": {"geometry", "kernels", "solvers", "source", "view", "report"},  # only to show itself
    "fuse": BELOW_METHODS | {"methods", "result", "tiles", "datasets"},  # datasets only to check conventions
    "tiles": BELOW_METHODS | {"methods", "result"},
    "forecast": set(),
    "scene": BELOW_REPORT | {"forecast"},
    "rasters": ON_SOLVERS | {"io"},
    "experiments": BELOW_REPORT | {"report"},
    "report": BELOW_REPORT,
    "view": BELOW_REPORT | {"report", "scene"},
    "cli": BELOW_REPORT | {"report", "experiments", "forecast", "scene", "view", "rasters"},
    "__init__": BELOW_REPORT | {"scene", "rasters"},
    "__main__": {"cli"},
}
HOME_OF = {
    "numba": {"kernels", "frontends"},
    "llvmlite": {"kernels"},
    "cupy": {"kernels", "arrays"},  # arrays: only to take over what another library lends
    "dask": {"scene"},
    "matplotlib": {"report"},
    "PIL": {"io"},
    "rasterio": {"io", "rasters"},
    "OpenEXR": {"io"},
    "trimesh": {"synthetic", "scene"},
    "skimage": {"scene"},
    "distributed": {"scene", "rasters"},
    "embreex": {"synthetic"},
    "cv2": {"frontends"},
    "rich": {"cli"},
    "argcomplete": {"cli"},
    "viser": {"view"},
    "rerun": {"view"},
    "xarray": {"view"},
    "onnxruntime": {"frontends"},
}
NUMPY_AND_US = {"numpy", "cfusion"}
FILES = sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The top-level part a file belongs to: a folder, or a module."""
    top = path.relative_to(SOURCE).parts[0]
    return top.removesuffix(".py")


def is_typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def walk(node: ast.AST, *, late: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Nodes that run, and whether they run late (inside a function); imports for annotations do not run."""
    for child in ast.iter_child_nodes(node):
        if is_typing_only(child):
            continue
        yield child, late
        inside = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from walk(child, late=inside)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Dotted names a file imports, by statement or by importlib, and whether late."""
    for node, late in walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; name the module in full"
            if node.module == "cfusion":
                parts = (alias.name for alias in node.names if alias.name != "__version__")
                yield from ((f"cfusion.{part}", late) for part in parts)
            else:
                yield node.module or "", late
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "_module")):
            yield from ((each.value, late) for each in node.args if isinstance(each, ast.Constant))


def test_energies_know_only_the_contract_of_the_kernels() -> None:
    for path in FILES:
        names = {name for name, _ in imports(path) if name.startswith("cfusion.kernels")}
        assert part_of(path) != "energy" or names <= {"cfusion.kernels.contract"}


def test_the_table_knows_every_part() -> None:
    assert {part_of(path) for path in FILES} <= set(MAY_IMPORT)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    for name, _ in imports(path):
        package, _, inner = name.partition(".")
        if package == "cfusion" and inner:
            target = inner.split(".")[0]
            allowed = MAY_IMPORT[part] | EVERYWHERE | {part}
            assert target in allowed, f"{part} may not import {target}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_libraries_live_in_one_place(path: Path) -> None:
    for name, _ in imports(path):
        library = name.split(".")[0]
        assert part_of(path) in HOME_OF.get(library, {part_of(path)}), f"{library} does not belong here"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_known_libraries_are_imported(path: Path) -> None:
    import sys

    for name, _ in imports(path):
        library = name.split(".")[0]
        assert library in sys.stdlib_module_names | NUMPY_AND_US | set(HOME_OF), f"{library} is not declared"


def test_nothing_is_called_utils() -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
    assert not [path for path in FILES if path.stem in vague or path.parent.name in vague]


def test_the_rules_can_fail(tmp_path: Path) -> None:
    """The walker sees late imports and importlib, and skips imports for annotations only."""
    file = tmp_path / "x.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nimport importlib\n"
        "if TYPE_CHECKING:\n    from cfusion.cli import main\n"
        "def f():\n    import numba\n    importlib.import_module('PIL.Image')\n    from cfusion import cli\n"
    )
    found = dict(imports(file))
    assert found == {
        "typing": False,
        "importlib": False,
        "numba": True,
        "PIL.Image": True,
        "cfusion.cli": True,
    }
