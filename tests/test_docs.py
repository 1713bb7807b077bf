"""The site: code blocks run, commands parse, pages are in the table of contents, public names are documented."""

import inspect
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
PAGES = [DOCS / "index.md", *sorted((DOCS / "tutorials").glob("*.md"))]
ALL_PAGES = sorted(DOCS.rglob("*.md"))
SECONDS = 300


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_of_the_tutorials_runs(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    if not blocks:
        pytest.skip("this page has commands only")
    rng = np.random.default_rng(0)
    camera = Pinhole(40.0, 40.0, 16.0, 12.0, 32, 24)
    views = [View(2 + rng.laplace(0, 0.02, camera.shape), camera, Pose.identity(), name=f"v{k}") for k in range(5)]
    write_bundle(views, tmp_path / "data")
    code = "\n".join(blocks)
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_commands_of_the_pages_parse(page: Path) -> None:
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            assert words[0] == "cfusion"
            assert build_parser().parse_args(words[1:]).run is not None


@pytest.mark.parametrize("page", [p for p in ALL_PAGES if p.parent != DOCS], ids=lambda page: page.stem)
def test_links_of_the_tutorials_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_site_knows_every_page() -> None:
    listed = set(re.findall(r":\s+([\w/-]+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {str(page.relative_to(DOCS)) for page in ALL_PAGES}


def test_public_names_are_documented() -> None:
    for name in cfusion.__all__:
        thing = getattr(cfusion, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name
    api = (DOCS / "api.md").read_text()
    for name in ("fuse", "fuse_stack", "Result", "View", "Stack", "Pinhole", "Pose", "evaluate"):
        assert f"::: cfusion.{name}\n" in api


def test_every_method_is_explained_where_it_is_named() -> None:
    assert {name for name in METHODS if ":" not in name} <= set(explain.METHODS)
