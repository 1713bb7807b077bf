"""The public names: loaded on first use, always the same, whatever was imported before."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import cfusion

PLAIN = "__version__"


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_types_and_table_name_the_same_places() -> None:
    """What mypy is told is what is imported."""
    tree = ast.parse(Path(cfusion.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    told = {node.module: tuple(alias.name for alias in node.names) for node in imports}
    assert told == cfusion._HOME
    assert sorted(name for names in told.values() for name in names) == sorted({*cfusion.__all__} - {PLAIN})


@pytest.mark.parametrize(
    "before",
    [
        "import cfusion",
        "import cfusion.fuse",
        "import cfusion.fuse as any_name",
        "from cfusion.fuse import fuse_each",
        "import cfusion.tiles, cfusion.fuse, cfusion.cli.main",
        "import cfusion; cfusion.fuse_stack; import cfusion.fuse",
        "import importlib; importlib.reload(importlib.import_module('cfusion.fuse'))",
        "import sys, cfusion.fuse; del sys.modules['cfusion.fuse']; import cfusion.fuse",
        "import pickle, cfusion; pickle.loads(pickle.dumps(cfusion.fuse))",
        "from concurrent.futures import ThreadPoolExecutor as Pool; from importlib import import_module\n"
        "list(Pool(8).map(import_module, ['cfusion.fuse', 'cfusion.scene', 'cfusion.cli.main'] * 8))",
    ],
)
def test_fuse_is_the_function_although_a_module_has_its_name(before: str) -> None:
    after = "import cfusion; from cfusion import fuse\nprint(type(cfusion.fuse).__name__, fuse is cfusion.fuse)"
    assert python(f"{before}\n{after}") == "function True"


@pytest.mark.parametrize("name", cfusion.__all__)
def test_every_name_is_found_alone_and_stays(name: str) -> None:
    """In a process that asked for nothing else, the one that all the rest is made of."""
    assert name in dir(cfusion)
    assert getattr(cfusion, name) is getattr(cfusion, name)
    assert python(f"from cfusion import {name}; print(type({name}).__name__)") == type(getattr(cfusion, name)).__name__


def test_a_name_imports_its_own_part_only() -> None:
    """A pose needs neither methods nor readers."""
    program = "import sys; from cfusion import Pose; print(*(name for name in sys.modules if name in {0}))"
    assert python(program.format({"cfusion.methods", "cfusion.auto", "cfusion.fuse", "cfusion.datasets"})) == ""


def test_parts_are_found_by_attribute() -> None:
    """As the docs name them: `cfusion.scene.in_time`."""
    assert python("import cfusion; print(cfusion.scene.in_time.__name__)") == "in_time"


def test_a_name_that_there_is_not_is_refused_as_python_does() -> None:
    for name in ("fused", "_fuse", "__path_hook__"):
        with pytest.raises(AttributeError, match=f"module 'cfusion' has no attribute '{name}'"):
            getattr(cfusion, name)
    with pytest.raises(ImportError, match="cannot import name 'fused'"):
        from cfusion import fused  # type: ignore[attr-defined]  # noqa: F401


def test_a_part_that_lacks_a_library_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is missing inside a part is not told as a part that is missing."""
    (tmp_path / "needing.py").write_text("import a_library_that_is_not_there")
    monkeypatch.setattr(cfusion, "__path__", [*cfusion.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        cfusion.needing  # type: ignore[attr-defined]  # noqa: B018


def test_values_travel_by_pickle() -> None:
    for value in (cfusion.fuse, cfusion.Result, cfusion.METHODS["l1"], cfusion.Pose.identity(), cfusion.Status):
        assert repr(pickle.loads(pickle.dumps(value))) == repr(value)


def test_help_shows_every_public_name() -> None:
    """`help(cfusion)` in a fresh process."""
    shown = python("import cfusion, pydoc; print(pydoc.plain(pydoc.render_doc(cfusion)))")
    for name in {*cfusion.__all__} - {PLAIN}:
        assert name in shown
    assert "Fuse depth maps into one view" in shown
