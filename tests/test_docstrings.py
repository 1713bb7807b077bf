"""Every public name is documented: each parameter with its unit, and an example that runs."""

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

import cfusion
from cfusion.view import write_page

PLAIN = {"METHODS", "Camera", "__version__"}  # data, which have no docstring of their own; docs/api.md has them
NAMES = [name for name in cfusion.__all__ if name not in PLAIN]
METHODS = {"Pinhole": ["from_matrix"], "Result": ["points", "save", "report", "plot", "to_xarray"]}
NEEDED = {"fuse_rasters": "rasterio", "plot": "matplotlib", "to_xarray": "xarray", "save": "PIL"}


def documented() -> dict[str, Any]:
    found = {name: getattr(cfusion, name) for name in NAMES} | {"write_page": write_page}
    for name, methods in METHODS.items():
        found |= {f"{name}.{method}": getattr(getattr(cfusion, name), method) for method in methods}
    return found


@pytest.mark.parametrize("name", documented())
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part, library in NEEDED.items():
        if name.endswith(part):
            pytest.importorskip(library)
    if name.endswith("plot"):
        monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(documented()[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert example.examples, f"{name} has no example"
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", documented())
def test_every_parameter_is_explained(name: str) -> None:
    thing = documented()[name]
    if name in ("CFusionError", "Method", "Status"):  # nobody calls these
        return
    text = inspect.getdoc(thing) or ""
    for parameter in inspect.signature(thing).parameters:
        if parameter not in ("self", "cls"):
            assert f"    {parameter}: " in text, f"{name} does not say what {parameter} is"


def test_the_reference_has_every_public_name() -> None:
    reference = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
    for name in cfusion.__all__:
        told = (f"cfusion.{name}\n", f"cfusion.{name}.{name}\n", f"`{name}`")
        assert any(each in reference for each in told), name
