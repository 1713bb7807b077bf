"""The site: code runs, commands parse, names exist, pages are in the table of contents, public names are documented."""

import importlib
import inspect
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cfusion
from cfusion import METHODS, Pinhole, Pose, View
from cfusion.cli.main import build_parser
from cfusion.datasets import write_bundle
from cfusion.view import explain

DOCS = Path(__file__).parent.parent / "docs"
ALL_PAGES = sorted(DOCS.rglob("*.md"))
SKETCHES = {"design", "scale"}  # code to read, of names that are elsewhere; and of clusters
PAGES = [page for page in ALL_PAGES if page.stem not in SKETCHES]
GIVEN = 'import cfusion\n\nDATA = "data"\nviews = cfusion.read(DATA)\n'  # what a page that is no tutorial goes on from
SECONDS = 300
FILES = ("html", "json", "ply", "py")  # `result.json` is a file
PLACEHOLDERS = {"cfusion.NAME"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_of_the_pages_runs(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    if not blocks:
        pytest.skip("this page has no Python")
    rng = np.random.default_rng(0)
    camera = Pinhole(40.0, 40.0, 16.0, 12.0, 32, 24)
    views = [View(2 + rng.laplace(0, 0.02, camera.shape), camera, Pose.identity(), name=f"v{k}") for k in range(5)]
    write_bundle(views, tmp_path / "data")
    if "a.tif" in "".join(blocks):
        write_rasters(tmp_path)
    code = "\n".join(blocks if page.parent != DOCS else [GIVEN, *blocks])
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == 0, run.stderr


def write_rasters(folder: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    place = rasterio.transform.from_origin(5e5, 5e6, 10, 10)
    about = {"driver": "GTiff", "width": 40, "height": 30, "count": 1, "dtype": "float32", "crs": "EPSG:32633"}
    for seed, name in enumerate(("a.tif", "b.tif")):
        with rasterio.open(folder / name, "w", transform=place, **about) as written:
            written.write(50 + np.random.default_rng(seed).normal(0, 1, (30, 40)).astype(np.float32), 1)


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_commands_of_the_pages_parse(page: Path) -> None:
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.splitlines() if kind in ("", "console") else ():
            ours = kind == "console" or (line.startswith("cfusion ") and "$(" not in line)
            words = shlex.split(line, comments=True) if ours else []
            if words:
                assert words[0] == "cfusion"
                assert build_parser().parse_args(words[1:]).run is not None, line


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_links_of_the_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name} links to {target}"


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute or field of one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return part in getattr(found, "__dataclass_fields__", {}) and part == parts[-1]
            found = getattr(found, part)
        return True
    return False


ROOT = DOCS.parent


@pytest.mark.parametrize("page", [*ALL_PAGES, *sorted(ROOT.glob("*.md"))], ids=lambda page: page.stem)
def test_no_page_holds_two_versions_of_itself(page: Path) -> None:
    """What a merge left to decide is still text: no page fails by it."""
    assert not re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", [*ALL_PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_names_of_the_pages_exist(page: Path) -> None:
    """Dotted names in backticks: `cfusion.a.b`, `metrics.ause` of a module of ours, and `result.depth` of a Result."""
    modules = "|".join(module.name for module in pkgutil.iter_modules(cfusion.__path__))
    dotted = re.compile(rf"(?<![\w./-])((?:cfusion|{modules})(?:\.[A-Za-z_]\w*)+)(?![\w/-])")
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        for name in dotted.findall(span):
            if name in PLACEHOLDERS or name.rpartition(".")[2] in FILES:
                continue
            full = name if name.startswith("cfusion.") else f"cfusion.{name}"
            assert exists(full.replace("cfusion.result.", "cfusion.Result.")), f"{page.name} names {name}"


def test_the_site_knows_every_page() -> None:
    listed = set(re.findall(r":\s+([\w/-]+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.MULTILINE))
    made = {"benchmarks/results.md"}  # of benchmarks/README.md, by docs/site_files.py
    assert listed == {str(page.relative_to(DOCS)) for page in ALL_PAGES} | made


def test_public_names_are_documented() -> None:
    for name in cfusion.__all__:
        thing = getattr(cfusion, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name
    api = (DOCS / "api.md").read_text()
    assert "::: cfusion.fuse.fuse\n" in api  # `cfusion.fuse` is a module, too, for a tool that does not import
    for name in ("fuse_stack", "Result", "View", "Stack", "Pinhole", "Pose", "evaluate"):
        assert f"::: cfusion.{name}\n" in api


def test_every_method_is_explained_where_it_is_named() -> None:
    assert {name for name in METHODS if ":" not in name} <= set(explain.METHODS)
